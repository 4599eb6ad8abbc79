"""Conditions to wait for: a name and a target, evaluated on a status document.

Pure.

ready [TARGET]             the nodes are ready (all, without a target)
stopped|killed|crashed|paused|power-lost TARGET
is-master TARGET           each is the acting master of its group, or one of several; GROUP:master, and the name of a
                           DLedger group, mean whichever member is
route-has TARGET           every running nameserver has the broker's address
route-gone TARGET          no running nameserver has it
slave-caught-up TARGET     each running slave of the target's group has the master's whole log
slave-connected TARGET     the master has a connection from each slave of the group
slave-in-sync TARGET       each has reported, and is near enough for a SYNC_MASTER to wait for it
metadata-synced TARGET     each running slave of the target's group has the master's topics, groups and offsets
topic-known TARGET TOPIC   the nodes, brokers or nameservers, have this topic in their tables
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.cluster.supervisor.plan.roles import MASTER_ID
from rmqlab.cluster.supervisor.plan.targets import find_targets, target_words
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.remoting.names import topic_fault
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.text.nearmiss import near_miss

Document = Mapping[str, Any]
Predicate = Callable[[dict[str, Any]], bool]
"""A condition of a program: returns whether a status fulfils it."""
IS_MASTER = "is-master"
TOPIC_KNOWN = "topic-known"
"""The condition that needs a topic beside its target."""
_MOST_NAMED = 8


class UnknownConditionError(Exception):
    """No such condition. The text lists those that exist."""


@attrs.frozen
class Condition:
    """A condition: true, false or unknown."""

    text: str
    holds: Callable[[Any], bool]
    explain: Callable[[Any], str] = lambda _document: ""
    """Returns what in a status contradicts it; empty if it is true, or is a predicate of a program."""

    def describe_timeout(self, document: Document, seconds: float) -> str:
        """Return the error for a wait that timed out, with what the last status showed."""
        return describe_timeout(self.text, seconds, self.explain(document))


def describe_timeout(text: str, seconds: float, last_seen: str) -> str:
    """Return the error for a wait that timed out; `last_seen` may be empty."""
    return f"{text!r} is not true after {seconds:g} s" + (f"; last seen: {last_seen}" if last_seen else "")


def predicate_condition(holds: Predicate) -> Condition:
    """Return the condition of a function.

    It raises TypeError for a coroutine function: all of its results would count as true.
    """
    name = getattr(holds, "__name__", "condition")

    def judge(document: dict[str, Any]) -> bool:
        result: object = holds(document)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"condition {name}: returned {shown(result)}: expected true or false from a plain function")
        return bool(result)

    return Condition(name, judge)


def parse_condition(words: Iterable[str], nodes: Iterable[Node]) -> Condition:
    """Parse a condition. UnknownConditionError or UnknownTargetError if it is invalid."""
    name, *targets = words or [""]
    known = [node for node in nodes if node.kind is not NodeKind.WORKLOAD] if not targets else list(nodes)
    text = " ".join([name, *targets])
    judge = _knows_topic(_topic_of(targets)) if name == TOPIC_KNOWN else _JUDGES.get(name)
    if judge is None:
        raise unknown_condition(name)
    if len(targets) > 1 or (not targets and name != "ready"):
        got = " ".join(targets) or "none"
        raise UnknownConditionError(f"{name} needs one target, such as broker-a:master; got {got}")
    groups: list[str] = []
    if name == IS_MASTER:
        groups, targets = _split_groups(targets[0], known)
        judge = _is_master(groups)
    found = [node for target in targets for node in find_targets(target, known)] or ([] if groups else known)
    for node in found:
        _check_fits(name, node, known)
    return Condition(
        text,
        lambda document: next(judge(document, found), None) is None,
        lambda document: _listed([*judge(document, found)]),
    )


def _check_fits(name: str, node: Node, known: Iterable[Node]) -> None:
    """Raise UnknownConditionError if a condition can never be true of a node."""
    if name in _OF_BROKERS and node.kind is not NodeKind.BROKER:
        raise UnknownConditionError(f"{node.name} is a {node.kind}: {name} needs a broker")
    if name == TOPIC_KNOWN and node.kind is NodeKind.WORKLOAD:
        raise UnknownConditionError(f"{node.name} is a workload: {name} needs a broker or nameserver")
    if name in _OF_SLAVES and not any(other.is_slave and other.group == node.group for other in known):
        raise UnknownConditionError(f"{node.name} has no slave: {name} would never be true")


def unknown_condition(name: str, more: Iterable[str] = ()) -> UnknownConditionError:
    """Return the error for an unknown name; `more` are conditions of the caller's own."""
    known = [*_JUDGES, TOPIC_KNOWN, *more]
    return UnknownConditionError(f"no condition {name!r}; conditions: {', '.join(known)}{near_miss(name, known)}")


def _listed(contradictions: list[str]) -> str:
    more = len(contradictions) - _MOST_NAMED
    return ", ".join(contradictions[:_MOST_NAMED]) + (f", and {more} more" if more > 0 else "")


def _split_groups(target: str, known: list[Node]) -> tuple[list[str], list[str]]:
    """Return the groups of which a target means the master, and its other words.

    Such a word means the member that is master when a status is taken: members elect another one during a wait.
    """
    groups, others = list[str](), list[str]()
    for word in target_words(target):
        group, _, role = word.partition(":")
        members = [node for node in known if node.group == group]
        is_master = role == "master" or (not role and any(node.member_id for node in members))
        (groups if members and is_master else others).append(group if members and is_master else word)
    return groups, others


def _topic_of(words: list[str]) -> str:
    """Remove the topic from the words after `topic-known`, and return it."""
    if len(words) != 2:
        got = " ".join(words) or "neither"
        raise UnknownConditionError(
            f"topic-known needs a target and a topic, such as: topic-known broker-a-s orders; got {got}"
        )
    topic = words.pop()
    if (fault := topic_fault(topic)) is not None:
        raise UnknownConditionError(f"topic-known: {fault}")
    return topic


Judge = Callable[[Document, list[Node]], Iterator[str]]
"""Yields what in a status contradicts a condition of these nodes; nothing if it is true."""


def _in_state(state: NodeState) -> Judge:
    def judge(document: Document, targets: list[Node]) -> Iterator[str]:
        for node in targets:
            if (found := _entry(document, node)["state"]) != state:
                yield f"{node.name} is {found or 'removed'}"

    return judge


def _entry(document: Document, node: Node) -> Mapping[str, Any]:
    """Return the entry of a node; one without a state if it was removed meanwhile."""
    removed = {"state": "", "pid": None, "broker_id": None}
    entry: Mapping[str, Any] = next((entry for entry in document["nodes"] if entry["name"] == node.name), removed)
    return entry


def _is_master(groups: list[str]) -> Judge:
    """Return a condition of nodes and, in each of these groups, of any member."""

    def judge(document: Document, targets: list[Node]) -> Iterator[str]:
        running = {node["group"] for node in document["nodes"] if node["pid"] and node["broker_id"] == MASTER_ID}
        yield from (f"{group} has no running master" for group in groups if group not in running)
        for node in targets:
            entry = _entry(document, node)
            if not entry["pid"]:
                yield f"{node.name} is {entry['state'] or 'removed'}"
            elif (broker_id := entry["broker_id"]) != MASTER_ID:
                yield f"{node.name} has {'no broker id' if broker_id is None else f'broker id {broker_id}'}"

    return judge


def _views(document: Document) -> dict[str, Mapping[str, Any] | None]:
    """Return the routes of the running nameservers by name.

    None of one that does not respond.
    """
    running = [entry["name"] for entry in document["nodes"] if entry["kind"] == NodeKind.NAMESERVER and entry["pid"]]
    return {name: document["routes"][name] for name in running}


def _unseen_routes(views: Mapping[str, Mapping[str, Any] | None]) -> Iterator[str]:
    """Yield why routes are unknown."""
    if not views:
        yield "no nameserver runs"
    for name, view in views.items():
        if view is None:
            yield f"{name} does not respond"


def _routing(document: Document, targets: list[Node], *, is_wanted: bool) -> Iterator[str]:
    """Yield the nameservers that have, or lack, the address of a node."""
    views = _views(document)
    yield from _unseen_routes(views)
    for name, view in views.items():
        for node in targets:
            if view is not None and (node.address in view.get(str(node.group), {}).values()) != is_wanted:
                yield f"{name} has {'no route to' if is_wanted else 'a route to'} {node.name} ({node.address})"


def _route_has(document: Document, targets: list[Node]) -> Iterator[str]:
    return _routing(document, targets, is_wanted=True)


def _route_gone(document: Document, targets: list[Node]) -> Iterator[str]:
    yield from _routing(document, targets, is_wanted=False)
    if document.get("routes_left_out"):  # a missing address may be among the omitted ones
        yield "a nameserver has more broker names than it listed"


def _rows(document: Document, targets: list[Node]) -> list[Mapping[str, Any]]:
    """Return the replication of running slaves: targets, or slaves of target masters."""
    groups = {node.group for node in targets if node.is_master}
    slaves = {node.name for node in targets if node.is_slave}
    running = {entry["name"] for entry in document["nodes"] if entry["pid"]}
    rows = [row for row in document["replication"] if row["group"] in groups or row["slave"] in slaves]
    return [row for row in rows if row["slave"] in running]


def _of_slaves(explain: Callable[[Mapping[str, Any]], str]) -> Judge:
    """Return a condition of each running slave.

    `explain` returns what contradicts it in the slave's row.
    """

    def judge(document: Document, targets: list[Node]) -> Iterator[str]:
        rows = _rows(document, targets)
        if not rows:
            yield "no slave runs"
        yield from (f"{row['slave']} {found}" for row in rows if (found := explain(row)))

    return judge


def _behind(row: Mapping[str, Any]) -> str:
    if row["lag"] is None:
        return "has an unknown lag"
    return f"is {row['lag']} bytes behind its master" if row["lag"] > 0 else ""


def _unconnected(row: Mapping[str, Any]) -> str:
    return "" if row["connected"] else "is not connected to its master"


def _out_of_sync(row: Mapping[str, Any]) -> str:
    return "" if row["inSync"] else "is not in sync"


def _unsynced_metadata(row: Mapping[str, Any]) -> str:
    if row["metadata"] is None:
        return "has unknown metadata"
    missing = [name for name, is_synced in row["metadata"].items() if not is_synced]
    return f"lacks its master's {', '.join(missing)}" if missing else ""


def _knows_topic(topic: str) -> Judge:
    def judge(document: Document, targets: list[Node]) -> Iterator[str]:
        for node in targets:
            if topic not in (_entry(document, node).get("topic_names") or ()):
                yield f"{node.name} has no topic {topic}"

    return judge


_JUDGES: dict[str, Judge] = {
    "ready": _in_state(NodeState.READY),
    "stopped": _in_state(NodeState.STOPPED),
    "killed": _in_state(NodeState.KILLED),
    "crashed": _in_state(NodeState.CRASHED),
    "power-lost": _in_state(NodeState.POWER_LOST),
    "paused": _in_state(NodeState.PAUSED),
    IS_MASTER: _is_master([]),
    "route-has": _route_has,
    "route-gone": _route_gone,
    "slave-caught-up": _of_slaves(_behind),
    "slave-connected": _of_slaves(_unconnected),
    "slave-in-sync": _of_slaves(_out_of_sync),
    "metadata-synced": _of_slaves(_unsynced_metadata),
}
_OF_SLAVES = frozenset({"slave-caught-up", "slave-connected", "slave-in-sync", "metadata-synced"})
_OF_BROKERS = _OF_SLAVES | {IS_MASTER, "route-has", "route-gone"}

CONDITIONS = tuple(_JUDGES)
"""The names of all conditions."""
