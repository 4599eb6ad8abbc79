"""Claims that a hunt tries to break.

They hold on a cluster that does what its users expect.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.hunt.case import DELAYED, HALVES, ORDERLY, Case
from rmqlab.cluster.hunt.casefile import (
    ALL_IS_CONSUMED,
    DELAYS_ARE_OVER,
    HALVES_ARE_DECIDED,
    HEALED,
    SLAVE_HAS_ALL,
    WRITES_ARE_BACK,
    label_of,
)
from rmqlab.cluster.hunt.moves import CONSUMER, KINDS, MASTER, SLAVE, Move

QUICK_MILLIS = 2500
"""Longest time of a send that need not wait for its slave: less than the time-out of that wait, 3 s."""
_CLOSING = ("kill", "restart", "power-loss", "wipe", "disk-full")
"""Kinds of moves in which the slave closes its connection."""

_AWAY = ("kill", "restart", "power-loss", "pause", "isolate")
"""Kinds of moves in which clients do not reach their broker."""

HANDED_BACK_SECONDS = 10.0
"""In which a slave finds a master that was started again, and hands offsets back."""
RECONNECT_SECONDS = 25.0
"""In which a slave finds its master again after a fault."""
READ_SECONDS = 45.0
"""In which a consumer finds the slave: it asks for the route every 30 s, and tries a pull again after 3 s."""
COPIED_DELIVERIES = 60
"""What a producer sends in 20 s. Consumers commit every 5 s, and the slave copies every 10 s."""
SILENT_SECONDS = 45.0
"""Silence of a master that a slave can notice: its housekeeping takes 20 s."""


@attrs.frozen(kw_only=True)
class Claim:
    """One claim."""

    name: str
    says: str
    expectations: tuple[Mapping[str, Any], ...]
    """As in a scenario file: one that is violated breaks the claim."""
    applies: Callable[[Case], bool] = lambda _: True
    """True for cases in which it is promised."""
    since: str = ""
    """Label of a step: the claim is judged only in runs that reach it."""
    until: Callable[[Case], str | None] = lambda _: None
    """Returns the label of the step at which the claim ends; None for the end of the run."""

    def expectations_for(self, case: Case) -> list[dict[str, Any]]:
        """Return the expectations as a scenario file has them."""
        label = self.until(case)
        return [{**expectation, **({} if label is None else {"before": label})} for expectation in self.expectations]


def _reaches(label: str) -> Mapping[str, Any]:
    return {"name": f"{label}: reached", "event": "step", "where": {"label": label}, "equals": "1 events"}


def _is_metric(metric: str, unit: str) -> Mapping[str, Any]:
    return {"metric": metric, "equals": f"0 {unit}"}


def _keeps_disks(case: Case) -> bool:
    """False if a power loss may take messages that ASYNC_FLUSH has not synced."""
    return not (case.uses("power-loss") and case.flush == "ASYNC_FLUSH")


def _keeps_files(case: Case) -> bool:
    """False if files are deleted before their time, by a full disk (store-ha#30), too."""
    return _keeps_disks(case) and not case.uses("disk-full")


def _keeps_slave(case: Case) -> bool:
    """False if the run may end before the slave has again what its disk lost."""
    return _is_undone(case) or not any(KINDS[move.kind].loses_data and move.target == SLAVE for move in case.moves)


def _has_bytes_in_common(case: Case) -> bool:
    """False if the run may end while the slave lacks all that its master has.

    Its store is wiped, or the master deleted what it has because of a full disk.
    """
    return _is_undone(case) or not any(
        move.kind == "wipe" or (move.kind == "disk-full" and move.target == MASTER) for move in case.moves
    )


def _is_undone(case: Case) -> bool:
    return case.cut_at is None


def _is_started_again(case: Case) -> bool:
    """False if a broker is without power at the end.

    Its queues may point at what its log lost.
    """
    return not any(move.kind == "power-loss" for move in case.in_force_at_end())


def _keeps_what_was_read(case: Case) -> bool:
    """False if a power loss may take messages that a consumer has read.

    They were not synced yet. Their queue offsets are used again, below the offset that the consumer has committed.
    """
    return _keeps_disks(case) and not (case.uses("power-loss") and case.uses("slow-sync"))


def _commits_in_time(case: Case) -> bool:
    """False if a commit may arrive late.

    An isolated broker's kernel gets it when the isolation ends.
    """
    return _keeps_what_was_read(case) and not case.uses("isolate")


def _begins_with_old_offsets(case: Case) -> bool:
    """True if a consumer may begin while only the slave knows offsets.

    They are copied every 10 s, and handed back when the master has been found again.
    """
    return any(
        begin.kind == "consumer"
        and away.target == MASTER
        and away.kind in _AWAY
        and away.at <= begin.ends_at <= away.ends_at + HANDED_BACK_SECONDS
        for begin in case.moves
        for away in case.moves
    )


def _copies_offsets(case: Case) -> bool:
    """True if nothing keeps the slave from the offsets of its master, except that the master ends."""
    return all(move.kind == "consumer" or (move.target == MASTER and move.kind in _AWAY) for move in case.moves)


def _can_consume_all(case: Case) -> bool:
    return _keeps_what_was_read(case) and not case.uses("disk-full")


def _can_find_the_common_part(case: Case) -> bool:
    """False if the slave may lack what it needs to follow its master again.

    The master lost the end of its log, and the slave deleted the files that both had.
    """
    return not (
        any(KINDS[move.kind].loses_data and move.target == MASTER for move in case.moves)
        and any(move.kind == "disk-full" and move.target == SLAVE for move in case.moves)
    )


def _leaves_the_slave_to_read(case: Case) -> bool:
    """True if nothing happens but that the master ends, and everyone can see it.

    Orderly consumers need the master's locks.
    """
    return (
        _is_undone(case)
        and case.load != ORDERLY
        and all(move.target == MASTER and move.kind in ("kill", "restart", "power-loss") for move in case.moves)
    )


def _silences_the_master(case: Case) -> bool:
    """True if a connected slave hears nothing for SILENT_SECONDS.

    And if nothing else happens to its connection.
    """
    return _is_undone(case) and any(
        move.kind in ("pause", "isolate")
        and move.target == MASTER
        and move.seconds >= SILENT_SECONDS
        and not any(_is_near(other, move) for other in case.moves if other is not move)
        for move in case.moves
    )


_HARMLESS = ("consumer", "slow-sync", "failing-sync", "slow-link")
"""Kinds of moves during which a slave stays connected, or connects."""


def _is_near(other: Move, move: Move) -> bool:
    """True if it may keep the slave from being connected.

    When the move begins, or until it ends.
    """
    if other.kind in _HARMLESS:
        return False
    return other.ends_at > move.at - RECONNECT_SECONDS and other.at < move.ends_at


def _until_the_master_cannot_know(case: Case) -> str | None:
    """Return the first move that may hide the slave's state from its master.

    From then on the master may not know that its slave will not answer.
    """
    for number, move in enumerate(case.moves, 1):
        if move.kind not in ("slow-link", "consumer") and not (move.target == SLAVE and move.kind in _CLOSING):
            return label_of(number, move)
    return None


CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim(
            name="nothing-lost",
            says="what was acknowledged with SEND_OK is in a store",
            expectations=(_is_metric("lost.SEND_OK", "messages"),),
            applies=_keeps_disks,
        ),
        Claim(
            name="replicated",
            says="what a SYNC_MASTER acknowledged with SEND_OK is in its slave's store",
            expectations=(_is_metric(f"unreplicated {MASTER}", "messages"),),
            applies=lambda case: case.role == "SYNC_MASTER" and _keeps_slave(case),
        ),
        Claim(
            name="same-log",
            says="the slave's log has the bytes of its master's",
            expectations=(_is_metric(f"divergence {SLAVE}", "bytes"),),
            applies=lambda case: _can_find_the_common_part(case) and _has_bytes_in_common(case),
        ),
        Claim(
            name="slave-complete",
            says="a slave that has caught up has all that was acknowledged",
            expectations=(_is_metric(f"missing {SLAVE}", "messages"),),
            applies=_keeps_files,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="queues-match",
            says="entries of consume queues point at their records",
            expectations=tuple(_is_metric(f"dangling {node}", "entries") for node in (MASTER, SLAVE)),
            applies=_is_started_again,
        ),
        Claim(
            name="all-queued",
            says="each record of a broker that was stopped in good order has its entry",
            expectations=tuple(_is_metric(f"unqueued {node}", "records") for node in (MASTER, SLAVE)),
            applies=_is_undone,
        ),
        Claim(
            name="offsets-advance",
            says="no consumer offset goes back",
            expectations=(_is_metric("offset_rollbacks", "times"),),
            applies=_commits_in_time,
        ),
        Claim(
            name="progress-kept",
            says="nothing is consumed again because an offset went back",
            expectations=(_is_metric("duplicates.offset_rollback", "deliveries"),),
            applies=lambda case: _commits_in_time(case) and not _begins_with_old_offsets(case),
        ),
        Claim(
            name="offsets-saved",
            says="the master's file has the consumer offsets that were committed to it",
            expectations=(_is_metric(f"offset_file_behind {MASTER}", "messages"),),
            applies=_is_undone,
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="offsets-copied",
            says="a consumer that begins with the slave's offsets receives again what 20 s had, at most",
            expectations=({"metric": "duplicates.offset_rollback", "at_most": f"{COPIED_DELIVERIES} deliveries"},),
            applies=lambda case: _commits_in_time(case) and _copies_offsets(case),
        ),
        Claim(
            name="slave-notices",
            says="a slave that hears nothing from its master for 45 s closes the connection",
            expectations=(
                {
                    "name": "connections that the slave closed",
                    "event": "ha_client_disconnected",
                    "where": {"node": SLAVE},
                    "before": HEALED,
                    "at_least": "1 events",
                },
            ),
            applies=_silences_the_master,
        ),
        Claim(
            name="quick-sends",
            says="a send takes at most 2.5 s while the master knows about its slave",
            expectations=(
                {
                    "name": "longest send",
                    "event": "sent",
                    "take": "max",
                    "field": "took",
                    "at_most": f"{QUICK_MILLIS} ms",
                },
            ),
            until=_until_the_master_cannot_know,
        ),
        Claim(
            name="writes-return",
            says="after the last undo, sends are acknowledged by the slave within a minute",
            expectations=(_reaches(WRITES_ARE_BACK),),
            applies=lambda case: _is_undone(case) and _can_find_the_common_part(case),
        ),
        Claim(
            name="slave-returns",
            says="after the last undo, the slave catches up",
            expectations=(_reaches(SLAVE_HAS_ALL),),
            since=WRITES_ARE_BACK,
        ),
        Claim(
            name="all-consumed",
            says="every stored message is consumed in the end",
            expectations=(_reaches(ALL_IS_CONSUMED),),
            applies=_can_consume_all,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="in-order",
            says="an orderly consumer receives each queue in its order",
            expectations=(_is_metric(f"order.delivered {CONSUMER}", "messages"),),
            applies=lambda case: case.load == ORDERLY and _keeps_what_was_read(case),
        ),
        Claim(
            name="delays-end",
            says="every delayed message is consumed in the end",
            expectations=(_reaches(DELAYS_ARE_OVER),),
            applies=lambda case: case.load == DELAYED and _can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="halves-decided",
            says="every half message with SEND_OK is committed in the end; its producer is asked if need be",
            expectations=(_reaches(HALVES_ARE_DECIDED),),
            applies=lambda case: case.load in HALVES and _can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="reads-survive",
            says="while the slave lives, a consumer waits for reads at most 45 s after the master's end",
            expectations=({"metric": f"read_unavailable {MASTER}", "at_most": f"{READ_SECONDS:g} s"},),
            applies=_leaves_the_slave_to_read,
        ),
        Claim(
            name="pulls-wake",
            says="a pull that a broker holds ends when a message for it arrives",
            expectations=({"name": "pulls held too long", "event": "held_pulls_overdue", "equals": "0 events"},),
        ),
        Claim(
            name="no-crash",
            says="no process ends by itself, or computes without an end",
            expectations=({"name": "crashes", "event": "node_crashed", "equals": "0 events"},),
        ),
    )
}
"""By name."""
