"""How long it takes until a broker's absence is noticed. Metric: detection WATCHER. Pure.

From the moment a broker was told to go (or was seen gone, where nobody told it) until a nameserver, or a client by the
route that it learns, names its address no longer.
"""

from collections.abc import Iterator, Sequence

from rmqlab.pipeline.audit.watchers import Absence, Belief, Known, shared
from rmqlab.verdict.catalogue import SECONDS
from rmqlab.verdict.findings import Finding, seen, unknown

_NOTICED_FIRST = 5000
"""ms: so much earlier than the supervisor may others see an end that nobody ordered."""


def judge(known: Known) -> Iterator[Finding]:
    """Measure, for every watcher that named any broker."""
    for watcher in dict.fromkeys([*known.nameservers, *(belief.watcher for belief in known.beliefs)]):
        yield _judge_watcher(known, watcher, [one for one in known.beliefs if one.watcher == watcher])


def _judge_watcher(known: Known, watcher: str, beliefs: Sequence[Belief]) -> Finding:
    metric, why_not = f"detection {watcher}", []
    noticed: list[tuple[float, bool, str]] = []
    for absence in known.absences:
        member = known.members.get(absence.node)
        belief = _contradicted(absence, beliefs, member.address) if member and member.broker else None
        if belief is None:
            continue
        what = f"{absence.node} ({absence.how})"
        if _was_away(known, watcher, absence, belief):
            why_not.append(f"{watcher} was away itself")
        elif belief.until is None and absence.until is None:
            noticed.append(((known.ended_at - absence.at) / 1000, True, f"{what} is still named"))
        elif belief.until is None or (absence.until is not None and belief.until > absence.until):
            if not _is_followed(known, absence):
                why_not.append(f"{absence.node} was back before {watcher} noticed that it was {absence.how}")
        else:
            seconds = max(belief.until - absence.at, 0) / 1000
            noticed.append((seconds, False, f"{what} was named {seconds:.2f} s longer"))
    if not noticed:
        return unknown(metric, SECONDS, "; ".join(why_not) or f"no broker that {watcher} named was ever away")
    noticed.sort(key=lambda one: -one[0])
    return Finding(
        metric=metric,
        unit=SECONDS,
        value=noticed[0][0],
        is_at_least=noticed[0][1],
        evidence=seen(text for _, _, text in noticed),
    )


def _contradicted(absence: Absence, beliefs: Sequence[Belief], address: str) -> Belief | None:
    went = absence.at if absence.is_ordered else absence.at - _NOTICED_FIRST
    for belief in beliefs:
        if belief.address == address and belief.since <= absence.at and (belief.until is None or belief.until >= went):
            return belief
    return None


def _was_away(known: Known, watcher: str, absence: Absence, belief: Belief) -> bool:
    """True if the watcher did not watch while there was something to notice."""
    waited = shared((absence.at, absence.until), (belief.since, belief.until))
    return waited is not None and any(shared(span, waited) for span in known.away(watcher))


def _is_followed(known: Known, absence: Absence) -> bool:
    """True for one that ended as another began, as when a frozen broker is killed: then that is to be noticed."""
    return any((one.node, one.at) == (absence.node, absence.until) for one in known.absences)
