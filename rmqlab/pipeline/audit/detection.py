"""Time until the absence of a broker is noticed.

Metric: detection WATCHER. No I/O.

Measured from the command that ended a broker (or from its observed end, without such a command) until a nameserver, or
the route that a client receives, no longer contains its address.
"""

from collections.abc import Iterator, Sequence

from rmqlab.pipeline.audit.watchers import Absence, Belief, Known, shared
from rmqlab.verdict.catalogue import SECONDS
from rmqlab.verdict.findings import Finding, line_evidence, unknown

_NOTICED_FIRST = 5000
"""Milliseconds: watchers can notice an end without a command this much earlier than the supervisor."""


def judge(known: Known) -> Iterator[Finding]:
    """Yield a finding for every watcher that named any broker."""
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
        evidence=line_evidence(text for _, _, text in noticed),
    )


def _contradicted(absence: Absence, beliefs: Sequence[Belief], address: str) -> Belief | None:
    went = absence.at if absence.is_ordered else absence.at - _NOTICED_FIRST
    for belief in beliefs:
        if belief.address == address and belief.since <= absence.at and (belief.until is None or belief.until >= went):
            return belief
    return None


def _was_away(known: Known, watcher: str, absence: Absence, belief: Belief) -> bool:
    """Return True if the watcher itself was away during part of the belief."""
    waited = shared((absence.at, absence.until), (belief.since, belief.until))
    return waited is not None and any(shared(span, waited) for span in known.away(watcher))


def _is_followed(known: Known, absence: Absence) -> bool:
    """Return True if another absence follows at once: a frozen broker is killed.

    Watchers must notice the later absence then.
    """
    return any((one.node, one.at) == (absence.node, absence.until) for one in known.absences)
