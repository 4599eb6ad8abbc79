"""The nodes of a cluster: names, addresses, ports, and settings. No I/O.

Every node has an address of its own, 127.77.C.N, with RocketMQ's standard ports: so an IP identifies a node, and all
clusters have the same layout. 127.77 is the network, which `$RMQLAB_NETWORK` overrides, C is the number of the cluster
(`Placement.subnet`), N that of the node. On machines with 127.0.0.1 only, nodes have different ports instead.
"""

import enum
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from rmqlab.runtime.validators import above, at_least, one_of, within

NAMESERVER_PORT = 9876
BROKER_PORT = 10911
PORT_STEP = 10  # between nodes at a single address: a broker uses listen port - 2 to + 1
SHIFT_STEP = 500  # between clusters at a single address
NETWORK = "127.77"

# N of 127.77.C.N, by kind of node. The supervisor binds one more, CLAIM_SLOT, to claim C.
NAMESERVER_SLOTS = range(1, 20)
BROKER_SLOTS = range(20, 240)
WORKLOAD_SLOTS = range(240, 254)
CLAIM_SLOT = 254

MASTER_ROLES = ("SYNC_MASTER", "ASYNC_MASTER")
MASTER_SLAVE, DLEDGER = MODES = ("master-slave", "dledger")
DLEDGER_PORT_DISTANCE = 2
"""From a broker's port to that of its group. RocketMQ's examples use 40911, which is in the range of outgoing ports."""
FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
PROFILES = ("4.9", "hardened")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


_RESERVED = frozenset(
    ("cluster", "cluster.json", "control.json", "journal", "journal.old", "supervisor.log", "forkserver.log", "supervisor.lock",
     "control.sock", "command.sock")
)  # fmt: skip
"""Names that are used in a cluster's directory, and for the supervisor's journal."""


class UnknownTargetError(Exception):
    """No node has this name. The message lists the valid names."""


class NodeKind(enum.StrEnum):
    """The kind of a process of the cluster."""

    NAMESERVER = "nameserver"
    BROKER = "broker"
    WORKLOAD = "workload"


def _is_name(_instance: object, _attribute: object, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(f"cluster name {value!r}: letters, digits and _.- up to 64, the first a letter or digit")


@attrs.frozen(kw_only=True)
class ClusterSpec:
    """The specification of a cluster by the user."""

    name: str = attrs.field(default="default", validator=_is_name)
    groups: int = attrs.field(default=1, validator=at_least(1))
    """Number of broker groups, each a master and its slaves."""
    slaves: int = attrs.field(default=1, validator=at_least(0))
    """Number of slaves of each master; in a DLedger group, the number of members less one."""
    mode: str = attrs.field(default=MASTER_SLAVE, validator=one_of(MODES))
    """Whether a group has a master for good, or a DLedger log whose leader it elects."""
    nameservers: int = attrs.field(default=1, validator=at_least(1))
    role: str = attrs.field(default="ASYNC_MASTER", validator=one_of(MASTER_ROLES))
    flush: str = attrs.field(default="ASYNC_FLUSH", validator=one_of(FLUSH_TYPES))
    profile: str = attrs.field(default="4.9", validator=one_of(PROFILES))
    """The brokers' behaviour: RocketMQ 4.9, or with every switch on that fixes a defect of it."""
    rate: float = attrs.field(default=1.0, validator=[above(0), within(0, 1000)])
    single_address: bool = False
    broker_settings: Mapping[str, Any] = attrs.field(factory=dict)
    """Additional keys of the brokers' settings files; they override the generated ones."""

    @property
    def group_members(self) -> int:
        """Number of members of each DLedger group; 0 without such groups."""
        return self.slaves + 1 if self.mode == DLEDGER else 0


@attrs.frozen(kw_only=True)
class Placement:
    """The addresses of a cluster. Recorded at its first start and reused afterwards."""

    network: str = NETWORK
    """The first two numbers of all its addresses."""
    subnet: int | None = None
    """C of 127.77.C.N; None means that all nodes share 127.0.0.1."""
    shift: int = 0
    """Added to the standard ports at a single address, so that clusters do not collide."""
    slots: Mapping[str, int] = attrs.field(factory=dict)
    """N of each current or former node."""


@attrs.frozen(kw_only=True)
class Node:
    """One nameserver, broker, or workload process, with its address."""

    name: str
    kind: NodeKind
    host: str
    port: int | None = None
    group: str | None = None
    """RocketMQ's broker name: the same for a master and its slaves."""
    role: str | None = None
    broker_id: int | None = None
    role_changes: int = 0
    """Number of its last change of role, counted in the cluster; 0 for the planned role."""
    member_id: str | None = None
    """Its dLegerSelfId, in a DLedger group."""

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def ha_port(self) -> int | None:
        """Listen port + 1, which is fixed in RocketMQ 4.9; None in a DLedger group."""
        return self.port + 1 if self.kind is NodeKind.BROKER and self.port and not self.member_id else None

    @property
    def ha_address(self) -> str | None:
        return f"{self.host}:{self.ha_port}" if self.ha_port else None

    @property
    def group_port(self) -> int | None:
        """The port for other members of its DLedger group."""
        return self.port + DLEDGER_PORT_DISTANCE if self.member_id and self.port else None

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0

    @property
    def is_slave(self) -> bool:
        return bool(self.broker_id)

    @property
    def listen_ports(self) -> tuple[int, ...]:
        """All ports that must be free for this node."""
        if self.port is None:
            return ()
        if self.kind is not NodeKind.BROKER:
            return (self.port,)
        return (self.port - 2, self.port, self.group_port or self.port + 1)


def check_workload_name(name: str, nodes: Mapping[str, Node]) -> None:
    """Raise ValueError for a name that is invalid, or whose files are in use.

    The files are the node's directory and its journal.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"workload name {name!r}: letters, digits and _.- up to 64, the first a letter or digit")
    if name in _RESERVED or (name in nodes and nodes[name].kind is not NodeKind.WORKLOAD):
        raise ValueError(
            f"workload name {name!r}: taken; expected a name that is not yet used in the cluster's directory"
        )


def check_spec(spec: ClusterSpec) -> None:
    """ValueError for settings that are valid separately, but not in combination."""
    for key in spec.broker_settings:
        if key in _NODES_OWN:
            raise ValueError(f"broker setting {key}: each node has its own{_NODES_OWN[key]}")
    if spec.mode == DLEDGER and spec.slaves % 2:
        members = spec.slaves + 1
        raise ValueError(
            f"a DLedger group of {members} members: expected an odd number, for it survives the loss of no more"
            f" members than one of {members - 1}"
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


def group_name(index: int) -> str:
    """Return broker-a ... broker-z, broker-aa ..."""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return f"broker-{letters}"


def slave_name(group: str, broker_id: int) -> str:
    """Return broker-a-s for the first slave, broker-a-s2 for the second."""
    return f"{group}-s" if broker_id == 1 else f"{group}-s{broker_id}"


def broker_name_of(spec: ClusterSpec, group: str, number: int) -> str:
    """Return the name of a group's broker; number 0 is the planned master."""
    if spec.mode == DLEDGER:
        return f"{group}-{member_id(number)}"
    return slave_name(group, number) if number else group


def member_id(number: int) -> str:
    """Return n0 for the first member of a DLedger group."""
    return f"n{number}"


def starting_id(member: str) -> int:
    """Return the broker id of a member that does not lead: its number plus 1."""
    return int(member[1:]) + 1


def node_names(spec: ClusterSpec) -> tuple[list[str], list[str]]:
    """Return the names of the nameservers, and of the brokers."""
    brokers = []
    for group in map(group_name, range(spec.groups)):
        brokers += [broker_name_of(spec, group, number) for number in range(spec.slaves + 1)]
    return [f"namesrv-{number}" for number in range(1, spec.nameservers + 1)], brokers


def place(spec: ClusterSpec, recorded: Placement) -> Placement:
    """Assign a slot to every node without one.

    ValueError if there are more nodes than addresses.
    """
    slots = dict(recorded.slots)
    for names, free, what in zip(
        node_names(spec), (NAMESERVER_SLOTS, BROKER_SLOTS), ("nameservers", "brokers"), strict=True
    ):
        taken = set(slots.values())
        unused = (slot for slot in free if slot not in taken)
        for name in names:
            if name not in slots:
                slot = next(unused, None)
                if slot is None:
                    raise ValueError(f"{len(names)} {what}: a cluster has room for {len(free)}")
                slots[name] = slot
    return attrs.evolve(recorded, slots=slots)


def nodes_of(spec: ClusterSpec, placement: Placement) -> list[Node]:
    """Return all nodes in start order: nameservers, masters, slaves."""
    namesrvs, _ = node_names(spec)
    nodes = [_place_node(Node(name=name, kind=NodeKind.NAMESERVER, host=""), placement) for name in namesrvs]
    for number in range(spec.slaves + 1):
        nodes += [_place_node(_broker(spec, group, number), placement) for group in map(group_name, range(spec.groups))]
    return nodes


def _broker(spec: ClusterSpec, group: str, number: int) -> Node:
    node = Node(name=broker_name_of(spec, group, number), kind=NodeKind.BROKER, host="", group=group)
    if spec.mode == DLEDGER:  # a slave until its group elects it
        member = member_id(number)
        return attrs.evolve(node, role="SLAVE", broker_id=starting_id(member), member_id=member)
    return attrs.evolve(node, role="SLAVE" if number else spec.role, broker_id=number)


def _place_node(node: Node, placement: Placement) -> Node:
    slot = placement.slots[node.name]
    is_broker = node.kind is NodeKind.BROKER
    port = BROKER_PORT if is_broker else NAMESERVER_PORT
    if placement.subnet is not None:
        return attrs.evolve(node, host=f"{placement.network}.{placement.subnet}.{slot}", port=port)
    first = (BROKER_SLOTS if is_broker else NAMESERVER_SLOTS).start
    return attrs.evolve(node, host="127.0.0.1", port=port + placement.shift + PORT_STEP * (slot - first))


def workload_host(placement: Placement, index: int) -> str:
    """Return the source address of the index-th workload process."""
    if placement.subnet is None:
        return "127.0.0.1"
    return f"{placement.network}.{placement.subnet}.{WORKLOAD_SLOTS[index % len(WORKLOAD_SLOTS)]}"


def namesrv_addr(nodes: Iterable[Node]) -> str:
    """Return the addresses of all nameservers for clients, separated by `;`."""
    return ";".join(node.address for node in nodes if node.kind is NodeKind.NAMESERVER)


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
        **spec.broker_settings,
    }


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
