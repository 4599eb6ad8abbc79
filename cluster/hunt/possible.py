"""Which moves a cluster can play together. Pure."""

import itertools
from collections.abc import Callable, Sequence

from rmqlab.cluster.hunt.moves import KINDS, NAMESERVER, Move

_GAP = 2.0
"""Seconds between two moves on one target."""


def is_possible(moves: Sequence[Move]) -> bool:
    """True if a cluster can play these moves, and is promised to survive them."""
    return all(rule(moves) for rule in _RULES)


def _one_disk_loses_data(moves: Sequence[Move]) -> bool:
    """RocketMQ promises nothing after a second one."""
    return sum(KINDS[move.kind].loses_data for move in moves) <= 1


def _brokers_start_with_a_nameserver(moves: Sequence[Move]) -> bool:
    """Without one, a broker does not become ready."""
    away = [move for move in moves if move.target == NAMESERVER]
    starts = [move.ends_at for move in moves if KINDS[move.kind].ends_with_start and move.target != NAMESERVER]
    return not any(move.at - _GAP <= at <= move.ends_at + _GAP for move in away for at in starts)


def _brokers_stop_with_a_quick_disk(moves: Sequence[Move]) -> bool:
    """A stop syncs each file.

    With a slow disk it does not end in time, and with a failing one not in good order.
    """
    return not any(
        move.kind == "restart"
        and other.kind in ("slow-sync", "failing-sync")
        and move.target == other.target
        and _is_during(move, other)
        for move in moves
        for other in moves
    )


def _is_during(move: Move, other: Move) -> bool:
    return other.at <= move.at <= other.ends_at


def _one_move_at_a_time(moves: Sequence[Move]) -> bool:
    """On each process, disk and link."""
    by_target: dict[str, list[Move]] = {}
    for move in sorted(moves, key=lambda move: move.at):
        kind = KINDS[move.kind]
        by_target.setdefault("the link" if kind.is_of_link else f"{move.target}{kind.part}", []).append(move)
    return all(
        after.at >= before.ends_at + _GAP for own in by_target.values() for before, after in itertools.pairwise(own)
    )


_RULES: Sequence[Callable[[Sequence[Move]], bool]] = (
    _one_disk_loses_data,
    _brokers_start_with_a_nameserver,
    _brokers_stop_with_a_quick_disk,
    _one_move_at_a_time,
)
