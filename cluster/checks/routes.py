"""Compares routes of nameservers and clients with the absences of brokers.

`stale_route` is the longest time with the address of a broker that was dead, stopped or frozen. A broker registers
before it is ready: a route with a starting broker is correct. `missing_route` is the longest time without a broker that
was ready, `route_disagreement` the longest time in which two running nameservers had different brokers. Time in which a
nameserver itself is away does not count.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.checks.beliefs import (
    Belief,
    Span,
    beliefs_of_clients,
    beliefs_of_nameservers,
    merged,
    overlap,
    without,
)
from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Member
from rmqlab.cluster.checks.history import History
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Evidence, Finding, unknown


@attrs.frozen
class _Wrong:
    """An interval in which a route contradicted the truth or another route."""

    span: Span
    text: str


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.ROUTES`."""
    of_nameservers, of_clients = beliefs_of_nameservers(history), beliefs_of_clients(history)
    nameservers = [member.name for member in history.members.values() if member.is_nameserver]
    clients = dict.fromkeys(belief.watcher for belief in of_clients)
    for watcher, beliefs in [
        *((name, of_nameservers) for name in nameservers),
        *((name, of_clients) for name in clients),
    ]:
        own = [belief for belief in beliefs if belief.watcher == watcher]
        yield _longest(f"stale_route {watcher}", _stale(watcher, own, history), history)
    for name in nameservers:
        own = [belief for belief in of_nameservers if belief.watcher == name]
        yield _longest(f"missing_route {name}", _missing(name, own, history), history)
    if len(nameservers) < 2:
        yield unknown("route_disagreement", "s", f"needs two nameservers; there is {len(nameservers)}")
    else:
        yield _longest("route_disagreement", _disagreements(nameservers, of_nameservers, history), history)


def _away(node: str, history: History) -> list[Span]:
    return merged(Span(absence.at, absence.until) for absence in history.absences if absence.node == node)


def _first_ready(node: str, history: History) -> int:
    return next(entry.at_millis for entry in history.of_kind("node_ready") if entry.node == node)


def _brokers(history: History) -> Iterator[Member]:
    return (member for member in history.members.values() if member.is_broker)


def _stale(watcher: str, beliefs: Iterable[Belief], history: History) -> Iterator[_Wrong]:
    away = _away(watcher, history)
    names = {member.address: member.name for member in _brokers(history)}
    for belief in beliefs:
        for span in _contradicting(belief, names.get(belief.address, ""), history):
            if shared := overlap(span, belief.span):
                for left in without(shared, away):
                    yield _Wrong(left, f"{watcher} named {names[belief.address]}, which was away")


def _contradicting(belief: Belief, node: str, history: History) -> list[Span]:
    """Return when a node was away, for comparison with a belief about it.

    A broker registers before it is ready: a nameserver's belief that begins during the absence is correct.
    """
    is_nameserver = history.members[belief.watcher].is_nameserver if belief.watcher in history.members else False
    return merged(
        Span(absence.at, absence.until)
        for absence in history.absences
        if absence.node == node and not (is_nameserver and belief.span.at > absence.at)
    )


def _missing(nameserver: str, beliefs: Sequence[Belief], history: History) -> Iterator[_Wrong]:
    away = _away(nameserver, history)
    for member in _brokers(history):
        named = [belief.span for belief in beliefs if belief.address == member.address]
        for left in without(
            Span(_first_ready(member.name, history), None), [*named, *away, *_away(member.name, history)]
        ):
            yield _Wrong(left, f"{nameserver} did not name {member.name}, which was ready")


def _disagreements(nameservers: Sequence[str], beliefs: Sequence[Belief], history: History) -> Iterator[_Wrong]:
    for one, other in itertools.combinations(nameservers, 2):
        began = max(_first_ready(one, history), _first_ready(other, history))
        away = [*_away(one, history), *_away(other, history), Span(0, began)]
        for address in dict.fromkeys(belief.address for belief in beliefs):
            by = {
                name: [belief.span for belief in beliefs if (belief.watcher, belief.address) == (name, address)]
                for name in (one, other)
            }
            for names_it, does_not in ((one, other), (other, one)):
                for span in by[names_it]:
                    for left in without(span, [*by[does_not], *away]):
                        yield _Wrong(left, f"{names_it} named {address}, and {does_not} did not")


def _longest(metric: str, wrongs: Iterable[_Wrong], history: History) -> Finding:
    def seconds(wrong: _Wrong) -> float:
        return (wrong.span.end(history.ended_at) - wrong.span.at) / 1000

    found = sorted((wrong for wrong in wrongs if seconds(wrong) > 0), key=seconds, reverse=True)
    return Finding(
        metric=metric,
        unit="s",
        value=seconds(found[0]) if found else 0.0,
        is_at_least=bool(found) and found[0].span.until is None,
        evidence=tuple(
            Evidence(
                text=f"{wrong.text}, for {seconds(wrong):.2f} s",
                at_millis=wrong.span.at,
                until_millis=wrong.span.until,
                entries=history.around(wrong.span.at),
            )
            for wrong in found[:EVIDENCE_LIMIT]
        ),
    )
