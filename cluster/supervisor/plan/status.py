"""The status of a cluster as one document. No I/O.

It contains the processes, replication, and the routes of each nameserver.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import msgpack

from rmqlab.cluster.supervisor.plan.process_state import NodeState, ProcessState, describe_end
from rmqlab.cluster.supervisor.plan.roles import acting_master
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.runtime.bounds import LEFT_OUT, SNAPSHOT, bounded

Facts = Mapping[str, Any] | None
Document = dict[str, Any]

MOST_FACTS = 6 * 2**20
"""Maximum bytes of the live facts of all nodes: a document has routes twice, and must fit into one message."""


def node_entry(node: Node, process: ProcessState, data_dir: str) -> Document:
    """Return the entry of a node in `up --json` and `status --json`."""
    return {
        "name": node.name,
        "kind": str(node.kind),
        "group": node.group,
        "role": node.role,
        "broker_id": node.broker_id,
        "address": node.address,
        "ha_address": node.ha_address,
        "pid": process.pid if process.is_alive else None,
        "data_dir": data_dir,
        "state": str(process.state),
        "end": None if process.is_alive or process.exit_status is None else describe_end(process.exit_status),
    }


def live_entry(node: Node, facts: Facts) -> Document:
    """Return the members with a node's live facts. Unknown values are None, never 0."""
    facts = facts or {}
    if node.kind is NodeKind.BROKER:
        return {
            "commit_log": facts.get("commit_log"),
            "ha": facts.get("ha"),
            "dledger": facts.get("dledger"),
            "queues": facts.get("queues"),
            "topic_names": facts.get("topic_names"),
            "delayed": facts.get("delayed"),
            "half_messages": facts.get("half_messages"),
            "unserved": facts.get("unserved"),
            "internal_errors": facts.get("internal_errors"),
            "served_of_5x": facts.get("served_of_5x"),
            **_actual_role(node, facts),
        }
    if node.kind is NodeKind.NAMESERVER:
        return {key: facts.get(key) for key in ("routes", "topics", "topic_names", "unserved", "internal_errors")}
    return dict(facts)


def _actual_role(node: Node, facts: Mapping[str, Any]) -> Document:
    """Return the broker's actual role and id.

    `planned` has those of the cluster's record if they differ.

    They differ after request 25 changed `brokerRole`, or after the settings file was edited. Else `planned` is None.
    """
    planned = {"role": node.role, "broker_id": node.broker_id}
    actual = {key: facts.get(key, value) for key, value in planned.items()}
    return {**actual, "planned": planned if actual != planned else None}


def replication(nodes: Iterable[Node], facts: Mapping[str, Facts]) -> list[Document]:
    """Return one row per slave, with the labels of mqadmin haStatus.

    Offsets are in bytes.

    The lag is negative if a slave's log is longer than its master's, as after a power loss of the master. Of several
    masters, the last promoted one counts; the master is None for a group without one.
    """
    groups: dict[str | None, list[Node]] = {}
    brokers = [node for node in nodes if node.kind is NodeKind.BROKER]
    for node in brokers:
        groups.setdefault(node.group, []).append(node)
    return [_replication_of(slave, groups[slave.group], facts) for slave in brokers if slave.is_slave]


def _replication_of(slave: Node, members: Sequence[Node], facts: Mapping[str, Facts]) -> Document:
    """Return the row of a slave, one of the members of its group."""
    master = acting_master(slave.group, members)
    known, own = (facts.get(master.name) if master else None) or {}, facts.get(slave.name)
    if slave.member_id:
        link = _membership(_map(own, "dledger"), _map(known, "dledger"))
    else:
        connections = [one for one in _list(_map(known, "ha"), "connections") if isinstance(one, Mapping)]
        link = _link_of(slave, connections, alone=len(members) == 2)
    master_max, slave_max = commit_log_max(known), commit_log_max(own)
    return {
        "group": slave.group,
        "master": master and master.name,
        "slave": slave.name,
        "connected": None if not known else link is not None,
        "masterCommitLogMaxOffset": master_max,
        "slaveCommitLogMaxOffset": slave_max,
        "lag": None if master_max is None or slave_max is None else master_max - slave_max,
        "slaveAckOffset": link and link.get("slave_ack_offset"),
        "diff": link and link.get("diff"),
        "transferredByteInSecond": link and link.get("transferred_bytes_per_second"),
        "inSync": link and link.get("in_sync"),
        "transferFromWhere": link and link.get("transfer_from_where"),
        "state": link and link.get("state"),
        "verdict": (_map(own, "ha") or {}).get("verdict"),
        "trouble": _trouble_of(slave, known),
        "metadata": metadata_synced(known, own),
    }


def metadata_synced(master: Facts, slave: Facts) -> dict[str, bool | None] | None:
    """Return which of its master's tables a slave has; None if unknown.

    Topics and groups are equal if their versions are. Offsets are, if none of the slave's is behind the master's; that
    is unknown if a snapshot leaves some out.
    """
    ours, theirs = _map(slave, "metadata_versions"), _map(master, "metadata_versions")
    if ours is None or theirs is None:
        return None
    return {
        **{kind: ours.get(kind) == theirs.get(kind) for kind in ("topics", "groups")},
        "offsets": _has_offsets(_map(slave, "consumer_offsets"), _map(master, "consumer_offsets")),
    }


def _has_offsets(ours: Mapping[Any, Any] | None, theirs: Mapping[Any, Any] | None) -> bool | None:
    if ours is None or theirs is None or LEFT_OUT in ours or LEFT_OUT in theirs:
        return None
    return all(
        _at_least(_map(ours, key), queue, offset)
        for key in theirs
        for queue, offset in (_map(theirs, key) or {}).items()
    )


def _at_least(offsets: Mapping[Any, Any] | None, queue: object, least: object) -> bool:
    offset = (offsets or {}).get(queue)
    return isinstance(offset, int) and isinstance(least, int) and offset >= least


def running_masters(nodes: Iterable[Node], states: Mapping[str, ProcessState]) -> dict[str, list[str]]:
    """Return the running masters of each group, possibly several after a promotion."""
    masters: dict[str, list[str]] = {node.group: [] for node in nodes if node.group}
    for node in nodes:
        if node.group and node.is_master and states.get(node.name, ProcessState()).is_alive:
            masters[node.group].append(node.name)
    return masters


def masters_behind(nodes: Iterable[Node], facts: Mapping[str, Facts]) -> list[str]:
    """Return the masters whose log is known to be shorter than one of their slaves'."""
    known = [row for row in replication(nodes, facts) if row["lag"] is not None]  # then there is a master
    return list(dict.fromkeys(row["master"] for row in known if row["lag"] < 0))


def _link_of(slave: Node, connections: Iterable[Mapping[str, Any]], *, alone: bool) -> Mapping[str, Any] | None:
    """Return a slave's HA connection.

    At a single address it is known only if the master has one slave.
    """
    for connection in connections:
        host = str(connection.get("address", "")).rpartition(":")[0].lstrip("/")
        if host == slave.host and (alone or host != "127.0.0.1"):
            return connection
    return None


def _membership(follower: Facts, leader: Facts) -> Mapping[str, Any] | None:
    """Return the known facts of a member that follows its group's leader.

    None if it does not. It is in sync when it has all entries of the leader, and all of them are committed.
    """
    if (
        not follower
        or not leader
        or (follower.get("leader"), follower.get("term"))
        != (
            leader.get("leader"),
            leader.get("term"),
        )
    ):
        return None
    ends = {leader.get("end_index"), follower.get("end_index"), follower.get("committed_index")}
    return {"in_sync": len(ends) == 1}


def _trouble_of(slave: Node, master_facts: Facts) -> str | None:
    """Return the trouble that a slave reported to its master; None if unknown."""
    troubles = [one for one in _list(_map(master_facts, "ha"), "slave_troubles") if isinstance(one, Mapping)]
    return next((str(one.get("text")) for one in troubles if one.get("broker_id") == slave.broker_id), None)


def commit_log_max(facts: Facts) -> int | None:
    """Return the end offset of a broker's commit log in bytes; None if unknown."""
    end = (_map(facts, "commit_log") or {}).get("max")
    return end if isinstance(end, int) else None


def route_views(nodes: Iterable[Node], states: Mapping[str, ProcessState], facts: Mapping[str, Facts]) -> Document:
    """Return the brokers known to each nameserver.

    The form is {nameserver: {group: {broker id: address}}}. The value is None for a nameserver that does not run or
    does not respond.
    """
    views: Document = {}
    for node in nodes:
        if node.kind is NodeKind.NAMESERVER:
            routes = _map(facts.get(node.name), "routes")
            is_alive = states.get(node.name, ProcessState()).is_alive
            views[node.name] = (
                {
                    str(group): {str(number): str(at) for number, at in (_map(route, "addresses") or {}).items()}
                    for group, route in routes.items()
                    if isinstance(route, Mapping)
                }
                if is_alive and routes is not None
                else None
            )
    return views


def routes_left_out(facts: Mapping[str, Facts]) -> dict[str, int]:
    """Return how many broker names each nameserver omitted from its bounded routes.

    Nameservers without omissions are left out.
    """
    numbers = {name: (_map(known, "routes") or {}).get(LEFT_OUT) for name, known in facts.items()}
    return {name: number for name, number in numbers.items() if isinstance(number, int)}


def _list(facts: object, key: str) -> list[Any]:
    part = facts.get(key) if isinstance(facts, Mapping) else None
    return part if isinstance(part, list) else []


def _map(facts: object, key: object) -> Mapping[Any, Any] | None:
    """Return a member of a node's facts if it is a map; else None."""
    part = facts.get(key) if isinstance(facts, Mapping) else None
    return part if isinstance(part, Mapping) else None


def status_document(
    head: Document, nodes: Iterable[Node], states: Mapping[str, ProcessState], facts: Mapping[str, Facts], root: str
) -> Document:
    """Return the document that `status --json` prints."""
    known = list(nodes)
    facts = _within_limit(facts)
    entries = []
    for node in known:
        entry = node_entry(node, states.get(node.name, ProcessState()), f"{root}/{node.name}")
        entries.append(entry | live_entry(node, facts.get(node.name)))
    return {
        **head,
        "nodes": entries,
        "masters": running_masters(known, states),
        "replication": replication(known, facts),
        "routes": route_views(known, states, facts),
        "routes_left_out": routes_left_out(facts),
    }


def _within_limit(facts: Mapping[str, Facts]) -> dict[str, Facts]:
    """Return the facts, shortened so that all together have MOST_FACTS bytes.

    Only the largest are shortened: in a large cluster each broker has few facts, and each nameserver all routes.
    """
    sizes = {name: _encoded_size(values) for name, values in facts.items() if values is not None}
    share, left = SNAPSHOT.total, MOST_FACTS
    for number, size in enumerate(sorted(sizes.values())):
        share = min(SNAPSHOT.total, left // (len(sizes) - number))
        if size > share:  # so are the others
            break
        left -= size
    limit = attrs.evolve(SNAPSHOT, total=share)
    return {name: bounded(values, limit) if sizes.get(name, 0) > share else values for name, values in facts.items()}


def _encoded_size(values: Mapping[str, Any]) -> int:
    try:
        return len(msgpack.packb(values))
    except (TypeError, ValueError, OverflowError):  # not the content of a message: to be bounded in any case
        return MOST_FACTS + 1


def is_cluster_ready(document: Document) -> bool:
    """Return True if every nameserver and broker is ready."""
    servers = [node for node in document["nodes"] if node["kind"] != NodeKind.WORKLOAD]
    return all(node["state"] == NodeState.READY for node in servers)
