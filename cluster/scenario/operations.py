"""Scenario actions that do what operators do (`rmqlab.cluster.operate`): their arguments, checks and runs.

create-topic = TOPIC or {topic, queues, read_queues, write_queues, permission, brokers}
update-topic = {topic, ...}                      the same keys
delete-topic = TOPIC
update-group = {group, broker_id, when_slow, retries, retry_queues, consume, broadcast, from_min, notify, brokers}
delete-group = GROUP or {group, offsets}
reset-offset = {group, topic, time, only_back} or {group, topic, offset, queue}
wipe-write-perm, add-write-perm = BROKER
set-config = {target, settings}
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from rmqlab.cluster.operate import groups, offsets, permissions, settings, topics
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Connection, Operator, Scope, open_operator
from rmqlab.cluster.operate.values import (
    QueueAt,
    checked_settings,
    group_name,
    parse_number,
    parse_queue_at,
    parse_time,
    topic_name,
)
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.cluster.supervisor.topology import NodeKind
from rmqlab.faults import near_miss


@attrs.frozen(kw_only=True)
class Operation:
    """An argument of one of these actions. What it names is checked before the run."""

    text: str
    """The argument as the run's record has it."""
    makes_topic: str = ""
    deletes_topic: str = ""
    needs_topic: str = ""
    group: str = ""
    brokers: tuple[str, ...] = ()
    """Broker names."""
    target: str = ""
    """A target that means brokers."""
    run: Callable[[Operator, Supervisor], Any] = attrs.field(repr=False, eq=False)
    """Coroutine function that returns the result."""

    def __str__(self) -> str:
        return self.text


async def operate(supervisor: Supervisor, verb: str, operation: Operation) -> None:
    """Do an operation on a cluster, and record its result. OperationError if it was not done."""
    brokers = [node for node in supervisor.nodes.values() if node.kind is NodeKind.BROKER]
    connection = Connection(
        namesrv_addr=supervisor.namesrv_addr,
        nodes={node.name: node.address for node in brokers},
        now_millis=supervisor.clock.wall_millis,
    )
    async with open_operator(connection) as operator:
        result = await operation.run(operator, supervisor)
    supervisor.record("", "operated", operation=f"{verb} {operation}", result=as_json(result))


# ---- topics ----------------------------------------------------------------------------------------------


def _create_topic(value: Any) -> Operation:
    given = {"topic": value} if isinstance(value, str) else value
    change, scope, text = _topic_change(given)
    return Operation(
        text=text,
        makes_topic=change.topic,
        brokers=scope.brokers,
        run=lambda operator, _: topics.create_topic(operator, change, scope),
    )


def _update_topic(value: Any) -> Operation:
    change, scope, text = _topic_change(value)
    if change.is_empty:
        raise InvalidOperationError(
            f"nothing to change at topic {change.topic}: give a number of queues or a permission"
        )
    return Operation(
        text=text,
        needs_topic=change.topic,
        brokers=scope.brokers,
        run=lambda operator, _: topics.update_topic(operator, change, scope),
    )


def _topic_change(value: Any) -> tuple[topics.TopicChange, Scope, str]:
    keys = ("topic", "queues", "read_queues", "write_queues", "permission", "brokers")
    table = _table(value, keys, 'such as {topic = "orders", queues = 4}')
    scope = Scope(brokers=_names(table.pop("brokers", ()), "brokers"))
    topic = _required(table, "topic")
    return topics.TopicChange.of(topic, **table), scope, _text(value)


def _delete_topic(value: Any) -> Operation:
    topic = topic_name(_word(value, "a topic"))
    return Operation(
        text=topic, deletes_topic=topic, needs_topic=topic, run=lambda operator, _: topics.delete_topic(operator, topic)
    )


# ---- groups and offsets ----------------------------------------------------------------------------------

_NUMBERS = ("broker_id", "when_slow", "retries", "retry_queues")
_FLAGS = ("consume", "broadcast", "from_min", "notify")


def _update_group(value: Any) -> Operation:
    table = _table(value, ("group", *_NUMBERS, *_FLAGS, "brokers"), 'such as {group = "shop", broker_id = 1}')
    scope = Scope(brokers=_names(table.pop("brokers", ()), "brokers"))
    group = _required(table, "group")
    for flag in _FLAGS:
        _check_flag(table, flag)
    change = groups.GroupChange.of(group, **table)
    if change.is_empty:
        raise InvalidOperationError(
            f"nothing to change at group {group}: expected one of {', '.join(_NUMBERS + _FLAGS)}"
        )
    return Operation(
        text=_text(value),
        group=group,
        brokers=scope.brokers,
        run=lambda operator, _: groups.update_group(operator, change, scope, creates=True),
    )


def _delete_group(value: Any) -> Operation:
    table = _table({"group": value} if isinstance(value, str) else value, ("group", "offsets"), 'such as "shop"')
    group, drop = group_name(_required(table, "group")), _check_flag(table, "offsets")
    return Operation(
        text=_text(value),
        group=group,
        run=lambda operator, _: groups.delete_group(operator, group, drop_offsets=drop),
    )


def _reset_offset(value: Any) -> Operation:
    example = 'such as {group = "shop", topic = "orders", time = "-10s"}'
    table = _table(value, ("group", "topic", "time", "only_back", "offset", "queue"), example)
    group, topic = group_name(_required(table, "group")), topic_name(_required(table, "topic"))
    if ("time" in table) == ("offset" in table):
        raise InvalidOperationError("expected either time or offset")
    only_back, run = _check_flag(table, "only_back"), _reset_run(table, group, topic)
    if only_back and "offset" in table:
        raise InvalidOperationError("only_back needs time")
    return Operation(text=_text(value), group=group, needs_topic=topic, run=run)


def _reset_run(table: Mapping[str, Any], group: str, topic: str) -> Callable[[Operator, Supervisor], Any]:
    if "offset" in table:
        offset = parse_number(table["offset"], "offset")
        queue: QueueAt | None = parse_queue_at(_word(table["queue"], "a queue")) if "queue" in table else None
        return lambda operator, _: offsets.reset_to_offset(operator, group, topic, offset, queue)
    if "queue" in table:
        raise InvalidOperationError("queue needs offset: to a time, all queues of the topic are reset")
    parse_time(table["time"], 0)  # rejects an invalid one before the run
    only_back = bool(table.get("only_back"))

    def run(operator: Operator, _supervisor: Supervisor) -> Any:
        time = parse_time(table["time"], operator.connection.now_millis())
        return offsets.reset_to_time(operator, group, topic, time, only_back=only_back)

    return run


# ---- brokers ---------------------------------------------------------------------------------------------


def _wipe_write_perm(value: Any) -> Operation:
    broker = _word(value, "a broker name")
    return Operation(
        text=broker, brokers=(broker,), run=lambda operator, _: permissions.wipe_write_perm(operator, broker)
    )


def _add_write_perm(value: Any) -> Operation:
    broker = _word(value, "a broker name")
    return Operation(
        text=broker, brokers=(broker,), run=lambda operator, _: permissions.add_write_perm(operator, broker)
    )


def _set_config(value: Any) -> Operation:
    example = 'such as {target = "broker-a", settings = {slaveReadEnable = true}}'
    table = _table(value, ("target", "settings"), example)
    target, given = _required(table, "target"), table.get("settings")
    if not isinstance(given, Mapping) or not given:
        raise InvalidOperationError(f"settings: expected a table of RocketMQ's keys, {example}")
    changes = checked_settings({key: _setting_text(one) for key, one in given.items()})

    async def run(operator: Operator, supervisor: Supervisor) -> Any:
        nodes = supervisor.find(target)
        return [one for node in nodes for one in await settings.set_settings(operator, node.address, changes)]

    return Operation(text=_text(value), target=target, run=run)


READERS: Mapping[str, Callable[[Any], Operation]] = {
    "create-topic": _create_topic,
    "update-topic": _update_topic,
    "delete-topic": _delete_topic,
    "update-group": _update_group,
    "delete-group": _delete_group,
    "reset-offset": _reset_offset,
    "wipe-write-perm": _wipe_write_perm,
    "add-write-perm": _add_write_perm,
    "set-config": _set_config,
}
"""Parsers of the actions' arguments. They raise ValueError or TypeError."""


def problems_of(
    operation: Operation, brokers: Collection[str], topics_known: Collection[str], groups_known: Collection[str]
) -> Iterator[str]:
    """Yield what is wrong with the names of an operation.

    Topics and groups are checked only where a workload or an earlier step names any: other programs may use others.
    """
    for broker in operation.brokers:
        if broker not in brokers:
            yield f"no broker name {broker!r}{near_miss(broker, brokers) or '; expected one of ' + ', '.join(brokers)}"
    if operation.needs_topic and topics_known and operation.needs_topic not in topics_known:
        topic = operation.needs_topic
        yield f"no workload and no step before makes topic {topic!r}{near_miss(topic, topics_known)}"
    if operation.makes_topic and operation.makes_topic in topics_known:
        yield f"topic {operation.makes_topic!r} exists by then: update-topic changes it"
    if operation.group and groups_known and operation.group not in groups_known:
        yield f"no workload consumes as group {operation.group!r}{near_miss(operation.group, groups_known)}"


# ---- reading ---------------------------------------------------------------------------------------------


def _table(value: Any, keys: Collection[str], example: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a table {example}, got {value!r}")
    for key in value:
        if key not in keys:
            raise InvalidOperationError(f"no key {key!r}; expected one of {', '.join(keys)}{near_miss(key, keys)}")
    return dict(value)


def _required(table: dict[str, Any], key: str) -> str:
    if key not in table:
        raise InvalidOperationError(f"{key} is missing")
    return _word(table.pop(key), f"a {key}")


def _word(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected {what}, got {value!r}")
    return value


def _names(value: Any, key: str) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{key} = {value!r}: expected an array of broker names")
    return tuple(value)


def _check_flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise TypeError(f"{key} = {value!r}: expected true or false")
    return value


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise TypeError(f"expected a text, a number, true or false, got {value!r}")
    return str(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_text(one)}" for key, one in value.items())
    return ",".join(map(_text, value)) if isinstance(value, list) else _setting_text(value)
