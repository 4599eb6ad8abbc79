"""Conditions to wait for: a name and a target, evaluated on a status document.

Pure.

ready [TARGET]             the nodes are ready (all, without a target)
stopped|killed|crashed|paused|powerless TARGET
is-master TARGET           each is the acting master of its group, or one of several
route-has TARGET           every running nameserver has the broker's address
route-gone TARGET          no running nameserver has it
slave-caught-up TARGET     each running slave of the target's group has the master's whole log
slave-connected TARGET     the master has a connection from each slave of the group
slave-in-sync TARGET       each has reported, and is near enough for a SYNC_MASTER to wait for it
metadata-synced TARGET     each running slave of the target's group has the master's topics, groups and offsets
topic-known TARGET TOPIC   the nodes, brokers or nameservers, have this topic in their tables
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.supervisor.process_state import NodeState
from rmqlab.cluster.supervisor.roles import MASTER_ID
from rmqlab.cluster.supervisor.targets import find_targets
from rmqlab.cluster.supervisor.topology import Node, NodeKind
from rmqlab.faults import near_miss
from rmqlab.remoting.names import topic_fault

Document = Mapping[str, Any]
TOPIC_KNOWN = "topic-known"
"""The condition that needs a topic beside its target."""


class UnknownConditionError(Exception):
    """No such condition. The text lists those that exist."""


@attrs.frozen
class Condition:
    """A condition: true, false or unknown."""

    text: str
    holds: Callable[[Any], bool]


def parse_condition(words: Iterable[str], nodes: Iterable[Node]) -> Condition:
    """Parse a condition. UnknownConditionError or UnknownTargetError if it is invalid."""
    name, *targets = words or [""]
    known = [node for node in nodes if node.kind is not NodeKind.WORKLOAD] if not targets else list(nodes)
    text = " ".join([name, *targets])
    if name == TOPIC_KNOWN:
        judge: Judge | None = _knows_topic(_topic_of(targets))
    else:
        judge = _JUDGES.get(name)
    if judge is None:
        known_names = [*_JUDGES, TOPIC_KNOWN]
        raise UnknownConditionError(
            f"no condition {name!r}{near_miss(name, known_names)}; conditions: {', '.join(known_names)}"
        )
    if len(targets) > 1 or (not targets and name != "ready"):
        got = " ".join(targets) or "none"
        raise UnknownConditionError(f"{name} needs one target, such as broker-a:master; got {got}")
    found = [node for target in targets for node in find_targets(target, known)] or known
    for node in found:
        if name in _OF_BROKERS and node.kind is not NodeKind.BROKER:
            raise UnknownConditionError(f"{node.name} is a {node.kind}: {name} needs a broker")
        if name == TOPIC_KNOWN and node.kind is NodeKind.WORKLOAD:
            raise UnknownConditionError(f"{node.name} is a workload: {name} needs a broker or nameserver")
        if name in _OF_SLAVES and not any(other.is_slave and other.group == node.group for other in known):
            raise UnknownConditionError(f"{node.name} has no slave: {name} would never be true")
    return Condition(text, lambda document: judge(document, found))


def _topic_of(words: list[str]) -> str:
    """Remove the topic from the words after `topic-known`, and return it."""
    if len(words) != 2:
        text = f"topic-known needs a target and a topic, such as: topic-known broker-a-s orders; got {' '.join(words) or 'neither'}"
        raise UnknownConditionError(text)
    topic = words.pop()
    if (fault := topic_fault(topic)) is not None:
        raise UnknownConditionError(f"topic-known: {fault}")
    return topic


Judge = Callable[[Document, list[Node]], bool]


def _in_state(state: NodeState) -> Judge:
    def judge(document: Document, targets: list[Node]) -> bool:
        return all(_entry(document, node)["state"] == state for node in targets)

    return judge


def _entry(document: Document, node: Node) -> Mapping[str, Any]:
    """Return the entry of a node; one without a state if it was removed meanwhile."""
    removed = {"state": "", "broker_id": None}
    entry: Mapping[str, Any] = next((entry for entry in document["nodes"] if entry["name"] == node.name), removed)
    return entry


def _is_master(document: Document, targets: list[Node]) -> bool:
    return all(_entry(document, node)["broker_id"] == MASTER_ID for node in targets)


def _is_routed(views: Iterable[Mapping[str, Any]], node: Node) -> list[bool]:
    return [node.address in view.get(str(node.group), {}).values() for view in views]


def _views(document: Document) -> list[Mapping[str, Any]] | None:
    """Return the routes of the running nameservers.

    None if one does not respond, or none runs.
    """
    running = [entry["name"] for entry in document["nodes"] if entry["kind"] == NodeKind.NAMESERVER and entry["pid"]]
    views = [document["routes"][name] for name in running]
    return views if views and None not in views else None


def _is_whole(document: Document) -> bool:
    """True if no nameserver has more broker names than it listed.

    A missing address may be among the omitted ones.
    """
    return not document.get("routes_left_out")


def _route_has(document: Document, targets: list[Node]) -> bool:
    views = _views(document)
    return views is not None and all(all(_is_routed(views, node)) for node in targets)


def _route_gone(document: Document, targets: list[Node]) -> bool:
    views = _views(document)
    return views is not None and _is_whole(document) and not any(any(_is_routed(views, node)) for node in targets)


def _rows(document: Document, targets: list[Node]) -> list[Mapping[str, Any]]:
    """Return the replication of running slaves: targets, or slaves of target masters."""
    groups = {node.group for node in targets if node.is_master}
    slaves = {node.name for node in targets if node.is_slave}
    running = {entry["name"] for entry in document["nodes"] if entry["pid"]}
    rows = [row for row in document["replication"] if row["group"] in groups or row["slave"] in slaves]
    return [row for row in rows if row["slave"] in running]


def _caught_up(document: Document, targets: list[Node]) -> bool:
    rows = _rows(document, targets)
    return bool(rows) and all(row["lag"] is not None and row["lag"] <= 0 for row in rows)


def _connected(document: Document, targets: list[Node]) -> bool:
    rows = _rows(document, targets)
    return bool(rows) and all(row["connected"] for row in rows)


def _in_sync(document: Document, targets: list[Node]) -> bool:
    rows = _rows(document, targets)
    return bool(rows) and all(row["inSync"] for row in rows)


def _metadata_synced(document: Document, targets: list[Node]) -> bool:
    rows = _rows(document, targets)
    return bool(rows) and all(row["metadata"] is not None and all(row["metadata"].values()) for row in rows)


def _knows_topic(topic: str) -> Judge:
    def judge(document: Document, targets: list[Node]) -> bool:
        return all(topic in (_entry(document, node).get("topic_names") or ()) for node in targets)

    return judge


_JUDGES: dict[str, Judge] = {
    "ready": _in_state(NodeState.READY),
    "stopped": _in_state(NodeState.STOPPED),
    "killed": _in_state(NodeState.KILLED),
    "crashed": _in_state(NodeState.CRASHED),
    "powerless": _in_state(NodeState.POWERLESS),
    "paused": _in_state(NodeState.PAUSED),
    "is-master": _is_master,
    "route-has": _route_has,
    "route-gone": _route_gone,
    "slave-caught-up": _caught_up,
    "slave-connected": _connected,
    "slave-in-sync": _in_sync,
    "metadata-synced": _metadata_synced,
}
_OF_SLAVES = frozenset({"slave-caught-up", "slave-connected", "slave-in-sync", "metadata-synced"})
_OF_BROKERS = _OF_SLAVES | {"is-master", "route-has", "route-gone"}

CONDITIONS = tuple(_JUDGES)
"""The names of all conditions."""
