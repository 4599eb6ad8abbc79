"""The nodes of a cluster: names, addresses and ports. No I/O.

Every node has an address of its own, 127.77.C.N, with RocketMQ's standard ports: so an IP identifies a node, and all
clusters have the same layout. 127.77 is the network, which `$RMQLAB_NETWORK` overrides, C is the number of the cluster
(`Placement.subnet`), N that of the node. Brokers that find no room there are at further numbers C of the cluster. On
machines with 127.0.0.1 only, nodes have different ports instead.
"""

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import attrs

from rmqlab.runtime.config.validators import LEAST_RATE, MOST_RATE, one_of, shown, within
from rmqlab.runtime.config.valuetypes import typed_fields

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
BLOCK = 256
"""A slot from here on is in a further subnet: slot 256 + N is N of the first one, 512 + N of the second."""
MORE_BROKER_SLOTS = tuple(block * BLOCK + n for block in range(1, 5) for n in range(1, CLAIM_SLOT))
MOST_NAMESERVERS: Final = len(NAMESERVER_SLOTS)
MOST_BROKERS: Final = len(BROKER_SLOTS) + len(MORE_BROKER_SLOTS)
"""In all groups together, where each node has an address of its own."""

MASTER_ROLES = ("SYNC_MASTER", "ASYNC_MASTER")
MASTER_SLAVE, DLEDGER = MODES = ("master-slave", "dledger")
DLEDGER_PORT_DISTANCE = 2
"""From a broker's port to that of its group. RocketMQ's examples use 40911, which is in the range of outgoing ports."""
FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
PROFILES = ("4.9", "hardened")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NAME_RULE = "expected at most 64 letters, digits, '_', '.' and '-', beginning with a letter or digit"
_BROKER_NAME = re.compile(r"(?P<group>broker-[a-z]+)(?:-s(?P<slave>[0-9]*)|-n(?P<member>[0-9]+))?")


_RESERVED = frozenset(
    ("cluster", "cluster.json", "control.json", "journal", "journal.old", "journal.failed", "journal.kept",
     "supervisor.log", "forkserver.log", "supervisor.lock", "control.sock", "command.sock")
)  # fmt: skip
"""Names that are used in a cluster's directory, and for the supervisor's journal."""


class UnknownTargetError(Exception):
    """No node has this name, or several nodes where one is expected.

    The message lists the valid names.
    """


class NodeKind(enum.StrEnum):
    """The kind of a process of the cluster."""

    NAMESERVER = "nameserver"
    BROKER = "broker"
    WORKLOAD = "workload"


def _is_name(_instance: object, _attribute: object, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(f"cluster name {shown(value)}: {_NAME_RULE}")


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class ClusterSpec:
    """The specification of a cluster by the user."""

    name: str = attrs.field(default="default", validator=_is_name)
    groups: int = attrs.field(default=1, validator=within(1, MOST_BROKERS))
    """Number of broker groups, each a master and its slaves."""
    slaves: int = attrs.field(default=1, validator=within(0, MOST_BROKERS - 1))
    """Number of slaves of each master; in a DLedger group, the number of members less one."""
    mode: str = attrs.field(default=MASTER_SLAVE, validator=one_of(MODES))
    """Whether a group has a master for good, or a DLedger log whose leader it elects."""
    nameservers: int = attrs.field(default=1, validator=within(1, MOST_NAMESERVERS))
    role: str = attrs.field(default="ASYNC_MASTER", validator=one_of(MASTER_ROLES))
    flush: str = attrs.field(default="ASYNC_FLUSH", validator=one_of(FLUSH_TYPES))
    profile: str = attrs.field(default="4.9", validator=one_of(PROFILES))
    """The brokers' behaviour: RocketMQ 4.9, or with every switch on that fixes a defect of it."""
    rate: float = attrs.field(default=1.0, validator=within(LEAST_RATE, MOST_RATE))
    single_address: bool = False
    broker_settings: Mapping[str, Any] = attrs.field(factory=dict)
    """Additional keys of the brokers' settings files; they override the generated ones."""
    node_settings: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """Keys of single brokers, over those of all, by target: `broker-a-s`, `broker-a` (the whole group),
    `broker-a:master` and `broker-a:slave` by the planned roles."""
    added: tuple[str, ...] = ()
    """Names of nodes beyond the numbers above, in the order in which `add` added them."""
    removed: tuple[str, ...] = ()
    """Names of nodes among those numbers that `remove` has removed."""

    @property
    def group_members(self) -> int:
        """Number of members of each DLedger group; 0 without such groups."""
        return self.slaves + 1 if self.mode == DLEDGER else 0

    @property
    def common_profile(self) -> str:
        """Return the profile of all brokers; 4.9 if they have different ones."""
        common = str(self.broker_settings.get("profile", self.profile))
        is_common = all(given.get("profile", common) == common for given in self.node_settings.values())
        return common if is_common else PROFILES[0]


@attrs.frozen(kw_only=True)
class Placement:
    """The addresses of a cluster. Recorded at its first start and reused afterwards."""

    network: str = NETWORK
    """The first two numbers of all its addresses."""
    subnet: int | None = None
    """C of 127.77.C.N; None means that all nodes share 127.0.0.1."""
    more_subnets: tuple[int, ...] = ()
    """Further numbers C, for brokers beyond the first 220."""
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
        raise ValueError(f"workload name {shown(name)}: {_NAME_RULE}")
    if name in _RESERVED or (name in nodes and nodes[name].kind is not NodeKind.WORKLOAD):
        raise ValueError(
            f"workload name {name!r}: taken; expected a name that is not yet used in the cluster's directory"
        )


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


def follower_id(member: str) -> int:
    """Return the broker id of a member that does not lead: its number plus 1."""
    return int(member[1:]) + 1


def place_in_group(broker: str) -> tuple[str, int]:
    """Return the group of a broker, and its number there; 0 is the planned master."""
    found = _BROKER_NAME.fullmatch(broker)
    if found is None:
        raise ValueError(f"{broker}: expected the name of a broker, such as broker-a or broker-a-s")
    if found["member"] is not None:
        return found["group"], int(found["member"])
    if found["slave"] is None:
        return found["group"], 0
    return found["group"], int(found["slave"] or 1)


def is_broker(name: str) -> bool:
    """Return True for the name of a broker of a cluster."""
    return _BROKER_NAME.fullmatch(name) is not None


def brokers_of_run(placement: Placement, nodes_with_events: Collection[str]) -> list[str]:
    """Return all brokers that have events, also those that were removed."""
    return [name for name in placement.slots if is_broker(name) and name in nodes_with_events]


def node_names(spec: ClusterSpec) -> tuple[list[str], list[str]]:
    """Return the names of the nameservers, and of the brokers by their groups."""
    nameservers = [f"namesrv-{number}" for number in range(1, spec.nameservers + 1)]
    brokers = []
    for group in map(group_name, range(spec.groups)):
        brokers += [broker_name_of(spec, group, number) for number in range(spec.slaves + 1)]
    if not spec.added and not spec.removed:
        return nameservers, brokers
    for name in spec.added:
        names = brokers if _BROKER_NAME.fullmatch(name) else nameservers
        if name not in names:
            names.append(name)
    groups = list(dict.fromkeys(place_in_group(name)[0] for name in brokers))
    brokers.sort(key=lambda name: (groups.index(place_in_group(name)[0]), place_in_group(name)[1]))
    return [name for name in nameservers if name not in spec.removed], [
        name for name in brokers if name not in spec.removed
    ]


def place(spec: ClusterSpec, recorded: Placement) -> Placement:
    """Assign a slot to every node without one.

    ValueError if there are more nodes than addresses.
    """
    slots = dict(recorded.slots)
    taken = set(slots.values())
    room = {
        "nameservers": (*NAMESERVER_SLOTS,),
        "brokers": (*BROKER_SLOTS, *(() if recorded.subnet is None else MORE_BROKER_SLOTS)),
    }
    for names, (what, free) in zip(node_names(spec), room.items(), strict=True):
        unused = (slot for slot in free if slot not in taken)
        for name in names:
            if name not in slots:
                slot = next(unused, None)
                if slot is None:
                    alone = " at a single address" if recorded.subnet is None else ""
                    raise ValueError(f"{len(names)} {what}: a cluster{alone} has room for {len(free)}")
                slots[name] = slot
    return attrs.evolve(recorded, slots=slots)


def blocks_of(placement: Placement) -> int:
    """Return how many further subnets the slots need."""
    return max((slot // BLOCK for slot in placement.slots.values()), default=0)


def nodes_of(spec: ClusterSpec, placement: Placement) -> list[Node]:
    """Return all nodes in start order: nameservers, masters, slaves."""
    namesrvs, brokers = node_names(spec)
    nodes = [_place_node(Node(name=name, kind=NodeKind.NAMESERVER, host=""), placement) for name in namesrvs]
    in_order = sorted(brokers, key=lambda name: place_in_group(name)[1])
    return nodes + [_place_node(_broker(spec, name), placement) for name in in_order]


def _broker(spec: ClusterSpec, name: str) -> Node:
    group, number = place_in_group(name)
    node = Node(name=name, kind=NodeKind.BROKER, host="", group=group)
    if spec.mode == DLEDGER:  # a slave until its group elects it
        member = member_id(number)
        return attrs.evolve(node, role="SLAVE", broker_id=follower_id(member), member_id=member)
    return attrs.evolve(node, role="SLAVE" if number else spec.role, broker_id=number)


def _place_node(node: Node, placement: Placement) -> Node:
    slot = placement.slots[node.name]
    is_broker = node.kind is NodeKind.BROKER
    port = BROKER_PORT if is_broker else NAMESERVER_PORT
    if placement.subnet is not None:
        block, last = divmod(slot, BLOCK)
        subnet = placement.more_subnets[block - 1] if block else placement.subnet
        return attrs.evolve(node, host=f"{placement.network}.{subnet}.{last}", port=port)
    first = (BROKER_SLOTS if is_broker else NAMESERVER_SLOTS).start
    return attrs.evolve(node, host="127.0.0.1", port=port + placement.shift + PORT_STEP * (slot - first))


def start_phases(nodes: Iterable[Node]) -> list[list[str]]:
    """Return nodes to start together: nameservers, then masters, slaves, workloads.

    A broker registers at its start and then every 30 s, and a slave receives its master's address on registration: so
    each group starts after the previous one is ready.
    """
    phases: list[list[str]] = [[], [], [], []]
    for node in nodes:
        phase = 0 if node.kind is NodeKind.NAMESERVER else 1 if node.is_master else 2 if node.is_slave else 3
        phases[phase].append(node.name)
    return phases


def workload_host(placement: Placement, index: int) -> str:
    """Return the source address of the index-th workload process."""
    if placement.subnet is None:
        return "127.0.0.1"
    return f"{placement.network}.{placement.subnet}.{WORKLOAD_SLOTS[index % len(WORKLOAD_SLOTS)]}"


def namesrv_addr(nodes: Iterable[Node]) -> str:
    """Return the addresses of all nameservers for clients, separated by `;`."""
    return ";".join(node.address for node in nodes if node.kind is NodeKind.NAMESERVER)
