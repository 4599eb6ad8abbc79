"""Checks a specification, and finds the brokers that its settings are for. No I/O."""

import itertools
import re
from collections.abc import Iterable

import attrs

from rmqlab.cluster.supervisor.plan.topology import DLEDGER, ClusterSpec, node_names, place_in_group
from rmqlab.runtime.text.nearmiss import near_miss

_SLAVE_OF = re.compile(r".*-s[0-9]*")


def check_spec(spec: ClusterSpec) -> None:
    """ValueError for settings that are valid separately, but not in combination."""
    check_targets(spec, spec.node_settings)
    for key in itertools.chain(spec.broker_settings, *spec.node_settings.values()):
        if key in _NODES_OWN:
            raise ValueError(f"broker setting {key}: each node has its own{_NODES_OWN[key]}")
    if spec.mode == DLEDGER and spec.slaves % 2:
        members = spec.slaves + 1
        raise ValueError(
            f"a DLedger group of {members} members: expected an odd number: {members} members survive no more"
            f" failures than {members - 1}"
        )
    copies, wanted = spec.slaves + 1, spec.broker_settings.get("in_sync_replicas")
    if isinstance(wanted, int) and wanted > copies:
        raise ValueError(
            f"in_sync_replicas = {wanted}: a group has {copies} logs, its master's and those of its slaves"
            f" ({spec.slaves}): no send would ever be SEND_OK"
        )


_NODES_OWN = {
    "broker_role": "; say --role",
    **dict.fromkeys(
        ("broker_name", "broker_id", "broker_ip1", "broker_ip2", "listen_address", "listen_port"), ", from its place"
    ),
    **dict.fromkeys(("ha_listen_port", "fast_listen_port"), ", next to its port"),
    "enable_dleger_commit_log": "; say --mode dledger",
    **dict.fromkeys(("d_leger_group", "d_leger_peers", "d_leger_self_id"), ", from its place (--mode dledger)"),
    **dict.fromkeys(("store_path_root_dir", "store_path_commit_log"), ", in the cluster's directory"),
}
"""Settings that must differ between brokers, by our names, and the alternative."""


def planned_names(spec: ClusterSpec, target: str) -> list[str]:
    """Return the brokers of a target of `ClusterSpec.node_settings`."""
    name, _, role = target.partition(":")
    brokers = node_names(spec)[1]
    if role:
        return [broker for broker in brokers if node_target(broker) == target or _is_planned_slave(broker, name, role)]
    members = [broker for broker in brokers if place_in_group(broker)[0] == name]
    return members or [broker for broker in brokers if broker == name]


def node_target(broker: str) -> str:
    """Return the target of `ClusterSpec.node_settings` for a single broker."""
    return f"{broker}:master" if place_in_group(broker)[0] == broker else broker


def _is_planned_slave(broker: str, group: str, role: str) -> bool:
    return role == "slave" and _SLAVE_OF.fullmatch(broker) is not None and place_in_group(broker)[0] == group


def without_absent(spec: ClusterSpec) -> ClusterSpec:
    """Return a specification without the settings of brokers that it does not have."""
    kept = {target: given for target, given in spec.node_settings.items() if planned_names(spec, target)}
    return attrs.evolve(spec, node_settings=kept)


def check_targets(spec: ClusterSpec, targets: Iterable[str]) -> None:
    """Raise ValueError, with a near miss, for targets of settings that name no broker."""
    for target in targets:
        if planned_names(spec, target):
            continue
        nameservers, brokers = node_names(spec)
        if target in nameservers:
            raise ValueError(f"{target} is a nameserver: expected a broker, or a group of brokers")
        known = {*brokers, *(place_in_group(broker)[0] for broker in brokers), *map(node_target, brokers)}
        hint = near_miss(target, known) or f"; brokers: {', '.join(brokers)}"
        raise ValueError(f"no broker {target!r} here{hint}")
