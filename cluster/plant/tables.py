"""Violations in a broker's tables, such as consumerOffset.json."""

import collections
from pathlib import Path
from typing import TypeVar

import attrs
import msgspec

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.plant.model import WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_broker, any_master, any_slave, one_of_pair
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body, BodyError
from rmqlab.runtime.regularfile import read_regular

B = TypeVar("B", bound=Body)

_BACK = 30
_BEYOND = 100


def _path(copy: RunCopy, node: str, name: str) -> Path:
    return copy.store(node) / "config" / name


def _read(path: Path, kind: type[B]) -> B:
    """Read a table. NothingToPlantError where it is missing or invalid."""
    try:
        return kind.decode(read_regular(path))
    except (FileNotFoundError, BodyError) as exc:
        raise NothingToPlantError(f"no table to change: {exc}") from exc


def _write(copy: RunCopy, node: str, path: Path, table: Body, text: str, *, group: str = "") -> Change:
    """Save a changed table; its `.bak` stays as it was."""
    path.write_bytes(table.encode_pretty())
    return Change(edits=(copy.edit(node, path, None, text),), broker=copy.broker_of(node), consumer_group=group)


def _committed(copy: RunCopy, node: str) -> dict[tuple[str, Queue], int]:
    """Return the last offsets above 0 committed to a node's broker name.

    The keys are group and queue.
    """
    broker = copy.broker_of(node)
    last = {(one.group, one.queue): one.offset for one in copy.history.commits if one.queue.broker == broker}
    return {place: offset for place, offset in last.items() if offset > 0}


def set_offset(copy: RunCopy, node: str, group: str, queue: Queue, offset: int) -> Change:
    """Set a group's offset of a queue in consumerOffset.json."""
    path = _path(copy, node, "consumerOffset.json")
    table, key = _read(path, ConsumerOffsets), f"{queue.topic}@{group}"
    before = table.offset_table.get(key, {}).get(queue.queue_id)
    changed = table.offset_table | {key: table.offset_table.get(key, {}) | {queue.queue_id: offset}}
    text = f"{key} queue {queue.queue_id}: {before} set to {offset}"
    return _write(copy, node, path, msgspec.structs.replace(table, offset_table=changed), text, group=group)


def set_offset_back(copy: RunCopy, nodes: Nodes) -> Change:
    """Lower a stored offset by 30, or to 0."""
    last = _committed(copy, nodes[0])
    group, queue = copy.choose(list(last), f"commit above 0 to {nodes[0]}")
    return set_offset(copy, nodes[0], group, queue, max(0, last[group, queue] - _BACK))


def set_offset_forward(copy: RunCopy, nodes: Nodes) -> Change:
    """Raise a stored offset beyond the end of its queue."""
    group, queue = copy.choose(list(_committed(copy, nodes[0])), f"commit above 0 to {nodes[0]}")
    records = copy.log(nodes[0]).records()
    end = sum((one.topic, one.queue_id) == (queue.topic, queue.queue_id) for one in records)
    return set_offset(copy, nodes[0], group, queue, end + _BEYOND)


def set_offset_within(copy: RunCopy, nodes: Nodes) -> Change:
    """Raise a stored offset within its queue, beyond the group's commits."""
    records = copy.log(nodes[0]).records()
    ends = collections.Counter((one.topic, one.queue_id) for one in records)
    last = _committed(copy, nodes[0])
    left = {place: ends[place[1].topic, place[1].queue_id] for place in last}
    group, queue = copy.choose(
        [place for place, end in left.items() if end > last[place] + 1],
        f"commit to {nodes[0]} below the end of its queue",
    )
    return set_offset(copy, nodes[0], group, queue, (last[group, queue] + 1 + left[group, queue]) // 2)


def set_offset_of_no_queue(copy: RunCopy, nodes: Nodes) -> Change:
    """Write an offset of a queue behind the last one of a topic."""
    committed = _committed(copy, nodes[0])
    group, queue = copy.choose(list(committed), f"commit above 0 to {nodes[0]}")
    last = max(one.queue_id for one in copy.log(nodes[0]).records() if one.topic == queue.topic)
    return set_offset(copy, nodes[0], group, attrs.evolve(queue, queue_id=last + 1), _BACK)


def delete_offsets(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete consumerOffset.json and its backup."""
    path = _path(copy, nodes[0], "consumerOffset.json")
    edits = []
    for one in (path, path.with_name(f"{path.name}.bak")):
        if one.exists():
            one.unlink()
            edits.append(copy.edit(nodes[0], one, None, "deleted"))
    if not edits:
        raise NothingToPlantError(f"{nodes[0]} has no {path.name}")
    return Change(edits=tuple(edits), broker=copy.broker_of(nodes[0]))


def drop_topic(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove a topic with messages from topics.json."""
    path = _path(copy, nodes[0], "topics.json")
    table, topic = _read(path, TopicConfigSerializeWrapper), copy.victim(nodes).topic
    left = {name: config for name, config in table.topic_config_table.items() if name != topic}
    changed = msgspec.structs.replace(table, topic_config_table=left)
    return _write(copy, nodes[0], path, changed, f"topic {topic} removed")


def drop_group(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove a group that consumed from subscriptionGroup.json."""
    path = _path(copy, nodes[0], "subscriptionGroup.json")
    table = _read(path, SubscriptionGroupWrapper)
    groups = sorted({group for group, _ in _committed(copy, nodes[0])} & table.subscription_group_table.keys())
    group = copy.choose(groups, f"group that committed to {nodes[0]} in its {path.name}")
    left = {name: config for name, config in table.subscription_group_table.items() if name != group}
    changed = msgspec.structs.replace(table, subscription_group_table=left)
    return _write(copy, nodes[0], path, changed, f"group {group} removed", group=group)


def set_delay_offset(copy: RunCopy, node: str, level: int, offset: int) -> Change:
    """Set the offset of a delay level in delayOffset.json."""
    path = _path(copy, node, "delayOffset.json")
    table = _read(path, DelayOffsets)
    changed = msgspec.structs.replace(table, offset_table=table.offset_table | {level: offset})
    return _write(copy, node, path, changed, f"level {level}: {table.offset_table.get(level)} set to {offset}")


def set_delay_offset_back(copy: RunCopy, nodes: Nodes) -> Change:
    """Lower the offset of a delay level that delivered messages to 0."""
    table = _read(_path(copy, nodes[0], "delayOffset.json"), DelayOffsets)
    levels = sorted(level for level, offset in table.offset_table.items() if offset > 0)
    return set_delay_offset(copy, nodes[0], copy.choose(levels, f"delay level with deliveries at {nodes[0]}"), 0)


def set_delay_offset_forward(copy: RunCopy, nodes: Nodes) -> Change:
    """Raise the offset of a delay level beyond the end of its queue."""
    table = _read(_path(copy, nodes[0], "delayOffset.json"), DelayOffsets)
    level = copy.choose(sorted(table.offset_table), f"delay level with deliveries at {nodes[0]}")
    return set_delay_offset(copy, nodes[0], level, table.offset_table[level] + _BEYOND)


def shrink_topic(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove a queue of a topic with messages in topics.json.

    The table keeps its version.
    """
    path = _path(copy, nodes[0], "topics.json")
    table, topic = _read(path, TopicConfigSerializeWrapper), copy.victim(nodes).topic
    config = table.topic_config_table[topic]
    queues = max(0, config.read_queue_nums - 1)
    shrunk = msgspec.structs.replace(config, read_queue_nums=queues, write_queue_nums=queues)
    changed = msgspec.structs.replace(table, topic_config_table=table.topic_config_table | {topic: shrunk})
    return _write(copy, nodes[0], path, changed, f"topic {topic}: {config.read_queue_nums} queues set to {queues}")


def garble_table(copy: RunCopy, nodes: Nodes) -> Change:
    """Cut a table in its middle."""
    path = _path(copy, nodes[0], copy.random.choice(("topics.json", "subscriptionGroup.json")))
    content = path.read_bytes() if path.is_file() else b""
    at = len(content) // 2
    if not at:
        raise NothingToPlantError(f"{nodes[0]} has no {path.name}")
    path.write_bytes(content[:at])
    return Change(edits=(copy.edit(nodes[0], path, at, "cut here"),), broker=copy.broker_of(nodes[0]))


TABLES = (
    Kind(
        name="offsets-back",
        does="a group's offset of one queue is set back by 30 in a master's consumerOffset.json",
        where=any_master,
        change=set_offset_back,
        expects=(Expected(metric="offset_file_behind NODE"),),
    ),
    Kind(
        name="offsets-forward",
        does="a group's offset of one queue is set beyond the queue's end in consumerOffset.json",
        where=any_broker,
        change=set_offset_forward,
        expects=(Expected(metric="offset_file_ahead NODE"),),
        consequences=("warning",),
    ),
    Kind(
        name="offsets-within",
        does="a group's offset of one queue is set forward within the queue in a master's consumerOffset.json",
        where=any_master,
        change=set_offset_within,
        expects=(WARNING,),
    ),
    Kind(
        name="offsets-deleted",
        does="consumerOffset.json of a master is deleted, with its backup",
        where=any_master,
        change=delete_offsets,
        expects=(Expected(metric="offset_file_behind NODE", is_unknown=True),),
        consequences=("offset_file_ahead", "gap", "warning"),
    ),
    Kind(
        name="offsets-within-slave",
        does="a group's offset of one queue is set forward within the queue in a slave's consumerOffset.json",
        where=any_slave,
        change=set_offset_within,
        expects=(WARNING,),
    ),
    Kind(
        name="offsets-of-no-queue",
        does="consumerOffset.json has an offset of a queue that never had a message",
        where=any_broker,
        change=set_offset_of_no_queue,
        expects=(Expected(metric="offset_file_ahead NODE"),),
        consequences=("warning",),
    ),
    Kind(
        name="topic-gone",
        does="a topic that has messages is missing in topics.json",
        where=any_broker,
        change=drop_topic,
        expects=(Expected(metric="topics_missing NODE"),),
        consequences=("warning",),  # the other table of this version has it
    ),
    Kind(
        name="delay-offset-back",
        does="the offset of a delay level is set to 0 in a master's delayOffset.json",
        where=any_master,
        change=set_delay_offset_back,
        expects=(Expected(metric="delay_offset_behind NODE"),),
    ),
    Kind(
        name="delay-offset-forward",
        does="the offset of a delay level is set beyond its queue's end in delayOffset.json",
        where=any_broker,
        change=set_delay_offset_forward,
        expects=(Expected(metric="delay_offset_ahead NODE"),),
    ),
    Kind(
        name="group-gone",
        does="a consumer group that committed is missing in a master's subscriptionGroup.json",
        where=any_master,
        change=drop_group,
        expects=(Expected(metric="groups_missing NODE"),),
        consequences=("warning",),  # the other table of this version has it
    ),
    Kind(
        name="topic-shrunk",
        does="a topic that has messages has a queue less in topics.json",
        where=one_of_pair,
        change=shrink_topic,
        expects=(WARNING,),
    ),
    Kind(
        name="table-cut",
        does="topics.json or subscriptionGroup.json ends in its middle",
        where=any_broker,
        change=garble_table,
        expects=(WARNING,),
        consequences=("topics_missing", "groups_missing"),
    ),
)
