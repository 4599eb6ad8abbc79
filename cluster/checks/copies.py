"""The records in a run's stores, read from the commit log files of every node.

A record whose body does not match its CRC is not a readable copy of its message. Records behind a hole (bytes that are
not a record) count as readable, although a broker that starts after a crash would truncate its log at the hole.
"""

import bisect
import collections
import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from rmqlab.cluster.checks.history import History, Queue
from rmqlab.cluster.checks.logstates import log_states
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.contentcrc import content_crc, keeps_content
from rmqlab.remoting.message import (
    PROPERTY_KEYS,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    Host,
    StoredMessage,
)
from rmqlab.remoting.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.net.address import address_text
from rmqlab.store.files.configfile import read_config_file
from rmqlab.store.files.disk import StoreError
from rmqlab.store.log.loglayout import log_begin, log_directory
from rmqlab.store.offline.compare import Comparison, LogImage, compare_logs
from rmqlab.store.offline.irregularfiles import why_unreadable
from rmqlab.store.offline.queueentries import QueueEntry, read_entries
from rmqlab.store.offline.scan import Hole, LogScan
from rmqlab.store.tagscodes import expected_code
from rmqlab.verdict.findings import IDS_LIMIT, Brokers, Evidence
from rmqlab.verdict.nodesettings import Settings, read_settings

_WAITING: Final = (SCHEDULE_TOPIC, HALF_TOPIC)
"""Topics of records whose message has another topic."""


@attrs.frozen(kw_only=True, eq=False)
class Header:
    """Fields that many records of a log have in common; such records share one object."""

    sys_flag: int
    """Its bits: see `rmqlab.remoting.message`."""
    store_host: str
    """Address and port of the broker that stored the message first."""
    reconsume_times: int
    real_topic: str
    """The final topic of a delayed or half message; empty for others."""


@attrs.frozen(kw_only=True)
class Copy:
    """One record in one node's log."""

    node: str
    message_id: str
    """The unique id; the offset message id if the producer set none."""
    queue: Queue
    """`broker` is the broker name: copies of a master and of its slaves have the same queue."""
    offset: int
    """Queue offset."""
    log_offset: int
    """Commit log offset in bytes."""
    stored_at: int
    size: int = 0
    """Of the whole record, in bytes."""
    tags_code: int | None = 0
    """That of its queue entry; None for a delayed message, see `rmqlab.store.tagscodes`."""
    is_damaged: bool = False
    """True if its body does not match its CRC."""
    has_unique_id: bool = True
    """False where `message_id` is the offset message id."""
    born_at: int | None = None
    """When its producer created it, in ms of the producer's clock; None if unknown, as `born_host`."""
    born_host: str | None = None
    """IP address of its producer."""
    content_crc: int | None = None
    """See `rmqlab.remoting.contentcrc`; None for a record that need not have the content that was sent."""
    header: Header | None = None
    """None if unknown."""
    prepared_at: int = 0
    """Commit log offset of the half message of a committed message; 0 for others."""

    @property
    def real_topic(self) -> str:
        """The final topic of a delayed or half message; empty for others."""
        return self.header.real_topic if self.header else ""

    def as_evidence(self, text: str) -> Evidence:
        """Return evidence about this record, at the time when it was stored."""
        return Evidence(text=text, at_millis=self.stored_at, message_ids=(self.message_id,))


@attrs.frozen(kw_only=True)
class NodeStore:
    """The log of one node."""

    node: str
    broker: str
    copies: tuple[Copy, ...]
    """Readable records, in the order of the log."""
    damaged: tuple[Copy, ...] = ()
    """Complete records whose body does not match its CRC. Their ids may be damaged, too."""
    holes: tuple[Hole, ...] = ()
    """Bytes before the end of the log that are not a record."""
    entries: tuple[QueueEntry, ...] = ()
    """Entries of its consume queues, read before the log: the records that they point at had been written."""
    op_crcs: frozenset[int] = frozenset()
    """Checksums of the content of its records that end half messages; see `rmqlab.verdict.overdue`."""
    unread_queues: str = ""
    """Why the entries of its consume queues are not known; empty if they are."""
    root: Path | None = None
    """The directory of the store; None if the node has no store."""
    begin: int = 0
    """Commit log offset at which the first file of the log begins."""
    end: int = 0
    """Commit log offset at which its last record ends; `begin` without one."""

    def is_damaged_at(self, offset: int) -> bool:
        """Return True if a damaged record begins at an offset, or a hole has it."""
        place = bisect.bisect_right(self._holes_in_order, offset, key=lambda hole: hole.offset)
        return offset in self._damaged_offsets or (place > 0 and offset < self._holes_in_order[place - 1].end)

    @functools.cached_property
    def _damaged_offsets(self) -> frozenset[int]:
        return frozenset(copy.log_offset for copy in self.damaged)

    @functools.cached_property
    def _holes_in_order(self) -> list[Hole]:
        return sorted(self.holes, key=lambda hole: hole.offset)


@attrs.frozen(kw_only=True)
class Stores:
    """The stores of a run."""

    nodes: Mapping[str, NodeStore]
    unread: Mapping[str, str]
    """Brokers whose store is missing, is not a store, or lacks files of its log, with the reason."""
    incomplete: Mapping[str, str] = attrs.field(factory=dict)
    """The part of `unread` that lacks files, or has files of others: what is left of these stores is in `nodes`."""
    misplaced: frozenset[str] = frozenset()
    """The nodes of `incomplete` with files of others."""
    remarks: tuple[str, ...] = ()
    """Damage of logs that no metric names."""
    by_message: Mapping[str, tuple[Copy, ...]]
    offset_files: Mapping[str, Mapping[str, Mapping[int, int]]] = attrs.field(factory=dict)
    """Consumer offsets by node, `topic@group` and queue id. Nodes with an unreadable consumerOffset.json are absent."""
    delay_files: Mapping[str, Mapping[int, int]] = attrs.field(factory=dict)
    """Offsets of delay levels by node and level. Nodes with an unreadable delayOffset.json are absent."""
    settings: Mapping[str, Settings | None] = attrs.field(factory=dict)
    """Settings of each node with a store; None where its config.toml cannot be read."""
    comparisons: Mapping[str, Comparison] = attrs.field(factory=dict)
    """By slave: the comparison of its master's log with its own, in this order."""

    def of_broker(self, name: str) -> list[NodeStore]:
        """Return the stores of a broker name's members."""
        return [store for store in self.nodes.values() if store.broker == name]

    def places(self, message_id: str) -> dict[tuple[Queue, int], list[Copy]]:
        """Return the places of a message.

        Copies of a master and of its slaves share one place.
        """
        return _places(self.by_message.get(message_id, ()))

    def places_in_order(self, message_id: str) -> dict[tuple[Queue, int], list[Copy]]:
        """Return the places of a message in the order in which they are listed."""
        return _places(sorted(self.by_message.get(message_id, ()), key=by_time))

    def brokers_of(self, message_id: str, history: History) -> Brokers:
        """Return the brokers that have a message, or that its sends or deliveries name."""
        named = {
            str(entry.fields["broker"])
            for entry in history.by_message.get(message_id, ())
            if entry.kind in ("sent", "delivered")
            and entry.fields.get("broker")
            and not entry.fields.get("reconsume_times")
        }
        return frozenset(named | {copy.queue.broker for copy in self.by_message.get(message_id, ())})

    def missing_of(self, brokers: Collection[str] | None, history: History) -> list[str]:
        """Return why messages of these broker names, or of any with None, are uncertain.

        Empty if all their logs were read.
        """
        return [
            f"{node}: {why}"
            for node, why in self.unread.items()
            if brokers is None or not history.roles.names_of(node).isdisjoint(brokers)
        ]

    def unread_brokers(self, history: History) -> Brokers:
        """Return all broker names of nodes whose log was not read, or lacks files."""
        return frozenset[str]().union(*map(history.roles.names_of, self.unread))


def _places(copies: Iterable[Copy]) -> dict[tuple[Queue, int], list[Copy]]:
    found: dict[tuple[Queue, int], list[Copy]] = {}
    for copy in copies:
        found.setdefault((copy.queue, copy.offset), []).append(copy)
    return found


def read_stores(roots: Mapping[str, Path], history: History) -> Stores:
    """Read the stores of nodes by name.

    Each path is a store's root, or a directory with the store in `store`. Offsets are read before all logs: a broker
    that runs may append to its log, and save larger offsets, in between.
    """
    nodes: dict[str, NodeStore] = {}
    unread: dict[str, str] = {}
    places: dict[str, Path | None] = {}
    for node, given in roots.items():
        try:
            places[node] = next((path for path in (given, given / "store") if is_store(path)), None)
            if places[node] is None and not _is_wiped(node, history):
                unread[node] = f"no store in {given}"
        except OSError as exc:
            unread[node] = f"{exc.filename or given}: {exc.strerror}"
    offsets = {node: _offset_file(root) for node, root in places.items() if root is not None}
    delays = {node: _delay_file(root) for node, root in places.items() if root is not None}
    for node, root in places.items():
        if node in unread:
            continue
        try:
            nodes[node] = read_store(node, broker_of(node, history), root)
        except OSError as exc:  # a file of the store is a pipe, a directory, or cannot be read
            unread[node] = f"{exc.filename or root}: {exc.strerror}"
    found = {node: root for node, root in places.items() if root is not None and node in nodes}
    for member in history.members.values():
        if member.is_broker and member.name not in roots:
            if _is_wiped(member.name, history):
                nodes[member.name] = NodeStore(node=member.name, broker=member.broker, copies=())
            else:
                unread[member.name] = "its store was not given"
    states = log_states(found, {node: store.end for node, store in nodes.items()}, history)
    incomplete = {node: state.trouble for node, state in states.items() if state.trouble}
    return attrs.evolve(
        gather(nodes.values(), unread | incomplete),
        incomplete=incomplete,
        misplaced=frozenset(node for node, state in states.items() if state.is_misplaced),
        remarks=tuple(f"{node}: {state.remark}" for node, state in states.items() if state.remark),
        comparisons=dict(_compare(found, history)),
        settings={node: read_settings(root.parent.parent, root.parent.name) for node, root in found.items()},
        offset_files={node: table for node, table in offsets.items() if node in found and table is not None},
        delay_files={node: table for node, table in delays.items() if node in found and table is not None},
    )


def _offset_file(root: Path) -> Mapping[str, Mapping[int, int]] | None:
    """Return the offsets in consumerOffset.json; None if it is missing or invalid."""
    content = read_config_file(root / "config" / "consumerOffset.json", ConsumerOffsets.decode)
    return None if content is None else content.offset_table


def _delay_file(root: Path) -> Mapping[int, int] | None:
    """Return the offsets in delayOffset.json; None if it is missing or invalid."""
    content = read_config_file(root / "config" / "delayOffset.json", DelayOffsets.decode)
    return None if content is None else content.offset_table


def _compare(roots: Mapping[str, Path], history: History) -> Iterator[tuple[str, Comparison]]:
    for follower, master in history.roles.followers.items():
        if {follower, master} <= roots.keys():
            with contextlib.suppress(StoreError, OSError), contextlib.ExitStack() as stack:
                images = [stack.enter_context(LogImage.open(roots[name])) for name in (master, follower)]
                yield follower, compare_logs(*images, shown=IDS_LIMIT)


def gather(nodes: Iterable[NodeStore], unread: Mapping[str, str]) -> Stores:
    """Combine stores, and index their records by message."""
    known = {store.node: store for store in nodes}
    by_message: dict[str, list[Copy]] = collections.defaultdict(list)
    for store in known.values():
        for copy in store.copies:
            by_message[copy.message_id].append(copy)
    by_node = dict(sorted(unread.items()))
    return Stores(nodes=known, unread=by_node, by_message={key: tuple(found) for key, found in by_message.items()})


def read_store(node: str, broker: str, root: Path | None) -> NodeStore:
    """Read one commit log and its consume queues.

    Empty without a store, or before the first message.
    """
    if root is None or not log_directory(root).is_dir():
        return NodeStore(node=node, broker=broker, copies=(), root=root)
    unread_queues = why_unreadable(root / "consumequeue")
    entries = () if unread_queues else tuple(read_entries(root))
    scan = LogScan(log_directory(root))
    copies: dict[bool, list[Copy]] = {True: [], False: []}
    op_crcs: set[int] = set()
    for copy in _copies(node, broker, scan, op_crcs):
        copies[copy.is_damaged].append(copy)
    return NodeStore(
        node=node,
        broker=broker,
        copies=tuple(copies[False]),
        damaged=tuple(copies[True]),
        holes=tuple(scan.holes),
        entries=entries,
        op_crcs=frozenset(op_crcs),
        unread_queues=unread_queues,
        root=root,
        begin=log_begin(root),
        end=max(scan.end_offset, log_begin(root)),
    )


def is_store(root: Path) -> bool:
    """Return True if a broker has opened a store in a directory."""
    return log_directory(root).is_dir() or (root / "lock").exists()


def _copies(node: str, broker: str, scan: LogScan, op_crcs: set[int]) -> Iterator[Copy]:
    """Yield every complete record; add to `op_crcs` on the way."""
    queues: dict[tuple[str, int], Queue] = {}
    headers: dict[tuple[int, Host, int, str], Header] = {}
    for message in scan.messages():
        key = (message.topic, message.queue_id)
        if (queue := queues.get(key)) is None:
            queue = queues[key] = Queue(message.topic, broker, message.queue_id)
        real_topic = message.properties.get(PROPERTY_REAL_TOPIC, "") if message.topic in _WAITING else ""
        fields = (message.sys_flag, message.store_host, message.reconsume_times, real_topic)
        if (header := headers.get(fields)) is None:
            header = headers[fields] = _header(*fields)
        copy = Copy(
            node=node,
            message_id=message.properties.get(PROPERTY_UNIQ_KEY) or message.offset_message_id,
            queue=queue,
            offset=message.queue_offset,
            log_offset=message.physical_offset,
            stored_at=message.store_timestamp,
            size=message.store_size,
            tags_code=expected_code(message),
            is_damaged=not message.is_intact,
            has_unique_id=PROPERTY_UNIQ_KEY in message.properties,
            born_at=message.born_timestamp,
            born_host=message.born_host[0],
            content_crc=_content_crc(message),
            header=header,
            prepared_at=message.prepared_transaction_offset,
        )
        if message.topic == OP_HALF_TOPIC and message.is_intact:
            op_crcs.add(_crc_of(message))
        yield copy


def _header(sys_flag: int, host: Host, reconsume_times: int, real_topic: str) -> Header:
    return Header(
        sys_flag=sys_flag, store_host=address_text(host), reconsume_times=reconsume_times, real_topic=real_topic
    )


def _content_crc(message: StoredMessage) -> int | None:
    if not keeps_content(message.topic, message.properties.get(PROPERTY_REAL_TOPIC, "")):
        return None
    return _crc_of(message)


def _crc_of(message: StoredMessage) -> int:
    keys, tags = (message.properties.get(name, "") for name in (PROPERTY_KEYS, PROPERTY_TAGS))
    return content_crc(message.body_crc, message.flag, keys, tags)


def _is_wiped(node: str, history: History) -> bool:
    """True if a node's store was wiped, and the node did not start again."""
    kinds = [entry.kind for entry in history.of_kind("store_wiped", "node_ready") if entry.node == node]
    return kinds[-1:] == ["store_wiped"]


def by_time(copy: Copy) -> tuple[int, str, int]:
    """Return a record's key in lists: store time, node and commit log offset."""
    return copy.stored_at, copy.node, copy.log_offset


def brokers_of(copies: Sequence[Copy], history: History) -> Brokers:
    """Return the brokers of a message's records and of its acknowledgement.

    Empty without an acknowledgement: any broker may have had the message.
    """
    entries = history.by_message.get(copies[0].message_id, ())
    acknowledged = {str(one.fields["broker"]) for one in entries if one.kind == "sent" and one.fields.get("broker")}
    return frozenset(acknowledged | {copy.queue.broker for copy in copies}) if acknowledged else frozenset()


def broker_of(node: str, history: History) -> str:
    """Return the broker name of a node; its own name if it never became ready."""
    member = history.members.get(node)
    return member.broker if member and member.broker else node
