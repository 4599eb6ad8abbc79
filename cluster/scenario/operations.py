"""Scenario actions for operators' commands: their arguments and checks.

The operations are those of `rmqlab.cluster.operate`.

create-topic = TOPIC or {topic, queues, read_queues, write_queues, permission, order, brokers}
update-topic = {topic, ...}                      the same keys
delete-topic = TOPIC
update-group = {group, broker_id, when_slow, retries, retry_queues, consume, broadcast, from_min, notify, brokers}
delete-group = GROUP or {group, offsets}
reset-offset = {group, topic, time, only_back} or {group, topic, offset, queue}
wipe-write-perm, add-write-perm = BROKER
set-config = {target, settings}
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from rmqlab.cluster.operate import groups, offsets, permissions, settings, topicchanges
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.lab import connection_to
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Operator, Scope, open_operator
from rmqlab.cluster.operate.values import (
    QueueAt,
    checked_settings,
    group_name,
    parse_number,
    parse_queue_at,
    parse_time,
    setting_text,
    topic_name,
)
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.config.valuetypes import is_of_type
from rmqlab.runtime.text.nearmiss import near_miss


@attrs.frozen(kw_only=True)
class Operation:
    """An argument of one of these actions.

    It has plain values, and the names that are checked before the run.
    """

    text: str
    """The argument as the run's record has it."""
    values: Mapping[str, Any]
    """Keyword arguments of the action's function."""
    makes_topic: str = ""
    deletes_topic: str = ""
    needs_topic: str = ""
    group: str = ""
    brokers: tuple[str, ...] = ()
    """Broker names."""
    target: str = ""
    """A target that means brokers."""

    def __str__(self) -> str:
        return self.text


async def operate(supervisor: Supervisor, verb: str, operation: Operation) -> None:
    """Do an operation on a cluster, and record its result.

    OperationError if it was not done.
    """
    targets = [node.address for node in supervisor.find(operation.target)] if operation.target else []
    run = ACTIONS[verb].run
    async with open_operator(connection_to(supervisor)) as operator:
        if operation.target:
            result: object = [one for at in targets for one in await run(operator, target=at, **operation.values)]
        else:
            result = await run(operator, **operation.values)
    supervisor.record("", "operated", operation=f"{verb} {operation}", result=as_json(result))


# ---- topics ----------------------------------------------------------------------------------------------


def _create_topic(value: Any) -> Operation:
    change, scope = _topic_change({"topic": value} if isinstance(value, str) else value)
    values = {"change": change, "scope": scope}
    return Operation(text=_text(value), values=values, makes_topic=change.topic, brokers=scope.brokers)


def _update_topic(value: Any) -> Operation:
    change, scope = _topic_change(value)
    if change.is_empty:
        raise InvalidOperationError(
            "nothing to change: expected queues, read_queues, write_queues, permission or order"
        )
    values = {"change": change, "scope": scope}
    return Operation(text=_text(value), values=values, needs_topic=change.topic, brokers=scope.brokers)


def _topic_change(value: Any) -> tuple[topicchanges.TopicChange, Scope]:
    keys = ("topic", "queues", "read_queues", "write_queues", "permission", "order", "brokers")
    table = _table(value, keys, 'such as {topic = "orders", queues = 4}')
    scope = Scope(brokers=_names(table.pop("brokers", []), "brokers"))
    _check_flag(table, "order")
    _check_numbers(table, ("queues", "read_queues", "write_queues"))
    topic = _required(table, "topic")
    return topicchanges.TopicChange.of(topic, **table), scope


def _delete_topic(value: Any) -> Operation:
    topic = topic_name(_word(value, "a topic"))
    return Operation(text=topic, values={"topic": topic}, deletes_topic=topic, needs_topic=topic)


# ---- groups and offsets ----------------------------------------------------------------------------------

_NUMBERS = ("broker_id", "when_slow", "retries", "retry_queues")
_FLAGS = ("consume", "broadcast", "from_min", "notify")


def _update_group(value: Any) -> Operation:
    table = _table(value, ("group", *_NUMBERS, *_FLAGS, "brokers"), 'such as {group = "shop", broker_id = 1}')
    scope = Scope(brokers=_names(table.pop("brokers", []), "brokers"))
    group = _required(table, "group")
    for flag in _FLAGS:
        _check_flag(table, flag)
    _check_numbers(table, _NUMBERS)
    change = groups.GroupChange.of(group, **table)
    if change.is_empty:
        raise InvalidOperationError(f"nothing to change: expected one of {', '.join(_NUMBERS + _FLAGS)}")
    values = {"change": change, "scope": scope, "creates": True}
    return Operation(text=_text(value), values=values, group=group, brokers=scope.brokers)


def _delete_group(value: Any) -> Operation:
    table = _table({"group": value} if isinstance(value, str) else value, ("group", "offsets"), 'such as "shop"')
    group = group_name(_required(table, "group"))
    values = {"group": group, "drop_offsets": _check_flag(table, "offsets")}
    return Operation(text=_text(value), values=values, group=group)


def _reset_offset(value: Any) -> Operation:
    example = 'such as {group = "shop", topic = "orders", time = "-10s"}'
    table = _table(value, ("group", "topic", "time", "only_back", "offset", "queue"), example)
    group, topic = group_name(_required(table, "group")), topic_name(_required(table, "topic"))
    if ("time" in table) == ("offset" in table):
        raise InvalidOperationError("expected either time or offset")
    if "offset" in table and "only_back" in table:
        raise InvalidOperationError("only_back needs time")
    if "time" in table and "queue" in table:
        raise InvalidOperationError("queue needs offset: to a time, all queues of the topic are reset")
    if "time" in table:
        parse_time(table["time"], 0)  # rejects an invalid one before the run
    _check_flag(table, "only_back")
    _check_numbers(table, ("offset",))
    if "offset" in table:
        table["offset"] = parse_number(table["offset"], "offset")
    if "queue" in table:
        table["queue"] = parse_queue_at(_word(table["queue"], "a queue"))
    values = {"group": group, "topic": topic, **table}
    return Operation(text=_text(value), values=values, group=group, needs_topic=topic)


async def _reset(
    operator: Operator,
    *,
    group: str,
    topic: str,
    time: str | int | None = None,
    only_back: bool = False,
    offset: int = 0,
    queue: QueueAt | None = None,
) -> offsets.OffsetReset:
    if time is None:
        return await offsets.reset_to_offset(operator, group, topic, offset, queue)
    timestamp = parse_time(time, operator.connection.now_millis())
    return await offsets.reset_to_time(operator, group, topic, timestamp, only_back=only_back)


# ---- brokers ---------------------------------------------------------------------------------------------


def _broker_name(value: Any) -> Operation:
    broker = _word(value, "a broker name")
    return Operation(text=broker, values={"broker": broker}, brokers=(broker,))


def _set_config(value: Any) -> Operation:
    example = 'such as {target = "broker-a", settings = {slaveReadEnable = true}}'
    table = _table(value, ("target", "settings"), example)
    target, given = _required(table, "target"), table.get("settings")
    if not isinstance(given, Mapping):
        raise InvalidOperationError(f"settings: expected a table of RocketMQ's keys, {example}")
    changes = checked_settings({key: _setting_text(one) for key, one in given.items()})
    return Operation(text=_text(value), values={"changes": changes}, target=target)


@attrs.frozen
class OperatorAction:
    """An action: it parses its argument, and runs."""

    read: Callable[[Any], Operation]
    """ValueError or TypeError for an invalid argument."""
    run: Callable[..., Awaitable[Any]]


ACTIONS: Mapping[str, OperatorAction] = {
    "create-topic": OperatorAction(_create_topic, topicchanges.create_topic),
    "update-topic": OperatorAction(_update_topic, topicchanges.update_topic),
    "delete-topic": OperatorAction(_delete_topic, topicchanges.delete_topic),
    "update-group": OperatorAction(_update_group, groups.update_group),
    "delete-group": OperatorAction(_delete_group, groups.delete_group),
    "reset-offset": OperatorAction(_reset_offset, _reset),
    "wipe-write-perm": OperatorAction(_broker_name, permissions.wipe_write_perm),
    "add-write-perm": OperatorAction(_broker_name, permissions.add_write_perm),
    "set-config": OperatorAction(_set_config, settings.set_settings),
}


def problems_of(
    operation: Operation, brokers: Collection[str], topics_known: Collection[str], groups_known: Collection[str]
) -> Iterator[str]:
    """Yield the faults of the names in an operation.

    Topics and groups are checked only where a workload or an earlier step names any: other programs may use others.
    """
    for broker in operation.brokers:
        if broker not in brokers:
            yield f"no broker name {broker!r}{near_miss(broker, brokers) or '; expected one of ' + ', '.join(brokers)}"
    if operation.needs_topic and topics_known and operation.needs_topic not in topics_known:
        topic = operation.needs_topic
        yield f"no workload and no step before makes topic {topic!r}{near_miss(topic, topics_known)}"
    if operation.group and groups_known and operation.group not in groups_known:
        yield f"no workload consumes as group {operation.group!r}{near_miss(operation.group, groups_known)}"


# ---- reading ---------------------------------------------------------------------------------------------


def _table(value: Any, keys: Collection[str], example: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a table {example}, got {as_written(value)}")
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
        raise TypeError(f"expected {what}, got {as_written(value)}")
    return value


def _names(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{key} = {as_written(value)}: expected an array of broker names")
    return tuple(value)


def _check_flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise TypeError(f"{key} = {as_written(value)}: expected true or false")
    return value


def _check_numbers(table: dict[str, Any], keys: Collection[str]) -> None:
    """Check numbers of a file.

    Operations accept texts, too: a command line has no numbers.
    """
    for key in table.keys() & keys:
        if not is_of_type(table[key], int):
            raise TypeError(f"{key} = {as_written(table[key])}: expected a whole number")


def _setting_text(value: Any) -> str:
    if not isinstance(value, str | bool | int | float):
        raise TypeError(f"expected a text, a number, true or false, got {as_written(value)}")
    return setting_text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_text(one)}" for key, one in value.items())
    return ",".join(map(_text, value)) if isinstance(value, list) else _setting_text(value)
