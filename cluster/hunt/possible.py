"""Rules for the faults that one case can have. Pure."""

import itertools
from collections.abc import Callable, Sequence

from rmqlab.cluster.hunt.faults import KINDS, MEMBERS, NAMESERVER, Fault

_GAP = 2.0
"""Minimum seconds between two faults on one target."""
_ELECTION = 15.0
"""Maximum seconds in which two members elect a leader."""


def is_possible(faults: Sequence[Fault]) -> bool:
    """True if a cluster can play these faults, and RocketMQ must survive them."""
    return all(rule(faults) for rule in _RULES)


def _one_disk_loses_data(faults: Sequence[Fault]) -> bool:
    """True for at most one loss of data.

    RocketMQ guarantees nothing after a second one.
    """
    return sum(KINDS[fault.kind].loses_data for fault in faults) <= 1


def _brokers_start_with_a_nameserver(faults: Sequence[Fault]) -> bool:
    """True if a nameserver runs at each start of a broker.

    Without one, a broker does not become ready.
    """
    away = [fault for fault in faults if fault.target == NAMESERVER]
    starts = [fault.ends_at for fault in faults if KINDS[fault.kind].ends_with_start and fault.target != NAMESERVER]
    return not any(fault.at - _GAP <= at <= fault.ends_at + _GAP for fault in away for at in starts)


def _brokers_stop_with_a_quick_disk(faults: Sequence[Fault]) -> bool:
    """True if no broker is stopped during a slow or failing sync.

    A clean stop syncs all files: with slow syncs it exceeds its timeout, with failing syncs it is unclean.
    """
    return not any(
        fault.kind == "restart"
        and other.kind in ("slow-sync", "failing-sync")
        and fault.target == other.target
        and _is_during(fault, other)
        for fault in faults
        for other in faults
    )


def _brokers_start_with_a_disk_that_syncs(faults: Sequence[Fault]) -> bool:
    """True if no broker starts while its syncs fail.

    A start that has to repair its store must first write to disk that it is damaged, and is refused otherwise.
    """
    return not any(
        KINDS[fault.kind].ends_with_start
        and other.kind == "failing-sync"
        and fault.target == other.target
        and other.at - _GAP <= fault.ends_at <= other.ends_at + _GAP
        for fault in faults
        for other in faults
    )


def _is_during(fault: Fault, other: Fault) -> bool:
    return other.at <= fault.at <= other.ends_at


def _members_start_with_a_quorum(faults: Sequence[Fault]) -> bool:
    """True if one of the other members has no fault at each start of a member.

    A member is ready when its group has a leader, for which two of three are needed.
    """
    return all(
        any(_is_sound(other, fault.ends_at, faults) for other in MEMBERS if other != fault.target)
        for fault in faults
        if KINDS[fault.kind].ends_with_start and fault.target in MEMBERS
    )


def _is_sound(member: str, at: float, faults: Sequence[Fault]) -> bool:
    """True if no fault is on a member, nor on a link, until an election is over."""
    return not any(
        (fault.target == member or KINDS[fault.kind].is_of_link)
        and fault.at <= at + _ELECTION
        and fault.ends_at >= at - _GAP
        for fault in faults
    )


def _one_fault_at_a_time(faults: Sequence[Fault]) -> bool:
    """True if no process, disk or link has overlapping faults."""
    by_target: dict[str, list[Fault]] = {}
    for fault in sorted(faults, key=lambda fault: fault.at):
        kind = KINDS[fault.kind]
        by_target.setdefault("the link" if kind.is_of_link else f"{fault.target}{kind.part}", []).append(fault)
    return all(
        after.at >= before.ends_at + _GAP for own in by_target.values() for before, after in itertools.pairwise(own)
    )


_RULES: Sequence[Callable[[Sequence[Fault]], bool]] = (
    _one_disk_loses_data,
    _brokers_start_with_a_nameserver,
    _brokers_stop_with_a_quick_disk,
    _brokers_start_with_a_disk_that_syncs,
    _members_start_with_a_quorum,
    _one_fault_at_a_time,
)
