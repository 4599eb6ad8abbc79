"""Absences and beliefs, input of the metrics about routes and detection. No I/O.

Times are milliseconds of the cluster's clock; an end of None means open: the end of the run or later.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

Span: TypeAlias = tuple[int, int | None]
"""Start and end."""


@attrs.frozen
class ClusterEvent:
    """One event of the cluster."""

    at: int
    node: str
    kind: str
    fields: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Member:
    """A node of the cluster, from its own report."""

    name: str
    address: str = ""
    broker: str = ""
    broker_id: int | None = None


@attrs.frozen
class Absence:
    """A time in which a node did not serve. `until` None: it never returned."""

    node: str
    how: str
    at: int
    until: int | None
    is_ordered: bool = True


@attrs.frozen
class Belief:
    """A time in which a watcher names an address."""

    watcher: str
    address: str
    since: int
    until: int | None


@attrs.frozen(kw_only=True)
class Known:
    """All absences and beliefs of a run."""

    members: Mapping[str, Member]
    first_ready: Mapping[str, int]
    absences: tuple[Absence, ...]
    """Sorted by their start."""
    of_nameservers: tuple[Belief, ...]
    of_clients: tuple[Belief, ...]
    ended_at: int

    @property
    def beliefs(self) -> tuple[Belief, ...]:
        return (*self.of_nameservers, *self.of_clients)

    @property
    def nameservers(self) -> list[str]:
        return [one.name for one in self.members.values() if one.address and not one.broker]

    @property
    def brokers(self) -> list[Member]:
        return [one for one in self.members.values() if one.broker]

    def away(self, node: str) -> list[Span]:
        """Return when a node was away; absences that touch or overlap are merged."""
        return _merged((one.at, one.until) for one in self.absences if one.node == node)

    def contradicting(self, belief: Belief, node: str) -> list[Span]:
        """Return when a node was away, for comparison with a belief about it.

        A starting broker registers before it is ready: the belief of a nameserver from then on is not an error.
        """
        is_nameserver = belief.watcher in self.nameservers
        return _merged(
            (one.at, one.until)
            for one in self.absences
            if one.node == node and not (is_nameserver and belief.since > one.at)
        )


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Merge spans, sorted by their start, that touch or overlap."""
    whole: list[Span] = []
    for at, until in spans:
        if not whole or not _reaches(whole[-1], at):
            whole.append((at, until))
        elif whole[-1][1] is not None:
            whole[-1] = (whole[-1][0], until if until is None else max(until, whole[-1][1]))
    return whole


def _reaches(span: Span, at: int) -> bool:
    return span[1] is None or span[1] >= at


def shared(one: Span, other: Span) -> Span | None:
    """Return the common time of two spans, or None."""
    at = max(one[0], other[0])
    until = min((end for end in (one[1], other[1]) if end is not None), default=None)
    return (at, until) if until is None or at < until else None


def uncovered(span: Span, covers: Iterable[Span]) -> Iterator[Span]:
    """Return the parts of a span that no other span covers, by a sweep of borders."""
    begin, end = span
    met = [one for one in covers if shared(one, span)]
    borders = [(at, 1) for at, _ in met] + [(until, -1) for _, until in met if until is not None]
    depth, free_from = 0, begin
    for at, step in sorted(borders, key=lambda border: (border[0], -border[1])):
        if step > 0 and not depth and at > free_from:
            yield free_from, at
        depth += step
        if not depth:
            free_from = at
    if not depth and (end is None or free_from < end):
        yield free_from, end
