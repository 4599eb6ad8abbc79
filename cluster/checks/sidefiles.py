"""Warnings of files beside the log that no broker can have written."""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import NodeStore, Stores
from rmqlab.cluster.checks.events import Commit, Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.records import ended_in_good_order
from rmqlab.cluster.checks.storefiles import queue_ends
from rmqlab.store.log.loglayout import log_directory
from rmqlab.store.offline.sidefiles import COPIED, side_file_warnings
from rmqlab.store.offline.stopfiles import odd_log_files, stop_file_warnings
from rmqlab.verdict.causes import STALE_INDEX_KINDS
from rmqlab.verdict.conditions import CLOCK, DISK, Conditions
from rmqlab.verdict.ends import END_KINDS, was_clean
from rmqlab.verdict.farcommits import REMOVED_KINDS, FarCommit, QueueEnds, far_commits, judged_brokers
from rmqlab.verdict.uncommittedoffsets import GroupQueueKey, judged_groups, uncommitted_offsets


def remarks(history: History, stores: Stores) -> Iterator[str]:
    """Yield a line for each such file. Raises OSError."""
    roots = {store.node: store.root for store in stores.nodes.values() if store.root is not None}
    losses = {entry.node for entry in history.of_kind("power_lost")}
    ends = {entry.node for entry in history.of_kind(*STALE_INDEX_KINDS)}
    unclean = ends | {node for node in roots if not ended_in_good_order(node, history)}
    yield from side_file_warnings(
        roots,
        history.roles.followers,
        masters=history.roles.last_masters,
        copiers={one.node for one in (*history.entries, *history.closing) if one.kind == COPIED},
        after_power_loss=losses,
        unclean=unclean,
        are_clocks_right=not any(one.fields.get("fault") == CLOCK for one in history.of_kind("fault_applied")),
    )
    if not any(history.of_kind("fault_applied")):
        for node, store in sorted(stores.nodes.items()):
            if node not in stores.incomplete:
                yield from _marks_of(store, history)


def offset_remarks(history: History, stores: Stores, conditions: Conditions) -> Iterator[str]:
    """Yield a line for each saved offset that its group did not commit."""
    groups = judged_groups(conditions, history.groups_of)
    highest: dict[GroupQueueKey, int] = {}
    for commit in history.commits:
        queue = commit.queue
        if (queue.broker, queue.topic) not in history.deleted_topics:
            place = (commit.group, queue.topic, queue.broker, queue.queue_id)
            highest[place] = max(highest.get(place, 0), commit.offset)
    lowest: dict[GroupQueueKey, int] = {}
    for delivery in history.deliveries:
        queue = delivery.queue
        if (queue.broker, queue.topic) not in history.deleted_topics:
            place = (delivery.group, queue.topic, queue.broker, queue.queue_id)
            lowest[place] = min(lowest.get(place, delivery.offset), delivery.offset)
    highest = lowest | highest
    for member in sorted(history.members.values(), key=lambda one: one.name):
        is_settled = ended_in_good_order(member.name, history) and member.broker not in history.roles.contested
        is_own = member.name in stores.offset_files and member.name not in stores.misplaced
        if member.broker and is_settled and is_own:
            yield from uncommitted_offsets(
                member.name, member.broker, stores.offset_files[member.name], highest, groups
            )


def commit_remarks(history: History, stores: Stores, conditions: Conditions) -> Iterator[str]:
    """Yield a line for each consumer with a commit beyond the end of its queue."""
    farthest: dict[tuple[str, Queue], Commit] = {}
    for commit in history.commits:
        place, queue = (commit.group, commit.queue), commit.queue
        before = farthest.get(place)
        if (queue.broker, queue.topic) not in history.deleted_topics and (
            before is None or (-commit.offset, commit.node) < (-before.offset, before.node)
        ):
            farthest[place] = commit
    names = {store.broker for store in stores.nodes.values()}
    members = {name: stores.of_broker(name) for name in names}
    ends = QueueEnds(
        by_queue={
            (queue.broker, queue.topic, queue.queue_id): end
            for found in members.values()
            for queue, end in queue_ends(found).items()
        },
        known=[name for name in names if not stores.missing_of([name], history)],
        whole=[name for name, found in members.items() if not any(store.begin for store in found)],
    )
    brokers = judged_brokers(
        names,
        [entry.node for entry in history.of_kind(*REMOVED_KINDS)],
        history.roles,
        has_disk_fault=any(one.fields.get("fault") == DISK for one in history.of_kind("fault_applied")),
    )
    yield from far_commits(map(_as_far_commit, farthest.values()), ends, brokers, conditions)


def _as_far_commit(commit: Commit) -> FarCommit:
    queue = commit.queue
    return FarCommit(
        node=commit.node,
        group=commit.group,
        topic=queue.topic,
        broker=queue.broker,
        queue=queue.queue_id,
        offset=commit.offset,
    )


def _marks_of(store: NodeStore, history: History) -> Iterator[str]:
    events = ((one.kind, str(one.fields.get("command"))) for one in history.of_node(store.node, *END_KINDS))
    ended = was_clean(events, is_stopped=store.node in history.stopped)
    if store.root is None or ended is None or not log_directory(store.root).is_dir():
        return
    latest = max((copy.stored_at for copy in (*store.copies, *store.damaged)), default=None)
    for line in (*odd_log_files(store.root), *stop_file_warnings(store.root, was_clean=ended, latest=latest)):
        yield f"{store.node}: {line}"
