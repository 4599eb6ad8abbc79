"""Conditions of claims: True if a claim must hold in a case. Pure."""

from rmqlab.cluster.hunt.case import DELAYED, ORDERLY, Case
from rmqlab.cluster.hunt.casefile import end_label_of, label_of
from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, NAMESERVER, SLAVE, Fault
from rmqlab.verdict.rules import HARDENED

_CLOSING = ("kill", "restart", "power-loss", "wipe", "disk-full")
"""Kinds of faults in which the slave closes its connection."""
_AWAY = ("kill", "restart", "power-loss", "pause", "isolate")
"""Kinds of faults in which clients do not reach their broker."""
HANDED_BACK_SECONDS = 10.0
"""Time in which a slave reconnects to a restarted master and sends it newer offsets."""
SAVED_SECONDS = 5.0
"""Time in which a master saves committed offsets."""
RECONNECT_SECONDS = 25.0
"""Time in which a slave reconnects to its master after a fault."""
REGISTERED_SECONDS = 35.0
"""Time in which each broker registers again; the period is 30 s."""
REST_SECONDS = 25.0
"""Minimum time from the last fault to the end of a case."""
SILENT_SECONDS = 45.0
"""Time without bytes after which a slave closes the connection: the timeout is 20 s, checked every 20 s."""


def keeps_disks(case: Case) -> bool:
    """False if a power loss may lose messages that ASYNC_FLUSH has not synced."""
    return not (case.uses("power-loss") and case.flush == "ASYNC_FLUSH")


def keeps_entries(case: Case) -> bool:
    """False if a power loss may lose acknowledged entries of a DLedger member.

    It may then lead with one other member, and without these entries. With profile hardened, entries are on disk before
    they are acknowledged (`dleger_ack_after_sync`).
    """
    return case.profile == HARDENED or not case.uses("power-loss")


def keeps_entry_files(case: Case) -> bool:
    """False if a power loss or a full disk may lose entries of a DLedger member.

    A full disk makes it delete files before they expire.
    """
    return keeps_entries(case) and not case.uses("disk-full")


def keeps_files(case: Case) -> bool:
    """False if a power loss or a full disk may lose messages (store-ha#30)."""
    return keeps_disks(case) and not case.uses("disk-full")


def keeps_slave(case: Case) -> bool:
    """False if the run may end before the slave has received its lost data again."""
    return is_undone(case) or not any(KINDS[fault.kind].loses_data and fault.target == SLAVE for fault in case.faults)


def keeps_common_bytes(case: Case) -> bool:
    """False if the run may end while master and slave have no common log range.

    The slave's store is wiped, or the master deleted the common files because of a full disk.
    """
    return is_undone(case) or not any(
        fault.kind == "wipe" or (fault.kind == "disk-full" and fault.target == MASTER) for fault in case.faults
    )


def is_undone(case: Case) -> bool:
    return case.cut_at is None


def ends_with_power(case: Case) -> bool:
    """False if a broker has lost power and is not started before the end.

    Its queues may point at lost parts of its log until a start recovers them.
    """
    return not any(fault.kind == "power-loss" for fault in case.in_force_at_end())


def keeps_consumed_messages(case: Case) -> bool:
    """False if a power loss may lose unsynced messages that a consumer has received.

    New messages then reuse their queue offsets, below the consumer's committed offset. Delivered copies of delayed
    messages are never synced synchronously (store-and-ha, section 7.1).
    """
    is_late = case.uses("slow-sync") or case.uses("failing-sync")
    has_unsynced_copies = case.load == DELAYED and any(
        KINDS[fault.kind].loses_data and fault.target == MASTER for fault in case.faults
    )
    return keeps_disks(case) and not (case.uses("power-loss") and is_late) and not has_unsynced_copies


def commits_in_time(case: Case) -> bool:
    """False if a commit may arrive late.

    TCP delivers commits to an isolated broker when the isolation ends.
    """
    return keeps_consumed_messages(case) and not case.uses("isolate")


def loses_last_commits(case: Case) -> bool:
    """True if the last commits of a consumer that ends may be lost.

    Its master is killed before it saves them, or is unreachable while the consumer's route still contains it. The next
    consumer then starts with older offsets, and commits these unless it reads from the slave first.
    """
    return any(
        end.kind == "consumer"
        and away.target == MASTER
        and away.kind in ("kill", "power-loss")
        and away.at - SAVED_SECONDS <= end.at <= away.ends_at
        and (end.at >= away.at or case.load == ORDERLY or not _finds_slave(case, end.ends_at, away))
        for end in case.faults
        for away in case.faults
    )


def _finds_slave(case: Case, at: float, away: Fault) -> bool:
    """True if a consumer that starts then reads from the slave of an absent master.

    Without both brokers, the nameserver drops the queues of their topics until the master registers again.
    """
    return at < away.ends_at and not any(
        fault.target == SLAVE and fault.at <= at and fault.ends_at >= away.at for fault in case.faults
    )


def begins_with_old_offsets(case: Case) -> bool:
    """True if a consumer may start while only the slave can return offsets.

    The slave copies offsets every 10 s, and sends newer ones to the master after it reconnects.
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
    """True if the slave copies the offsets of its master until the master ends."""
    return all(fault.kind == "consumer" or (fault.target == MASTER and fault.kind in _AWAY) for fault in case.faults)


def can_consume_all(case: Case) -> bool:
    return keeps_consumed_messages(case) and not case.uses("disk-full")


def keeps_common_files(case: Case) -> bool:
    """False if master and slave may have no common log range left.

    The master lost the end of its log, and the slave deleted the earlier files.
    """
    return not (
        any(KINDS[fault.kind].loses_data and fault.target == MASTER for fault in case.faults)
        and any(fault.kind == "disk-full" and fault.target == SLAVE for fault in case.faults)
    )


def has_time_to_follow(case: Case) -> bool:
    """False if the run may end before the slave follows its master again.

    The master lost the end of its log, and wrote other records at these offsets. The slave keeps the lost records until
    it reconnects.
    """
    if case.cut_at is None:
        return True
    returns = [fault.ends_at for fault in case.faults if fault.target == MASTER and KINDS[fault.kind].loses_data]
    return not any(
        returned_at < case.cut_at
        and (case.cut_at - returned_at < RECONNECT_SECONDS or any(fault.ends_at > returned_at for fault in case.faults))
        for returned_at in returns
    )


def only_master_ends(case: Case) -> bool:
    """True if the only fault ends the master's process, which closes its connections.

    False for orderly consumers: they need the master's locks.
    """
    return (
        is_undone(case)
        and case.load != ORDERLY
        and all(fault.target == MASTER and fault.kind in ("kill", "restart", "power-loss") for fault in case.faults)
    )


def has_silent_master(case: Case) -> bool:
    """True if a connected slave receives nothing for SILENT_SECONDS.

    No other fault may affect the connection.
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
    """True if `other` may keep the slave disconnected at some time during a fault."""
    if other.kind in _HARMLESS:
        return False
    return other.ends_at > fault.at - RECONNECT_SECONDS and other.at < fault.ends_at


def replies_at_once(case: Case) -> bool:
    """True if no fault delays the master's replies after the slave's acknowledgement."""
    return case.role == "SYNC_MASTER" and all(
        fault.target in (CONSUMER, NAMESERVER)
        or (fault.target == MASTER and fault.kind in ("forged-report", "disk-full"))
        or (fault.target == SLAVE and KINDS[fault.kind].ends_process)
        for fault in case.faults
    )


def last_nameserver_start(case: Case) -> str | None:
    """Return the label of the last step that restarts a nameserver.

    Both brokers can reach it until the end. None if no step does, or if the case may end before they have registered:
    it lasts 25 s after the last fault.
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


def first_fault_hiding_the_slave(case: Case) -> str | None:
    """Return the label of the first fault that may hide the slave's state.

    From then on the master may count a silent slave as connected. None without such a fault.
    """
    for number, fault in enumerate(case.faults, 1):
        if fault.kind not in ("slow-link", "consumer") and not (fault.target == SLAVE and fault.kind in _CLOSING):
            return label_of(number, fault)
    return None
