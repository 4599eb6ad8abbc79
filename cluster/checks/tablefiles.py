"""Small tables of masters, compared with their logs and the journal.

A broker saves a group at its first heartbeat, before it serves it. It saves delay offsets every 10 s and at a clean
stop: after any other end `delay_offset_behind` is unknown.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores
from rmqlab.cluster.checks.deletions import AfterDeletions
from rmqlab.cluster.checks.events import Member
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.records import ended_in_good_order
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import DelayOffsets
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.files.configfile import read_config_file
from rmqlab.verdict.catalogue import DELAY_OFFSET_BEHIND, GROUPS_MISSING, TABLE_FILES
from rmqlab.verdict.duetimes import may_repeat
from rmqlab.verdict.findings import Finding, line_evidence, unknown
from rmqlab.verdict.roles import CONTESTED

T = TypeVar("T")
_GROUPS = "subscriptionGroup.json"
_DELAYS = "delayOffset.json"


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.TABLE_FILES`, for every master that was ready."""
    for member in history.members.values():
        if not member.is_broker or member.broker_id:
            continue
        store = stores.nodes.get(member.name)
        last = [entry.kind for entry in history.of_node(member.name, "node_ready", "power_lost", "store_wiped")][-1:]
        if last != ["node_ready"] or store is None:
            why = "the node lost power, or its store" if store else "its store was not given"
            for metric in TABLE_FILES:
                yield unknown(f"{metric.name} {member.name}", metric.unit, why)
        else:
            yield _judge_groups(member, store, history)
            yield _judge_delays(member, store, history)


def _read(store: NodeStore, name: str, decode: Callable[[bytes], T], never_written: T | None = None) -> T | None:
    return read_config_file(store.root / "config" / name, decode, never_written) if store.root else None


def _judge_groups(member: Member, store: NodeStore, history: History) -> Finding:
    metric, unit = f"{GROUPS_MISSING.name} {member.name}", GROUPS_MISSING.unit
    table = _read(store, _GROUPS, SubscriptionGroupWrapper.decode, SubscriptionGroupWrapper())
    if table is None:
        return unknown(metric, unit, f"{_GROUPS} could not be read")
    if member.broker in history.roles.contested:
        return unknown(metric, unit, CONTESTED)
    after = AfterDeletions.of(history)
    ready_at = max(entry.at_millis for entry in history.of_node(member.name, "node_ready"))
    served = {
        delivery.group
        for delivery in history.deliveries
        if delivery.queue.broker == member.broker
        and after.is_of_group(delivery)
        and not delivery.entry.fields.get("from_broker_id")
        and delivery.at >= ready_at
        and history.roles.master_at(member.broker, delivery.at) == member.name
    }
    missing = sorted(served - table.subscription_group_table.keys())
    lines = (f"{member.name}: {_GROUPS} lacks {group}, which consumed from here" for group in missing)
    return Finding(metric=metric, unit=unit, value=len(missing), evidence=line_evidence(lines))


def _judge_delays(member: Member, store: NodeStore, history: History) -> Finding:
    metric, unit = f"{DELAY_OFFSET_BEHIND.name} {member.name}", DELAY_OFFSET_BEHIND.unit
    if not ended_in_good_order(member.name, history):
        return unknown(metric, unit, "the node was not stopped in good order")
    started = (entry.node for entry in history.of_kind("node_ready"))
    repeats = may_repeat(member.broker, started, history.roles)
    table, delivered = _read(store, _DELAYS, DelayOffsets.decode), _delivered_levels(store, may_repeat=repeats)
    if table is None and delivered:
        return unknown(metric, unit, f"{_DELAYS} could not be read")
    stored = table.offset_table if table else {}
    behind = {level: end - stored.get(level, 0) for level, end in delivered.items() if end > stored.get(level, 0)}
    lines = (f"{member.name}: level {level} delivered {by} messages beyond its offset" for level, by in behind.items())
    return Finding(metric=metric, unit=unit, value=max(behind.values(), default=0), evidence=line_evidence(lines))


def _delivered_levels(store: NodeStore, *, may_repeat: bool) -> Mapping[int, int]:
    """Return the end of the certainly delivered messages of each delay level.

    The log contains each delivered message again under its own topic. A message may have been delayed several times, as
    by a client that retries: the level delivers these records in their order, once they are due. Records in several
    levels have no order, so that deliveries are of other levels as far as possible.
    """
    due_times = {
        (entry.log_offset, entry.queue_id, entry.offset): entry.tags_code
        for entry in store.entries
        if entry.topic == SCHEDULE_TOPIC
    }
    waiting: dict[tuple[str, str], list[Copy]] = collections.defaultdict(list)
    for copy in store.copies:
        if copy.queue.topic == SCHEDULE_TOPIC:
            waiting[copy.message_id, copy.real_topic].append(copy)
    delivered: dict[tuple[str, str], list[Copy]] = collections.defaultdict(list)
    for copy in store.copies:
        key = (copy.message_id, copy.queue.topic)
        if key in waiting and copy.log_offset > waiting[key][0].log_offset:
            delivered[key].append(copy)
    ends: dict[int, int] = {}
    for key, found in delivered.items():
        last, latest = found[-1].log_offset, max(copy.stored_at for copy in found)
        of_levels: dict[int, list[Copy]] = collections.defaultdict(list)
        for copy in waiting[key]:
            due_at = due_times.get((copy.log_offset, copy.queue.queue_id, copy.offset), 0)
            if copy.log_offset < last and due_at <= latest:
                of_levels[copy.queue.queue_id + 1].append(copy)
        others = sum(map(len, of_levels.values())) - (1 if may_repeat else len(found))
        for level, copies in of_levels.items():
            for copy in copies[: max(len(copies) - others, 0)]:
                ends[level] = max(copy.offset + 1, ends.get(level, 0))
    return dict(sorted(ends.items()))
