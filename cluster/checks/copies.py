"""What lies in the stores of a run: every record of every node's commit log, read from the files alone.

A record whose body has another CRC than its head states is no readable copy of its message, and bytes that are no record
hold none. Records behind such a hole count: they are there to be read, although a broker that starts after a crash would
cut its log off at the hole.
"""

import collections
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from rmqlab.cluster.checks.history import History, Queue
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.message import PROPERTY_UNIQ_KEY
from rmqlab.store.compare import Comparison, LogImage, compare_logs
from rmqlab.store.configfile import load_config_file
from rmqlab.store.disk import StoreError
from rmqlab.store.queueentries import QueueEntry, read_entries
from rmqlab.store.scan import Hole, LogScan
from rmqlab.verdict.findings import IDS_LIMIT


@attrs.frozen(kw_only=True)
class Copy:
    """One record in one node's log."""

    node: str
    message_id: str
    """The unique id; the offset message id for a message whose producer gave none."""
    queue: Queue
    """`broker` is the broker name: a master's and its slaves' copies stand in the same queue."""
    offset: int
    """Queue offset."""
    log_offset: int
    """Commit log offset in bytes."""
    stored_at: int
    size: int = 0
    """Of the whole record, in bytes."""
    has_unique_id: bool = True
    """False where `message_id` is the offset message id."""


@attrs.frozen(kw_only=True)
class NodeStore:
    """The log of one node."""

    node: str
    broker: str
    copies: tuple[Copy, ...]
    """Readable records, in the order of the log."""
    damaged: tuple[Copy, ...] = ()
    """Whole records whose body fails its CRC. Their ids may be damaged, too."""
    holes: tuple[Hole, ...] = ()
    """Bytes before the end of the log that are no record."""
    entries: tuple[QueueEntry, ...] = ()
    """Of its consume queues, read before the log: what they point at had been written."""
    root: Path | None = None
    """The directory of the store; None where there is none."""


@attrs.frozen(kw_only=True)
class Stores:
    """All logs that could be read."""

    nodes: Mapping[str, NodeStore]
    unread: Mapping[str, str]
    """Brokers whose store was not given, or is no store, with what is missing."""
    by_message: Mapping[str, tuple[Copy, ...]]
    offset_files: Mapping[str, Mapping[str, Mapping[int, int]]] = attrs.field(factory=dict)
    """Consumer offsets by node, `topic@group` and queue id, for nodes whose consumerOffset.json could be read."""
    comparisons: Mapping[str, Comparison] = attrs.field(factory=dict)
    """By slave: its log held against its master's, which is the first of the two."""

    def of_broker(self, name: str) -> list[NodeStore]:
        """The logs of a broker name's members."""
        return [store for store in self.nodes.values() if store.broker == name]

    def places(self, message_id: str) -> dict[tuple[Queue, int], list[Copy]]:
        """Where a message is stored; copies of a master and of its slaves share one place."""
        found: dict[tuple[Queue, int], list[Copy]] = {}
        for copy in self.by_message.get(message_id, ()):
            found.setdefault((copy.queue, copy.offset), []).append(copy)
        return found

    def missing_of(self, brokers: Iterable[str], history: History) -> list[str]:
        """Why nothing certain can be said about messages of these broker names; empty where all logs were read."""
        wanted = set(brokers)
        return [f"{node}: {why}" for node, why in self.unread.items() if broker_of(node, history) in wanted]


def read_stores(roots: Mapping[str, Path], history: History) -> Stores:
    """Read the stores of nodes by name: each a store's root, or the directory that has it as `store`."""
    nodes: dict[str, NodeStore] = {}
    found: dict[str, Path] = {}
    unread: dict[str, str] = {}
    for node, given in roots.items():
        root = next((path for path in (given, given / "store") if _is_store(path)), None)
        if root is None and not _is_wiped(node, history):
            unread[node] = f"no store in {given}"
            continue
        nodes[node] = read_store(node, broker_of(node, history), root)
        if root is not None:
            found[node] = root
    for member in history.members.values():
        if member.is_broker and member.name not in roots:
            unread[member.name] = "its store was not given"
    return attrs.evolve(
        gather(nodes.values(), unread),
        comparisons=dict(_compare(found, history)),
        offset_files={node: table for node, root in found.items() if (table := _offset_file(root)) is not None},
    )


def _offset_file(root: Path) -> Mapping[str, Mapping[int, int]] | None:
    """Read consumerOffset.json as a broker that starts does; None where it is missing or invalid."""
    content = load_config_file(root / "config" / "consumerOffset.json", ConsumerOffsets.decode)
    return None if content is None else content.offset_table


def _compare(roots: Mapping[str, Path], history: History) -> Iterator[tuple[str, Comparison]]:
    for slave in history.members.values():
        master = next(iter(history.brokers(slave.broker)), slave)
        if slave.broker_id and not master.broker_id and {slave.name, master.name} <= roots.keys():
            with contextlib.suppress(StoreError), contextlib.ExitStack() as stack:
                images = [stack.enter_context(LogImage.open(roots[name])) for name in (master.name, slave.name)]
                yield slave.name, compare_logs(*images, shown=IDS_LIMIT)


def gather(nodes: Iterable[NodeStore], unread: Mapping[str, str]) -> Stores:
    """Put logs together."""
    known = {store.node: store for store in nodes}
    by_message: dict[str, list[Copy]] = collections.defaultdict(list)
    for store in known.values():
        for copy in store.copies:
            by_message[copy.message_id].append(copy)
    return Stores(nodes=known, unread=unread, by_message={key: tuple(found) for key, found in by_message.items()})


def read_store(node: str, broker: str, root: Path | None) -> NodeStore:
    """Read one commit log; without a store, or in one that never had a message, there is nothing."""
    if root is None or not (root / "commitlog").is_dir():
        return NodeStore(node=node, broker=broker, copies=(), root=root)
    entries = tuple(read_entries(root))
    scan = LogScan(root / "commitlog")
    copies: dict[bool, list[Copy]] = {True: [], False: []}
    for is_intact, copy in _copies(node, broker, scan):
        copies[is_intact].append(copy)
    return NodeStore(
        node=node,
        broker=broker,
        copies=tuple(copies[True]),
        damaged=tuple(copies[False]),
        holes=tuple(scan.holes),
        entries=entries,
        root=root,
    )


def _is_store(root: Path) -> bool:
    return (root / "commitlog").is_dir() or (root / "lock").exists()


def _copies(node: str, broker: str, scan: LogScan) -> Iterator[tuple[bool, Copy]]:
    """Yield every whole record, and whether its body is what its CRC says."""
    queues: dict[tuple[str, int], Queue] = {}
    for message in scan.messages():
        key = (message.topic, message.queue_id)
        if (queue := queues.get(key)) is None:
            queue = queues[key] = Queue(message.topic, broker, message.queue_id)
        copy = Copy(
            node=node,
            message_id=message.properties.get(PROPERTY_UNIQ_KEY) or message.offset_message_id,
            queue=queue,
            offset=message.queue_offset,
            log_offset=message.physical_offset,
            stored_at=message.store_timestamp,
            size=message.store_size,
            has_unique_id=PROPERTY_UNIQ_KEY in message.properties,
        )
        yield message.is_intact, copy


def _is_wiped(node: str, history: History) -> bool:
    """True if the last that is known of a node's store is that it was deleted."""
    kinds = [entry.kind for entry in history.of_kind("store_wiped", "node_ready") if entry.node == node]
    return kinds[-1:] == ["store_wiped"]


def broker_of(node: str, history: History) -> str:
    """The broker name of a node. One that never became ready is called after itself."""
    member = history.members.get(node)
    return member.broker if member and member.broker else node
