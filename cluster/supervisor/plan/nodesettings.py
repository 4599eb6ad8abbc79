"""The content of the nodes' settings files. No I/O."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.plan.specs import node_target, planned_names
from rmqlab.cluster.supervisor.plan.topology import (
    PROFILES,
    ClusterSpec,
    Node,
    NodeKind,
    namesrv_addr,
    node_names,
)


def node_paths(kind: NodeKind, data_dir: Path) -> dict[str, Path]:
    """Return the paths of a node's data: the path settings of its file, by key.

    All code that accesses these files uses these paths. A node rewrites its own settings file, so the paths in there
    are only compared with these (issue 12.1).
    """
    match kind:
        case NodeKind.NAMESERVER:
            return {"kv_config_path": data_dir / "kvConfig.json", "config_store_path": data_dir / "namesrv.properties"}
        case NodeKind.BROKER:
            return {"store_path_root_dir": data_dir / "store"}
        case _:
            return {}


def node_settings(spec: ClusterSpec, node: Node, nodes: Iterable[Node], data_dir: Path) -> dict[str, Any]:
    """Return the content of one node's settings file."""
    paths = {key: str(path) for key, path in node_paths(node.kind, data_dir).items()}
    if node.kind is NodeKind.NAMESERVER:
        return {"listen_address": node.host, "listen_port": node.port, **paths}
    return {
        "broker_cluster_name": "DefaultCluster",
        "broker_name": node.group,
        "broker_id": node.broker_id,
        "broker_role": node.role,
        "namesrv_addr": namesrv_addr(nodes),
        "broker_ip1": node.host,
        "broker_ip2": node.host,
        "listen_address": node.host,
        "listen_port": node.port,
        **paths,
        **_group_settings(node, nodes),
        "flush_disk_type": spec.flush,
        **({} if spec.profile == PROFILES[0] else {"profile": spec.profile}),
        **own_settings(spec, node.name),
    }


def own_settings(spec: ClusterSpec, name: str) -> dict[str, Any]:
    """Return the settings that the user gave a broker: for all, and for its targets."""
    settings = dict(spec.broker_settings)
    for target, given in spec.node_settings.items():
        if name in planned_names(spec, target):
            settings |= given
    return settings


def sets_to_try(spec: ClusterSpec) -> list[dict[str, Any]]:
    """Return each different set of settings of a broker, beginning with that of all."""
    sets = [dict(spec.broker_settings)]
    for name in node_names(spec)[1] if spec.node_settings else ():
        if (settings := own_settings(spec, name)) not in sets:
            sets.append(settings)
    return sets


def set_for(spec: ClusterSpec, names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the node settings of a cluster with some more for these brokers."""
    given = {target: dict(values) for target, values in spec.node_settings.items()}
    for name in names:
        target = node_target(name)
        given.setdefault(target, {}).update(settings)
        given[target] = given.pop(target)  # the last one overrides those of its group
    return given


def _group_settings(node: Node, nodes: Iterable[Node]) -> dict[str, Any]:
    """Return the settings of a member of a DLedger group; none for other brokers."""
    if node.member_id is None:
        return {}
    members = [other for other in nodes if other.group == node.group]
    return {
        "enable_dleger_commit_log": True,
        "d_leger_group": node.group,
        "d_leger_peers": ";".join(f"{each.member_id}-{each.host}:{each.group_port}" for each in members),
        "d_leger_self_id": node.member_id,
    }


def toml_text(settings: Mapping[str, Any]) -> str:
    """Return a flat TOML document.

    JSON's strings, numbers and booleans are valid TOML.
    """
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())
