"""Compare the small files of stores with their logs.

Metrics: unindexed NODE, topics_missing NODE, offset_file_ahead NODE, delay_offset_ahead NODE; the rules are those of
cluster/checks/storefiles.py. This process reads the files; Spark reads the records.
"""

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import Row

from rmqlab.pipeline.audit.previews import Group, Preview
from rmqlab.pipeline.audit.records import ended_in_good_order
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Run, written
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.store.files.configfile import read_config_file
from rmqlab.store.log.loglayout import log_directory
from rmqlab.store.offline.irregularfiles import why_unreadable
from rmqlab.store.offline.sidefiles import COPIED, side_file_warnings
from rmqlab.store.offline.stopfiles import odd_log_files, stop_file_warnings
from rmqlab.verdict.catalogue import DELAY_OFFSET_AHEAD, MESSAGES, TOPICS
from rmqlab.verdict.causes import STALE_INDEX_KINDS
from rmqlab.verdict.conditions import CLOCK, DISK
from rmqlab.verdict.ends import END_KINDS, was_clean
from rmqlab.verdict.farcommits import REMOVED_KINDS, FarCommit, QueueEnds, far_commits, judged_brokers
from rmqlab.verdict.findings import Finding, line_evidence, unknown
from rmqlab.verdict.nodesettings import read_settings, why_no_index
from rmqlab.verdict.uncommittedoffsets import judged_groups, uncommitted_offsets

T = TypeVar("T")
_SETTLED = 30_000
_UNCLEAN = ("node_killed", "node_crashed", "power_lost", "store_wiped")
_LOST = "the node lost power, or its store"
_INDEX_HEAD_SIZE = 32

_UNINDEXED = """
select /*+ shuffle_hash(i) */ c.node, c.log_offset, c.message_id, c.stored_at
from readable_copies c left anti join index_ranges i on c.node = i.node and c.log_offset between i.first and i.last
where c.has_unique_id and c.stored_at >= {began_at}
"""

_FIRST_UNINDEXED = Preview("unindexed_messages", "node", ("log_offset",))

_TOPICS = """
select c.node, c.topic, min_by(c.stored_at, c.log_offset) first_stored
from copies c left anti join deleted_topics x
    on c.broker = x.broker and c.topic = x.topic and c.stored_at <= x.at
group by c.node, c.topic
"""

# Of a queue without commits, the lowest delivered offset: the group began there, or below it.
HIGHEST_COMMITS = """
select c.`group`, c.topic, c.broker, c.queue, coalesce(max(c.committed), min(c.delivered)) highest
from (
    select `group`, topic, broker, queue, offset committed, cast(null as bigint) delivered from commits
    union all select `group`, topic, broker, queue, null, offset from deliveries) c
    left anti join deleted_topics x on c.broker = x.broker and c.topic = x.topic
group by all
"""
_ENDS = "select broker, topic, queue, max(offset) + 1 until from whole_records group by broker, topic, queue"
FAR_COMMITS = f"""
select c.*, e.until
from (select `group`, topic, broker, queue, max(offset) offset, min_by(node, struct(-offset, node)) node
    from commits c left anti join deleted_topics x on c.broker = x.broker and c.topic = x.topic
    group by `group`, topic, broker, queue) c
    left join ({_ENDS}) e on c.broker = e.broker and c.topic = e.topic and c.queue = e.queue
"""


def judge(run: Run) -> Iterator[Finding]:
    """Write the table `unindexed_messages`, and yield the findings of every store."""
    ranges = [row for node in run.stores for row in _index_ranges(run, node)]
    run.relations.define_rows("index_ranges", ranges, node="string", first="bigint", last="bigint")
    _, topics, queue_ends = run.batch(
        written("unindexed_messages", _UNINDEXED.format(began_at=run.began_at), is_rare=True),
        Query(_TOPICS),
        Query(_ENDS),
    )
    (unindexed,) = run.previews(_FIRST_UNINDEXED)
    ends = {(row.broker, row.topic, row.queue): row.until for row in queue_ends}
    for node in run.stores:
        yield _judge_index(run, node, unindexed[node])
        yield _judge_topics(run, node, {row.topic: row.first_stored for row in topics if row.node == node})
        yield _judge_offsets(run, node, ends)
        yield _judge_delays(run, node, ends)


def remarks(run: Run) -> Iterator[str]:
    """Yield a line for each table or index file that its broker cannot have written.

    Raises OSError.
    """
    roots = {node: run.directory / node / "store" for node in run.stores if node not in run.wiped}
    losses = {one.node for one in run.cluster_events if one.kind == "power_lost"}
    ends = {one.node for one in run.cluster_events if one.kind in STALE_INDEX_KINDS}
    unclean = ends | {node for node in roots if not ended_in_good_order(run, node)}
    faults = [one for one in run.cluster_events if one.kind == "fault_applied"]
    yield from side_file_warnings(
        roots,
        run.roles.followers,
        masters=run.roles.last_masters,
        copiers={row.node for row in run.event_times if row.kind == COPIED},
        after_power_loss=losses,
        unclean=unclean,
        are_clocks_right=not any(one.fields.get("fault") == CLOCK for one in faults),
    )
    if not faults:
        for node in sorted(roots.keys() - run.incomplete.keys()):
            yield from _marks_of(run, node)


def offset_remarks(run: Run, groups_of: Mapping[str, Collection[str]], commits: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each saved offset that its group did not commit.

    `commits` are the rows of HIGHEST_COMMITS.
    """
    groups = judged_groups(run.conditions, groups_of)
    highest = {(row["group"], row.topic, row.broker, row.queue): row.highest for row in commits}
    for node, member in sorted(run.members.items()):
        is_settled = ended_in_good_order(run, node) and member.broker not in run.roles.contested
        is_own = node in run.offsets.consumers and node not in run.misplaced
        if member.broker and is_settled and is_own:
            yield from uncommitted_offsets(node, member.broker, run.offsets.consumers[node], highest, groups)


def commit_remarks(run: Run, commits: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each consumer with a commit beyond the end of its queue.

    `commits` are the rows of FAR_COMMITS.
    """
    names = {run.members[node].broker for node in run.stores if node in run.members}
    ends = QueueEnds(
        by_queue={(row.broker, row.topic, row.queue): row.until for row in commits if row.until is not None},
        known=[name for name in names if not run.unread_of({name})],
        whole=[name for name in names if not any(_begins(run, name))],
    )
    brokers = judged_brokers(
        names,
        [one.node for one in run.cluster_events if one.kind in REMOVED_KINDS],
        run.roles,
        has_disk_fault=any(one.fields.get("fault") == DISK for one in run.cluster_events),
    )
    names_of = ("node", "group", "topic", "broker", "queue", "offset")
    far = (FarCommit(**{name: row[name] for name in names_of}) for row in commits)
    yield from far_commits(far, ends, brokers, run.conditions)


def _marks_of(run: Run, node: str) -> Iterator[str]:
    """Yield how `abort` and `checkpoint` contradict a node's end or its log."""
    own = ((one.kind, str(one.fields.get("command"))) for one in run.cluster_events if one.node == node)
    ended = was_clean((event for event in own if event[0] in END_KINDS), is_stopped=node in run.stopped)
    root = run.directory / node / "store"
    if ended is not None and log_directory(root).is_dir():
        for line in (
            *odd_log_files(root),
            *stop_file_warnings(root, was_clean=ended, latest=run.latest_stored.get(node)),
        ):
            yield f"{node}: {line}"


def _judge_index(run: Run, node: str, unindexed: Group) -> Finding:
    metric = f"unindexed {node}"
    if node not in run.wiped and (why := why_no_index(read_settings(run.directory, node))):
        return unknown(metric, MESSAGES, why)
    is_unclean = any(one.node == node and one.kind in _UNCLEAN for one in run.cluster_events)
    if is_unclean or not ended_in_good_order(run, node):
        return unknown(metric, MESSAGES, "the node was not stopped in good order each time it ended")
    if why := why_unreadable(run.directory / node / "store" / "index"):
        return unknown(metric, MESSAGES, why)
    lines = (f"{row.message_id} at commit log offset {row.log_offset}: in no index file" for row in unindexed.first)
    return Finding(metric=metric, unit=MESSAGES, value=unindexed.found, evidence=line_evidence(lines))


def _index_ranges(run: Run, node: str) -> Iterator[dict[str, Any]]:
    """Return each index file's first and last commit log offset, from its header."""
    if why_unreadable(run.directory / node / "store" / "index"):
        return
    for path in sorted((run.directory / node / "store" / "index").glob("*")):
        with path.open("rb") as file:
            head = file.read(_INDEX_HEAD_SIZE)
        if len(head) == _INDEX_HEAD_SIZE:
            _, _, first, last = struct.unpack(">qqqq", head)
            yield {"node": node, "first": first, "last": last}


def _judge_topics(run: Run, node: str, firsts: Mapping[str, int]) -> Finding:
    metric = f"topics_missing {node}"
    if _is_without_store(run, node):
        return unknown(metric, TOPICS, _LOST)
    table = _read(run, node, "topics.json", TopicConfigSerializeWrapper.decode, TopicConfigSerializeWrapper())
    if table is None:
        return unknown(metric, TOPICS, "topics.json could not be read")
    missing = [
        topic
        for topic, stored_at in sorted(firsts.items())
        if stored_at <= run.ended_at - _SETTLED
        and topic not in table.topic_config_table
        and topic not in (SCHEDULE_TOPIC, HALF_TOPIC)
        and not topic.startswith("RMQ_SYS_")
    ]
    lines = (f"{node}: topics.json lacks {topic}" for topic in missing)
    return Finding(metric=metric, unit=TOPICS, value=len(missing), evidence=line_evidence(lines))


def _judge_offsets(run: Run, node: str, ends: Mapping[tuple[str, str, int], int]) -> Finding:
    metric = f"offset_file_ahead {node}"
    broker = run.members[node].broker if node in run.members else node
    if missing := run.unread_of({broker}):
        return unknown(metric, MESSAGES, "; ".join(missing))
    table = run.offsets.consumers.get(node)
    if table is None:
        return unknown(metric, MESSAGES, "consumerOffset.json could not be read")
    ahead = []
    without_messages = None if any(_begins(run, broker)) else 0
    for name, queues in table.items():
        topic, _, group = name.partition("@")
        for queue, offset in queues.items():
            end = ends.get((broker, topic, queue), without_messages)
            if end is not None and offset > end:
                text = f"{group}, {topic}@{broker}:{queue}: offset {offset} in the file, and the queue ends at {end}"
                ahead.append((offset - end, text))
    ahead.sort(key=lambda found: -found[0])
    evidence = line_evidence(text for _, text in ahead)
    return Finding(metric=metric, unit=MESSAGES, value=ahead[0][0] if ahead else 0, evidence=evidence)


def _judge_delays(run: Run, node: str, ends: Mapping[tuple[str, str, int], int]) -> Finding:
    metric = f"{DELAY_OFFSET_AHEAD.name} {node}"
    broker = run.members[node].broker if node in run.members else node
    if missing := run.unread_of({broker}):
        return unknown(metric, MESSAGES, "; ".join(missing))
    if _is_without_store(run, node):
        return unknown(metric, MESSAGES, _LOST)
    levels = {queue + 1: end for (name, topic, queue), end in ends.items() if (name, topic) == (broker, SCHEDULE_TOPIC)}
    table = run.offsets.delays.get(node)
    if table is None:
        missing_file = unknown(metric, MESSAGES, "delayOffset.json could not be read")
        return missing_file if levels else Finding(metric=metric, unit=MESSAGES, value=0)
    known = {level: levels.get(level, None if any(_begins(run, broker)) else 0) for level in table}
    ahead = {level: table[level] - end for level, end in known.items() if end is not None}
    worst = sorted((level for level, by in ahead.items() if by > 0), key=lambda level: (-ahead[level], -level))
    evidence = line_evidence(
        f"{node}, level {level}: offset {table[level]} in delayOffset.json, {ahead[level]} beyond its queue"
        for level in worst
    )
    return Finding(metric=metric, unit=MESSAGES, value=ahead[worst[0]] if worst else 0, evidence=evidence)


def _begins(run: Run, broker: str) -> Iterator[int]:
    """Yield the offset at which the commit log of each broker of a name begins."""
    members = (node for node in run.stores if node in run.members and run.members[node].broker == broker)
    return (run.log_begin(node) for node in members)


def _is_without_store(run: Run, node: str) -> bool:
    """Return True if a node lost power or its store since it was ready, or never was."""
    changes = ("node_ready", "power_lost", "store_wiped")
    kinds = [one.kind for one in run.cluster_events if one.node == node and one.kind in changes]
    return kinds[-1:] != ["node_ready"]


def _read(run: Run, node: str, name: str, decode: Callable[[bytes], T], never_written: T | None = None) -> T | None:
    return read_config_file(run.directory / node / "store" / "config" / name, decode, never_written)
