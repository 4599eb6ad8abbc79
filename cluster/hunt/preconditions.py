"""What a cluster is promised in a case: conditions of claims. Pure."""

from rmqlab.cluster.hunt.case import DELAYED, ORDERLY, Case
from rmqlab.cluster.hunt.casefile import end_label_of, label_of
from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, NAMESERVER, SLAVE, Fault

_CLOSING = ("kill", "restart", "power-loss", "wipe", "disk-full")
"""Kinds of faults in which the slave closes its connection."""
_AWAY = ("kill", "restart", "power-loss", "pause", "isolate")
"""Kinds of faults in which clients do not reach their broker."""
HANDED_BACK_SECONDS = 10.0
"""In which a slave finds a master that was started again, and hands offsets back."""
SAVED_SECONDS = 5.0
"""In which a master saves the offsets that were committed to it."""
RECONNECT_SECONDS = 25.0
"""In which a slave finds its master again after a fault."""
REGISTERED_SECONDS = 35.0
"""In which each broker registers again: it does so every 30 s."""
REST_SECONDS = 25.0
"""What a case lasts after its last fault, at least."""
SILENT_SECONDS = 45.0
"""Silence of a master that a slave can notice: its housekeeping takes 20 s."""


def keeps_disks(case: Case) -> bool:
    """False if a power loss may take messages that ASYNC_FLUSH has not synced."""
    return not (case.uses("power-loss") and case.flush == "ASYNC_FLUSH")


def keeps_files(case: Case) -> bool:
    """False if files are deleted before their time, by a full disk (store-ha#30), too."""
    return keeps_disks(case) and not case.uses("disk-full")


def keeps_slave(case: Case) -> bool:
    """False if the run may end before the slave has again what its disk lost."""
    return is_undone(case) or not any(KINDS[fault.kind].loses_data and fault.target == SLAVE for fault in case.faults)


def has_bytes_in_common(case: Case) -> bool:
    """False if the run may end while the slave lacks all that its master has.

    Its store is wiped, or the master deleted what it has because of a full disk.
    """
    return is_undone(case) or not any(
        fault.kind == "wipe" or (fault.kind == "disk-full" and fault.target == MASTER) for fault in case.faults
    )


def is_undone(case: Case) -> bool:
    return case.cut_at is None


def is_started_again(case: Case) -> bool:
    """False if a broker is without power at the end.

    Its queues may point at lost parts of its log.
    """
    return not any(fault.kind == "power-loss" for fault in case.in_force_at_end())


def keeps_what_was_read(case: Case) -> bool:
    """False if a power loss may take messages that a consumer has read.

    They were not synced yet. Their queue offsets are used again, below the offset that the consumer has committed. The
    broker's own copy of a delayed message never waits for a sync (store-and-ha, section 7.1).
    """
    is_late = case.uses("slow-sync") or case.uses("failing-sync")
    has_unsynced_copies = case.load == DELAYED and any(
        KINDS[fault.kind].loses_data and fault.target == MASTER for fault in case.faults
    )
    return keeps_disks(case) and not (case.uses("power-loss") and is_late) and not has_unsynced_copies


def commits_in_time(case: Case) -> bool:
    """False if a commit may arrive late.

    An isolated broker's kernel gets it when the isolation ends.
    """
    return keeps_what_was_read(case) and not case.uses("isolate")


def loses_last_commits(case: Case) -> bool:
    """True if no broker may have the last commits of a consumer that ends.

    Its master is killed before they are saved, or is away, while the consumer's route still names it. The next consumer
    begins with older offsets, and commits these unless it reads from the slave first.
    """
    return any(
        end.kind == "consumer"
        and away.target == MASTER
        and away.kind in ("kill", "power-loss")
        and away.at - SAVED_SECONDS <= end.at <= away.ends_at
        and (end.at >= away.at or end.ends_at >= away.ends_at or case.load == ORDERLY)
        for end in case.faults
        for away in case.faults
    )


def begins_with_old_offsets(case: Case) -> bool:
    """True if a consumer may begin while only the slave has offsets.

    They are copied every 10 s, and handed back when the master has been found again.
    """
    return any(
        begin.kind == "consumer"
        and away.target == MASTER
        and away.kind in _AWAY
        and away.at <= begin.ends_at <= away.ends_at + HANDED_BACK_SECONDS
        for begin in case.faults
        for away in case.faults
    )


def copies_offsets(case: Case) -> bool:
    """True if the slave gets the offsets of its master, as long as that lives."""
    return all(fault.kind == "consumer" or (fault.target == MASTER and fault.kind in _AWAY) for fault in case.faults)


def can_consume_all(case: Case) -> bool:
    return keeps_what_was_read(case) and not case.uses("disk-full")


def can_find_the_common_part(case: Case) -> bool:
    """False if the slave may lack data that it needs to follow its master again.

    The master lost the end of its log, and the slave deleted the files that both had.
    """
    return not (
        any(KINDS[fault.kind].loses_data and fault.target == MASTER for fault in case.faults)
        and any(fault.kind == "disk-full" and fault.target == SLAVE for fault in case.faults)
    )


def has_time_to_follow(case: Case) -> bool:
    """False if the run may end before the slave follows its master again.

    The master lost the end of its log. Until the slave reconnects, it has what the master lost, and the master has
    written other records at these offsets.
    """
    if case.cut_at is None:
        return True
    returns = [fault.ends_at for fault in case.faults if fault.target == MASTER and KINDS[fault.kind].loses_data]
    return not any(
        returned_at < case.cut_at
        and (case.cut_at - returned_at < RECONNECT_SECONDS or any(fault.ends_at > returned_at for fault in case.faults))
        for returned_at in returns
    )


def leaves_the_slave_to_read(case: Case) -> bool:
    """True if nothing happens but that the master ends, and everyone can see it.

    Orderly consumers need the master's locks.
    """
    return (
        is_undone(case)
        and case.load != ORDERLY
        and all(fault.target == MASTER and fault.kind in ("kill", "restart", "power-loss") for fault in case.faults)
    )


def silences_the_master(case: Case) -> bool:
    """True if a connected slave hears nothing for SILENT_SECONDS.

    And if nothing else happens to its connection.
    """
    return is_undone(case) and any(
        fault.kind in ("pause", "isolate")
        and fault.target == MASTER
        and fault.seconds >= SILENT_SECONDS
        and not any(_is_near(other, fault) for other in case.faults if other is not fault)
        for fault in case.faults
    )


_HARMLESS = ("consumer", "slow-sync", "failing-sync", "slow-link")
"""Kinds of faults during which a slave stays connected, or connects."""


def _is_near(other: Fault, fault: Fault) -> bool:
    """True if it may keep the slave from being connected.

    When the fault begins, or until it ends.
    """
    if other.kind in _HARMLESS:
        return False
    return other.ends_at > fault.at - RECONNECT_SECONDS and other.at < fault.ends_at


def replies_at_once(case: Case) -> bool:
    """True if nothing delays the replies that a slave releases before its death."""
    return case.role == "SYNC_MASTER" and all(
        fault.target in (CONSUMER, NAMESERVER)
        or (fault.target == MASTER and fault.kind in ("forged-report", "disk-full"))
        or (fault.target == SLAVE and KINDS[fault.kind].ends_process)
        for fault in case.faults
    )


def when_the_nameserver_is_back(case: Case) -> str | None:
    """Return the last step that starts a nameserver again.

    Both brokers can reach it until the end. None without one, or if the case may end before they have registered: it
    lasts 25 s after the last fault.
    """
    last = max((fault.ends_at for fault in case.faults), default=0.0)
    starts = [
        (fault.ends_at, end_label_of(number, fault))
        for number, fault in enumerate(case.faults, 1)
        if fault.target == NAMESERVER and fault.kind == "kill"
    ]
    if not is_undone(case) or not starts or any(fault.target in (MASTER, SLAVE) for fault in case.faults):
        return None
    at, label = max(starts)
    is_last = all(fault.target != NAMESERVER or fault.at < at for fault in case.faults)
    return label if is_last and last - at >= REGISTERED_SECONDS - REST_SECONDS else None


def until_the_master_cannot_know(case: Case) -> str | None:
    """Return the first fault that may hide the slave's state from its master.

    From then on the master may not have detected that its slave is silent.
    """
    for number, fault in enumerate(case.faults, 1):
        if fault.kind not in ("slow-link", "consumer") and not (fault.target == SLAVE and fault.kind in _CLOSING):
            return label_of(number, fault)
    return None
