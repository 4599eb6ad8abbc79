"""Reduces a case that breaks a claim, and finds what fixes it. Pure.

Whether a case breaks the claim is asked of a function, for several cases at once: those are played in parallel.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import attrs

from rmqlab.cluster.hunt.case import FIRST_FAULT, PLAIN, Case
from rmqlab.cluster.hunt.faults import KINDS, Fault
from rmqlab.cluster.hunt.possible import is_possible

Breaks = Callable[[Sequence[Case]], Iterator[bool]]
"""Yields for each case, in their order, whether it breaks the claim. Those not asked for need not be played."""
_MOST_SUCCESSES = 40
"""Reductions of one case, at most."""
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
    """Yield the case with one thing simpler.

    Undone at its end, with a simpler load, with earlier faults, or with shorter ones. The first has all of it.
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


def fixed_by(case: Case, drawn: Case, switches: Sequence[str], breaks: Breaks) -> list[str]:
    """Return the switches of which each alone keeps the case from breaking the claim.

    Those that are on in the case stay on. A switch that changes only when things happen may fix one case by chance. So
    the first ones are those that also fix most of what is like the case: the one that was drawn, a later one, and a
    longer one.
    """
    tried = [switch for switch in switches if switch not in case.switches]
    fixes = [
        switch
        for switch, is_broken in zip(tried, breaks([_with(case, switch) for switch in tried]), strict=True)
        if not is_broken
    ]
    if len(fixes) < 2:
        return fixes
    alike = [one for one in (drawn, *_alike(case)) if one != case]
    broken = [one for one, is_broken in zip(alike, breaks(alike), strict=True) if is_broken]
    counts = {switch: sum(not one for one in breaks([_with(like, switch) for like in broken])) for switch in fixes}
    return sorted(fixes, key=lambda switch: -counts[switch])


def _with(case: Case, switch: str) -> Case:
    return attrs.evolve(case, switches=(*case.switches, switch))


def _alike(case: Case) -> Iterator[Case]:
    """Yield the case with its faults later, and with longer ones."""
    later = tuple(attrs.evolve(fault, at=fault.at + _LATER) for fault in case.faults)
    yield attrs.evolve(case, faults=later, cut_at=None if case.cut_at is None else case.cut_at + _LATER)
    longer = tuple(attrs.evolve(fault, seconds=2 * fault.seconds) for fault in case.faults)
    if is_possible(longer):
        yield attrs.evolve(case, faults=longer)
