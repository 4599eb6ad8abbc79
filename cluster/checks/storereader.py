"""Reads the records of a run's stores from the commit log files of every node.

Records behind a hole (bytes that are not a record) are read, too, although a broker that starts after a crash would
truncate its log at the hole.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from rmqlab.cluster.checks.copies import Copy, Header, NodeStore, Stores, gather
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
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
from rmqlab.store.offline.queueentries import read_entries
from rmqlab.store.offline.scan import LogScan
from rmqlab.store.tagscodes import expected_code
from rmqlab.verdict.findings import IDS_LIMIT
from rmqlab.verdict.nodesettings import read_settings

_WAITING: Final = (SCHEDULE_TOPIC, HALF_TOPIC)
"""Topics of records whose message has another topic."""


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
            nodes[node] = read_store(node, history.broker_of(node), root)
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
