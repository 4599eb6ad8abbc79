"""Compares the small files of a store with its log.

The files are the index files, topics.json, consumerOffset.json and delayOffset.json. A broker that starts after a crash
deletes index files, so `unindexed` is known only for one that always stopped cleanly. A slave copies topics.json from
its master every 10 s, so topics whose first message is younger than 30 s do not count. Offsets are those that
`copies.read_stores` read before the logs.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from rmqlab.cluster.checks.copies import NodeStore, Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.records import ended_in_good_order
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.files.configfile import read_config_file
from rmqlab.store.log.readableend import EVERYTHING, readable_end
from rmqlab.store.offline.irregularfiles import why_unreadable
from rmqlab.verdict.catalogue import DELAY_OFFSET_AHEAD, MESSAGES, TOPICS
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown
from rmqlab.verdict.nodesettings import Settings, why_no_index

_INDEX_HEAD = struct.Struct(">16xqq")
_LOST = "the node lost power, or its store"
_SETTLED = 30_000
"""Milliseconds after which a slave must have a topic."""


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.STORE_FILES`."""
    for store in stores.nodes.values():
        yield _judge_index(store, history, stores.settings.get(store.node))
        yield _judge_topics(store, history)
        yield _judge_offsets(store, history, stores)
        yield _judge_delays(store, history, stores)


def _judge_index(store: NodeStore, history: History, settings: Settings | None) -> Finding:
    metric = f"unindexed {store.node}"
    if why := why_no_index(settings):
        return unknown(metric, MESSAGES, why)
    ends = list(history.of_node(store.node, "node_killed", "node_crashed", "power_lost", "store_wiped"))
    if ends or not ended_in_good_order(store.node, history):
        return unknown(metric, MESSAGES, "the node was not stopped in good order each time it ended")
    if store.root and (why := why_unreadable(store.root / "index")):
        return unknown(metric, MESSAGES, why)
    covered, end = _index_ranges(store.root), readable_end(store.root) if store.root else EVERYTHING
    found = [
        copy
        for copy in store.copies
        if copy.has_unique_id
        and copy.stored_at >= history.began_at
        and copy.log_offset < end
        and not any(first <= copy.log_offset <= last for first, last in covered)
    ]
    return count_of(
        metric,
        MESSAGES,
        found,
        lambda copy: copy.as_evidence(
            f"{store.node}, commit log offset {copy.log_offset}: in none of {len(covered)} index files"
        ),
        message_ids=[copy.message_id for copy in found],
    )


def _index_ranges(root: Path | None) -> list[tuple[int, int]]:
    """Return the commit log offsets of the first and last message of each index file."""
    found = []
    for path in sorted((root / "index").glob("*")) if root else ():
        if path.is_file():
            with open_regular(path) as file:  # only the head: an index file has 400 MB by default
                head = file.read(_INDEX_HEAD.size)
            if len(head) == _INDEX_HEAD.size:
                found.append(_INDEX_HEAD.unpack(head))
    return found


def _judge_topics(store: NodeStore, history: History) -> Finding:
    metric = f"topics_missing {store.node}"
    if not _has_started_since_loss(store.node, history):
        return unknown(metric, TOPICS, _LOST)
    path, empty = store.root / "config" / "topics.json" if store.root else None, TopicConfigSerializeWrapper()
    table = read_config_file(path, TopicConfigSerializeWrapper.decode, empty) if path else None
    if table is None:
        return unknown(metric, TOPICS, "topics.json could not be read")
    firsts: dict[str, int] = {}
    for copy in store.copies:
        if not history.is_deleted(copy.queue, copy.stored_at):
            firsts.setdefault(copy.queue.topic, copy.stored_at)
    missing = sorted(
        topic
        for topic, stored_at in firsts.items()
        if topic not in table.topic_config_table
        and topic not in (SCHEDULE_TOPIC, HALF_TOPIC)
        and not topic.startswith("RMQ_SYS_")
        and stored_at <= history.ended_at - _SETTLED
    )
    return count_of(metric, TOPICS, missing, lambda topic: Evidence(text=f"{store.node}: topics.json lacks {topic}"))


def _judge_offsets(store: NodeStore, history: History, stores: Stores) -> Finding:
    metric = f"offset_file_ahead {store.node}"
    offsets = stores.offset_files.get(store.node)
    if missing := stores.missing_of([store.broker], history):
        return unknown(metric, MESSAGES, "; ".join(missing))
    if offsets is None:
        return unknown(metric, MESSAGES, "consumerOffset.json could not be read")
    members = stores.of_broker(store.broker)
    ends = queue_ends(members)
    are_whole = not any(member.begin for member in members)
    ahead = [
        (offset - end, group, queue, offset, end)
        for name, queues in offsets.items()
        for topic, _, group in [name.partition("@")]
        for queue_id, offset in queues.items()
        for queue in [Queue(topic, store.broker, queue_id)]
        if (end := ends.get(queue, 0 if are_whole else offset)) < offset
    ]
    ahead.sort(key=lambda found: -found[0])
    return Finding(
        metric=metric,
        unit=MESSAGES,
        value=ahead[0][0] if ahead else 0,
        evidence=tuple(
            Evidence(text=f"{group}, {queue}: offset {offset} in the file, and the queue ends at {end}")
            for _, group, queue, offset, end in ahead
        ),
    )


def _judge_delays(store: NodeStore, history: History, stores: Stores) -> Finding:
    metric = f"{DELAY_OFFSET_AHEAD.name} {store.node}"
    if missing := stores.missing_of([store.broker], history):
        return unknown(metric, MESSAGES, "; ".join(missing))
    if not _has_started_since_loss(store.node, history):
        return unknown(metric, MESSAGES, _LOST)
    members = stores.of_broker(store.broker)
    ends = {queue.queue_id + 1: end for queue, end in queue_ends(members).items() if queue.topic == SCHEDULE_TOPIC}
    table = stores.delay_files.get(store.node)
    if table is None and ends:
        return unknown(metric, MESSAGES, "delayOffset.json could not be read")
    are_whole = not any(member.begin for member in members)
    ahead = [
        (offset - end, level, offset, end)
        for level, offset in (table or {}).items()
        if (end := ends.get(level, 0 if are_whole else offset)) < offset
    ]
    ahead.sort(reverse=True)
    return Finding(
        metric=metric,
        unit=MESSAGES,
        value=ahead[0][0] if ahead else 0,
        evidence=tuple(
            Evidence(
                text=f"{store.node}, level {level}: offset {offset} in delayOffset.json, and its queue ends at {end}"
            )
            for _, level, offset, end in ahead
        ),
    )


def _has_started_since_loss(node: str, history: History) -> bool:
    """Return True if a node lost neither power nor its store since it was ready."""
    last = [entry.kind for entry in history.of_node(node, "node_ready", "power_lost", "store_wiped")][-1:]
    return last == ["node_ready"]


def queue_ends(members: list[NodeStore]) -> Mapping[Queue, int]:
    """Return the end of each queue with messages, the highest of these stores."""
    ends: dict[Queue, int] = {}
    for store in members:
        for copy in (*store.copies, *store.damaged):
            ends[copy.queue] = max(ends.get(copy.queue, 0), copy.offset + 1)
    return ends
