"""The routes of each nameserver and each client over time. Pure.

Nameservers emit changes of their routes (`broker_registered` and three kinds of removal), clients emit every route that
they fetch (`route_believed`). Addresses are those of brokers, `host:port`.
"""

import collections
from collections.abc import Iterable, Iterator

import attrs

from rmqlab.cluster.checks.history import History
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.eventmaps import route_addresses

REMOVALS = ("broker_connection_lost", "broker_expired", "broker_unregistered")


@attrs.frozen
class Span:
    """An interval in milliseconds of the cluster's clock.

    `until` is None if it is open at the end of the run.
    """

    at: int
    until: int | None

    def end(self, run_end: int) -> int:
        """Return the end of the interval, at most the end of the run."""
        return run_end if self.until is None else self.until


@attrs.frozen
class Belief:
    """An interval in which one watcher had one address in its routes."""

    watcher: str
    address: str
    span: Span
    dropped_by: JournalEntry | None
    """The event that ended it; None if it is missing in the journal."""


def beliefs_of_nameservers(history: History) -> list[Belief]:
    """Return the routes of every nameserver over time. A restart empties them."""
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    beliefs: list[Belief] = []

    def drop(watcher: str, address: str, entry: JournalEntry) -> None:
        if (since := named[watcher].pop(address, None)) is not None:
            beliefs.append(Belief(watcher, address, Span(since, entry.at_millis), entry))

    for entry in history.of_kind("broker_registered", *REMOVALS, "node_killed", "node_crashed", "node_stopped"):
        if entry.kind == "broker_registered":
            named[entry.node].setdefault(str(entry.fields["address"]), entry.at_millis)
        elif entry.kind in REMOVALS:
            drop(entry.node, str(entry.fields["address"]), entry)
        else:
            for address in list(named[entry.node]):
                drop(entry.node, address, entry)
    return beliefs + list(_open_beliefs(named))


def beliefs_of_clients(history: History) -> list[Belief]:
    """Return the routes of every client over time.

    An address counts while any of the client's routes contains it.
    """
    routes: dict[str, dict[str, set[str]]] = collections.defaultdict(dict)
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    beliefs: list[Belief] = []
    for entry in history.of_kind("route_believed", "node_killed", "node_crashed", "node_stopped"):
        if entry.kind == "route_believed":
            routes[entry.node][str(entry.fields["topic"])] = route_addresses(entry.fields.get("brokers"))
        else:
            routes.pop(entry.node, None)
        now = set[str]().union(*routes[entry.node].values())
        for address in now - named[entry.node].keys():
            named[entry.node][address] = entry.at_millis
        for address in named[entry.node].keys() - now:
            since = named[entry.node].pop(address)
            beliefs.append(Belief(entry.node, address, Span(since, entry.at_millis), entry))
    return beliefs + list(_open_beliefs(named))


def _open_beliefs(named: dict[str, dict[str, int]]) -> Iterator[Belief]:
    for watcher, since in named.items():
        for address, at in since.items():
            yield Belief(watcher, address, Span(at, None), None)


def overlap(one: Span, other: Span) -> Span | None:
    """Return the intersection of two spans; None if they do not overlap."""
    at = max(one.at, other.at)
    ends = [span.until for span in (one, other) if span.until is not None]
    until = min(ends, default=None)
    return Span(at, until) if until is None or at < until else None


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that touch or overlap."""
    whole: list[Span] = []
    for span in sorted(spans, key=lambda span: span.at):
        last = whole[-1] if whole else None
        if last is None or (last.until is not None and last.until < span.at):
            whole.append(span)
        elif last.until is not None:
            until = None if span.until is None else max(last.until, span.until)
            whole[-1] = Span(last.at, until)
    return whole


def without(span: Span, others: Iterable[Span]) -> list[Span]:
    """Return the parts of a span that no other span covers."""
    left = []
    at: int | None = span.at
    for cut in sorted(others, key=lambda cut: cut.at):
        if at is None or (span.until is not None and cut.at >= span.until):
            break
        if cut.at > at:
            left.append(Span(at, cut.at))
        at = None if cut.until is None else max(at, cut.until)
    if at is not None and (span.until is None or at < span.until):
        left.append(Span(at, span.until))
    return left
