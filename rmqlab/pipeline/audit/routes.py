"""Compare routes of nameservers and clients with absences of brokers. No I/O.

Metrics: stale_route WATCHER (longest time in which it named a broker that was away), missing_route NAMESERVER (in
which it did not name one that was ready), route_disagreement (in which two nameservers that ran named different
brokers). Time in which a nameserver itself is away does not count.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rmqlab.pipeline.audit.watchers import Belief, Known, Span, shared, uncovered
from rmqlab.verdict.catalogue import SECONDS
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Finding, line_evidence, unknown

Wrong = tuple[Span, str]
"""An interval in which a route contradicted an absence or another route, and a description."""


def judge(known: Known) -> Iterator[Finding]:
    """Yield findings for each nameserver, and each client that reported routes."""
    clients = dict.fromkeys(belief.watcher for belief in known.of_clients)
    for watchers, beliefs in ((known.nameservers, known.of_nameservers), (clients, known.of_clients)):
        for watcher in watchers:
            yield _longest(f"stale_route {watcher}", _stale(known, watcher, beliefs), known)
    for nameserver in known.nameservers:
        yield _longest(f"missing_route {nameserver}", _missing(known, nameserver), known)
    if len(known.nameservers) < 2:
        count = len(known.nameservers)
        yield unknown("route_disagreement", SECONDS, f"needs two nameservers; there is {count}")
    else:
        pairs = itertools.combinations(known.nameservers, 2)
        wrongs = itertools.chain.from_iterable(_disagreement(known, *pair) for pair in pairs)
        yield _longest("route_disagreement", wrongs, known)


def _stale(known: Known, watcher: str, beliefs: Sequence[Belief]) -> Iterator[Wrong]:
    nodes = {member.address: member.name for member in known.brokers}
    own_absences = known.away(watcher)
    for belief in beliefs:
        node = nodes.get(belief.address)
        if belief.watcher != watcher or node is None:
            continue
        for away in known.contradicting(belief, node):
            if (contradicted := shared(away, (belief.since, belief.until))) is not None:
                yield from (
                    (span, f"{watcher} named {node}, which was away") for span in uncovered(contradicted, own_absences)
                )


def _missing(known: Known, nameserver: str) -> Iterator[Wrong]:
    own_absences = known.away(nameserver)
    for member in known.brokers:
        named = _held(known, nameserver, member.address)
        since_ready = (known.first_ready[member.name], None)
        for span in uncovered(since_ready, [*named, *own_absences, *known.away(member.name)]):
            yield span, f"{nameserver} did not name {member.name}, which was ready"


def _disagreement(known: Known, one: str, other: str) -> Iterator[Wrong]:
    not_yet = (0, max(known.first_ready[one], known.first_ready[other]))
    away = [*known.away(one), *known.away(other), not_yet]
    for address in dict.fromkeys(belief.address for belief in known.of_nameservers):
        for names, does_not in ((one, other), (other, one)):
            covers = [*_held(known, does_not, address), *away]
            for held in _held(known, names, address):
                text = f"{names} named {address}, and {does_not} did not"
                yield from ((span, text) for span in uncovered(held, covers))


def _held(known: Known, nameserver: str, address: str) -> list[Span]:
    return [
        (one.since, one.until) for one in known.of_nameservers if (one.watcher, one.address) == (nameserver, address)
    ]


def _longest(metric: str, wrongs: Iterable[Wrong], known: Known) -> Finding:
    measured = [
        ((known.ended_at if until is None else until) - at, until is None, text) for (at, until), text in wrongs
    ]
    measured = sorted((one for one in measured if one[0] > 0), key=lambda one: -one[0])
    millis, is_open, _ = measured[0] if measured else (0, False, "")
    return Finding(
        metric=metric,
        unit=SECONDS,
        value=millis / 1000,
        is_at_least=is_open,
        evidence=line_evidence(f"{text}, for {millis / 1000:.2f} s" for millis, _, text in measured[:EVIDENCE_LIMIT]),
    )
