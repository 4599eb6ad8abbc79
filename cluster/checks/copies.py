"""The records in a run's stores, by node and by message.

A record whose body does not match its CRC is not a readable copy of its message.
"""

import bisect
import collections
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.store.offline.compare import Comparison
from rmqlab.store.offline.queueentries import QueueEntry
from rmqlab.store.offline.scan import Hole
from rmqlab.verdict.findings import Brokers, Evidence
from rmqlab.verdict.nodesettings import Settings


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


def gather(nodes: Iterable[NodeStore], unread: Mapping[str, str]) -> Stores:
    """Combine stores, and index their records by message."""
    known = {store.node: store for store in nodes}
    by_message: dict[str, list[Copy]] = collections.defaultdict(list)
    for store in known.values():
        for copy in store.copies:
            by_message[copy.message_id].append(copy)
    by_node = dict(sorted(unread.items()))
    return Stores(nodes=known, unread=by_node, by_message={key: tuple(found) for key, found in by_message.items()})


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
