"""Measures how long nameservers and clients keep the address of an absent broker.

`detection WATCHER` is measured from the signal that ended, paused or isolated the broker (without a signal: from the
moment the supervisor saw the end) until the watcher's routes lack its address. A watcher is a nameserver or a workload.
The longest counts, of all absences that the watcher could notice. A broker that was back before it was dropped does not
count (see `stale_route`). If a frozen broker is killed before anyone noticed, the kill counts.
"""

from collections.abc import Iterator, Sequence

import attrs

from rmqlab.cluster.checks.absences import Absence
from rmqlab.cluster.checks.beliefs import Belief, Span, beliefs_of_clients, beliefs_of_nameservers, overlap
from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Evidence, Finding, unknown

_NOTICED_FIRST = 5000
"""Milliseconds by which others may see an unexpected end before the supervisor does."""


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Yield `catalogue.DETECTION` findings for watchers with a broker in their routes."""
    beliefs = [*beliefs_of_nameservers(history), *beliefs_of_clients(history)]
    nameservers = [member.name for member in history.members.values() if member.is_nameserver]
    for watcher in dict.fromkeys([*nameservers, *(belief.watcher for belief in beliefs)]):
        yield _judge_watcher(watcher, [belief for belief in beliefs if belief.watcher == watcher], history)


@attrs.frozen
class _Noticed:
    """One absence, as one watcher noticed it."""

    absence: Absence
    seconds: float
    is_over: bool
    """False if the watcher still has the address when the run ends."""
    belief: Belief


def _judge_watcher(watcher: str, beliefs: Sequence[Belief], history: History) -> Finding:
    metric = f"detection {watcher}"
    away = [Span(absence.at, absence.until) for absence in history.absences if absence.node == watcher]
    noticed, why_not = [], []
    for absence in history.absences:
        member = history.members.get(absence.node)
        if member is None or not member.is_broker:
            continue
        belief = _held_at(absence, beliefs, member.address)
        if belief is None:
            continue
        found = _notice(absence, belief, history)
        waited = overlap(Span(absence.at, absence.until), belief.span)
        if waited and any(overlap(span, waited) for span in away):
            why_not.append(f"{watcher} was away itself")
        elif found is None and _is_overtaken(absence, history):
            continue
        elif found is None:
            why_not.append(f"{absence.node} was back before {watcher} noticed that it was {absence.how}")
        else:
            noticed.append(found)
    if not noticed:
        return unknown(metric, "s", "; ".join(why_not) or f"no broker that {watcher} named was ever away")
    noticed.sort(key=lambda found: -found.seconds)
    return Finding(
        metric=metric,
        unit="s",
        value=noticed[0].seconds,
        is_at_least=not noticed[0].is_over,
        text="; ".join(why_not),
        evidence=tuple(_evidence(found, history) for found in noticed[:EVIDENCE_LIMIT]),
    )


def _is_overtaken(absence: Absence, history: History) -> bool:
    """True if another absence follows at once, which then counts instead.

    An example is a frozen broker that is killed.
    """
    return any(other.node == absence.node and other.at == absence.until for other in history.absences)


def _held_at(absence: Absence, beliefs: Sequence[Belief], address: str) -> Belief | None:
    """Return the first belief in the address that was held when the absence began."""
    went = absence.at if absence.is_ordered else absence.at - _NOTICED_FIRST
    for belief in beliefs:
        ended = belief.span.until
        if belief.address == address and belief.span.at <= absence.at and (ended is None or ended >= went):
            return belief
    return None


def _notice(absence: Absence, belief: Belief, history: History) -> _Noticed | None:
    dropped = belief.span.until
    if dropped is None and absence.until is None:
        return _Noticed(absence, (history.ended_at - absence.at) / 1000, is_over=False, belief=belief)
    if dropped is None or (absence.until is not None and dropped > absence.until):
        return None
    return _Noticed(absence, max(dropped - absence.at, 0) / 1000, is_over=True, belief=belief)


def _evidence(found: _Noticed, history: History) -> Evidence:
    absence, belief = found.absence, found.belief
    if belief.dropped_by is None:
        how = f"is still named by {belief.watcher}"
    else:
        how = f"was dropped by {belief.watcher}: {belief.dropped_by.fields.get('reason') or belief.dropped_by.kind}"
    return Evidence(
        text=f"{absence.node} ({absence.how}) {how}",
        at_millis=absence.at,
        until_millis=belief.span.until,
        entries=(*history.around(absence.at), *([belief.dropped_by] if belief.dropped_by else [])),
    )
