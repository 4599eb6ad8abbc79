"""Conditions that a step can wait for. Pure.

They are those of `rmqlab.cluster.conditions`, and conditions on the journals.

These count from the start of the last action:

sent WORKLOAD N              N more of its sends have ended; sent.OUTCOME counts those of one outcome
delivered WORKLOAD N         it received N more messages
event KIND [NODE]            an event of this kind happened (at this node)

These count from the start:

ended WORKLOAD               its process has ended
consumed-all GROUP [WORKLOAD]
                             the group received every message (of this workload) with an outcome that means stored;
                             consumed-all.OUTCOME: with this one
over LABEL                   the random faults of the step with this label are all applied and undone
"""

from collections.abc import Callable, Iterable, Sequence

import attrs

from rmqlab.cluster.conditions import (
    CONDITIONS,
    TOPIC_KNOWN,
    Condition,
    UnknownConditionError,
    parse_condition,
    unknown_condition,
)
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind, UnknownTargetError
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.digits import number_of

STORED = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
OUTCOMES = (*STORED, "refused", "indeterminate")
ENDS = frozenset({"node_stopped", "node_killed", "node_crashed"})

Judge = Callable[[Sequence[JournalEntry], Sequence[JournalEntry]], str]
"""Returns why a condition is false, from all entries and those since the last action; empty if true."""


@attrs.frozen
class JournalCondition:
    """A condition on all entries so far and on those since the last action."""

    text: str
    explain: Judge

    def holds(self, seen: Sequence[JournalEntry], new: Sequence[JournalEntry]) -> bool:
        """True when nothing contradicts the condition."""
        return not self.explain(seen, new)


def parse_wait(
    text: str, nodes: Iterable[Node], workloads: Iterable[str], random_labels: Iterable[str] = ()
) -> Condition | JournalCondition:
    """Parse a condition. UnknownConditionError or UnknownTargetError if it is invalid.

    `random_labels` are the labels of the steps that begin random faults.
    """
    name, *arguments = text.split() or [""]
    verb, _, outcome = name.partition(".")
    make = _MAKERS.get(verb)
    if make is None:
        if name not in (*CONDITIONS, TOPIC_KNOWN):
            raise unknown_condition(name, _MAKERS)
        return parse_condition(text.split(), [*nodes, *(_node_of(workload) for workload in workloads)])
    return JournalCondition(text, make(outcome, arguments, list(random_labels if verb == "over" else workloads)))


def _node_of(workload: str) -> Node:
    return Node(name=workload, kind=NodeKind.WORKLOAD, host="")


def _sent(outcome: str, arguments: list[str], workloads: list[str]) -> Judge:
    outcomes = _known_outcomes(outcome, OUTCOMES)
    node, count = _counted("sent", arguments, workloads)
    what = f"{outcome} sends of {node}" if outcome else f"sends of {node}"

    def explain(_seen: Sequence[JournalEntry], new: Sequence[JournalEntry]) -> str:
        found = sum(e.kind == "sent" and e.node == node and e.fields["outcome"] in outcomes for e in new)
        return "" if found >= count else f"{found} {what} since the last action"

    return explain


def _delivered(outcome: str, arguments: list[str], workloads: list[str]) -> Judge:
    _no_outcome("delivered", outcome)
    node, count = _counted("delivered", arguments, workloads)

    def explain(_seen: Sequence[JournalEntry], new: Sequence[JournalEntry]) -> str:
        found = sum(entry.kind == "delivered" and entry.node == node for entry in new)
        return "" if found >= count else f"{counted(found, 'deliveries')} to {node} since the last action"

    return explain


def _event(outcome: str, arguments: list[str], _workloads: list[str]) -> Judge:
    _no_outcome("event", outcome)
    if not 1 <= len(arguments) <= 2:
        raise UnknownConditionError("event needs a kind of event, and optionally a node")
    kind, *places = arguments
    if kind not in EVENT_TYPES:
        raise UnknownConditionError(f"event: no kind of event {kind!r}; see rmqlab events --schema")

    def explain(seen: Sequence[JournalEntry], new: Sequence[JournalEntry]) -> str:
        if any(entry.kind == kind and (not places or entry.node == places[0]) for entry in new):
            return ""
        nodes = sorted({entry.node or "cluster" for entry in new if entry.kind == kind})
        before = sum(entry.kind == kind and (not places or entry.node == places[0]) for entry in seen)
        elsewhere = f"; it happened at {', '.join(nodes)}" if nodes else ""
        return f"no such event since the last action, {before} before it{elsewhere}"

    return explain


def _ended(outcome: str, arguments: list[str], workloads: list[str]) -> Judge:
    _no_outcome("ended", outcome)
    if len(arguments) != 1:
        raise UnknownConditionError("ended needs one workload")
    node = _known(arguments[0], workloads)

    def explain(seen: Sequence[JournalEntry], _new: Sequence[JournalEntry]) -> str:
        return "" if any(entry.kind in ENDS and entry.node == node for entry in seen) else f"{node} has not ended"

    return explain


def _consumed_all(outcome: str, arguments: list[str], workloads: list[str]) -> Judge:
    outcomes = _known_outcomes(outcome, STORED)
    if not 1 <= len(arguments) <= 2:
        raise UnknownConditionError("consumed-all needs a consumer group, and optionally a producer's workload")
    group = arguments[0]
    senders = {_known(name, workloads) for name in arguments[1:]}

    def explain(seen: Sequence[JournalEntry], _new: Sequence[JournalEntry]) -> str:
        stored = {
            e.fields["message_id"]
            for e in seen
            if e.kind == "sent" and e.fields["outcome"] in outcomes and (not senders or e.node in senders)
        }
        delivered = {e.fields["message_id"] for e in seen if e.kind == "delivered" and e.fields["group"] == group}
        missing = stored - delivered
        return f"{group} has not received {len(missing)} of {len(stored)} stored messages" if missing else ""

    return explain


def _over(outcome: str, arguments: list[str], random_labels: list[str]) -> Judge:
    _no_outcome("over", outcome)
    label = " ".join(arguments)
    if label not in random_labels:
        known = ", ".join(random_labels) or "none"
        raise UnknownConditionError(f"over: no random faults of the label {label!r}; there are: {known}")

    def explain(seen: Sequence[JournalEntry], _new: Sequence[JournalEntry]) -> str:
        is_over = any(entry.kind == "random_faults_over" and entry.fields["label"] == label for entry in seen)
        return "" if is_over else f"the random faults of {label!r} are not over"

    return explain


_MAKERS: dict[str, Callable[[str, list[str], list[str]], Judge]] = {
    "sent": _sent,
    "delivered": _delivered,
    "event": _event,
    "ended": _ended,
    "consumed-all": _consumed_all,
    "over": _over,
}


def _counted(name: str, arguments: list[str], workloads: list[str]) -> tuple[str, int]:
    if len(arguments) != 2 or (count := number_of(arguments[1])) is None:
        raise UnknownConditionError(f"{name} needs a workload and a number, such as: {name} orders 20")
    return _known(arguments[0], workloads), count


def _known(workload: str, workloads: list[str]) -> str:
    if workload not in workloads:
        raise UnknownTargetError(f"no workload {workload!r} here; workloads: {', '.join(workloads) or 'none'}")
    return workload


def _known_outcomes(outcome: str, known: Sequence[str]) -> Sequence[str]:
    """Return the requested name, or all of these."""
    if outcome and outcome not in known:
        raise UnknownConditionError(f"no outcome {outcome!r}; outcomes: {', '.join(known)}")
    return [outcome] if outcome else known


def _no_outcome(name: str, outcome: str) -> None:
    if outcome:
        raise UnknownConditionError(f"{name}.{outcome}: only sent and consumed-all have outcomes")
