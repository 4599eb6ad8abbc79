"""Reduces a case that breaks a claim, and finds what fixes it. Pure.

A function decides whether cases break the claim. It gets several cases at once, to play them in parallel.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import attrs

from rmqlab.cluster.hunt.case import FIRST_FAULT, PLAIN, Case
from rmqlab.cluster.hunt.faults import KINDS, Fault
from rmqlab.cluster.hunt.possible import is_possible

Breaks = Callable[[Sequence[Case]], Iterator[bool]]
"""Yields for each case, in order, whether it breaks the claim. Cases that the caller does not consume need no play."""
_MOST_SUCCESSES = 40
"""Maximum number of reductions of one case."""
_LATER = 10.0
"""Seconds by which the faults of a similar case are later."""


def shrink(case: Case, breaks: Breaks) -> Case:
    """Return a smaller case that breaks the claim, too.

    It has fewer faults first, then earlier, shorter and rounder ones.
    """
    tried = {case}
    for _ in range(_MOST_SUCCESSES):
        smaller = _first_that_breaks(_with_fewer_faults(case), breaks, tried)
        if smaller is None:
            smaller = _first_that_breaks(_with_simpler_faults(case), breaks, tried)
        if smaller is None:
            return case
        case = smaller
    return case


def _first_that_breaks(cases: Iterator[Case], breaks: Breaks, tried: set[Case]) -> Case | None:
    """Return the first case that breaks the claim, of those that were not tried yet."""
    fresh = [case for case in dict.fromkeys(cases) if case not in tried]
    for case, is_broken in zip(fresh, breaks(fresh), strict=False):
        tried.add(case)
        if is_broken:
            return case
    return None


def _with_fewer_faults(case: Case) -> Iterator[Case]:
    """Yield the case with half of its faults, and without each of them."""
    count = len(case.faults)
    if count > 3:
        yield attrs.evolve(case, faults=case.faults[: count // 2])
        yield attrs.evolve(case, faults=case.faults[count // 2 :])
    if count > 1:
        for number in range(count):
            yield attrs.evolve(case, faults=case.faults[:number] + case.faults[number + 1 :])


def _with_simpler_faults(case: Case) -> Iterator[Case]:
    """Yield cases with one simplification each; the first case has all of them.

    The simplifications: all faults undone at the end, a plain load, earlier faults, shorter faults.
    """
    yield from _simplest(case)
    if case.cut_at is not None:
        yield attrs.evolve(case, cut_at=None)
    if case.work:
        yield attrs.evolve(case, work=0.0)
    if case.load != PLAIN:
        yield attrs.evolve(case, load=PLAIN)
    early = _early(case)
    if early != case:
        yield early
    for number, fault in enumerate(case.faults):
        for seconds in _shorter(fault):
            faults = (*case.faults[:number], attrs.evolve(fault, seconds=seconds), *case.faults[number + 1 :])
            if is_possible(faults):
                yield attrs.evolve(case, faults=faults)


def _simplest(case: Case) -> Iterator[Case]:
    faults = [
        attrs.evolve(fault, seconds=KINDS[fault.kind].least) if fault.is_timed else fault for fault in case.faults
    ]
    if is_possible(faults):
        yield _early(attrs.evolve(case, faults=tuple(faults), cut_at=None, work=0.0, load=PLAIN))


def _early(case: Case) -> Case:
    """Return the case with faults rounded to seconds, from the first possible time on."""
    shift = min((fault.at for fault in case.faults), default=FIRST_FAULT) - FIRST_FAULT
    faults = tuple(attrs.evolve(fault, at=float(round(fault.at - shift))) for fault in case.faults)
    cut_at = None if case.cut_at is None else float(math.ceil(case.cut_at - shift))
    return attrs.evolve(case, faults=faults, cut_at=cut_at) if is_possible(faults) else case


def _shorter(fault: Fault) -> Iterator[float]:
    if not fault.is_timed:
        return
    least = KINDS[fault.kind].least
    for seconds in (least, float(max(least, fault.seconds // 2))):
        if seconds < fault.seconds:
            yield seconds
    if fault.seconds != round(fault.seconds) >= least:
        yield float(round(fault.seconds))


def fixing_switches(case: Case, drawn: Case, switches: Sequence[str], breaks: Breaks) -> list[str]:
    """Return the switches that fix the case, each alone in addition to its own.

    A switch that only changes timing may fix one case by chance. So the switches are sorted by the number of similar
    cases that they fix, too: the drawn case, one with later faults, and one with longer faults.
    """
    tried = [switch for switch in switches if switch not in case.switches]
    fixes = [
        switch
        for switch, is_broken in zip(tried, breaks([_with(case, switch) for switch in tried]), strict=True)
        if not is_broken
    ]
    if len(fixes) < 2:
        return fixes
    similar = [one for one in (drawn, *_similar(case)) if one != case]
    broken = [one for one, is_broken in zip(similar, breaks(similar), strict=True) if is_broken]
    counts = {switch: sum(not one for one in breaks([_with(like, switch) for like in broken])) for switch in fixes}
    return sorted(fixes, key=lambda switch: -counts[switch])


def _with(case: Case, switch: str) -> Case:
    return attrs.evolve(case, switches=(*case.switches, switch))


def _similar(case: Case) -> Iterator[Case]:
    """Yield the case with its faults later, and with longer ones."""
    later = tuple(attrs.evolve(fault, at=fault.at + _LATER) for fault in case.faults)
    yield attrs.evolve(case, faults=later, cut_at=None if case.cut_at is None else case.cut_at + _LATER)
    longer = tuple(attrs.evolve(fault, seconds=2 * fault.seconds) for fault in case.faults)
    if is_possible(longer):
        yield attrs.evolve(case, faults=longer)
