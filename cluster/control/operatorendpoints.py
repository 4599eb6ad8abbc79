"""Endpoints for what operators do.

Every command of `rmqlab.cluster.cli.operate` has one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from rmqlab.client.messagequery import FOREVER
from rmqlab.cluster.control import operatorinputs as inputs
from rmqlab.cluster.control.endpoint import Arguments, Endpoint
from rmqlab.cluster.control.inputs import Fields
from rmqlab.cluster.control.messages import SendItem
from rmqlab.cluster.control.operations import operate
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.operate import groups, messages, offsets, permissions, settings, topicchanges, topics
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.session import Operator, Scope
from rmqlab.cluster.operate.values import (
    checked_settings,
    parse_bound,
    parse_queue,
    parse_queue_at,
    parse_time,
    setting_text,
)

Operation = Callable[[Operator, Mapping[str, Any]], Awaitable[Any]]


def _endpoint(
    request: str,
    name: str,
    summary: str,
    operation: Operation,
    returns: Any,
    *,
    query: type[msgspec.Struct] | None = None,
    body: type[msgspec.Struct] | None = None,
) -> Endpoint:
    """Return an endpoint that runs an operation. `request`: its method and path."""

    async def call(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
        given = {key: value for key, value in arguments.items() if key != "account"}
        return await operate(cluster, arguments["account"], lambda operator: operation(operator, given))

    method, path = request.split()
    return Endpoint(
        name=name,
        method=method,
        path=path,
        summary=summary,
        call=call,
        query=None if query is None else Fields(query),
        body=None if body is None else Fields(body),
        returns=returns,
        takes_account=True,
        failures=(502,) if method == "GET" else (409, 502),
    )


# ---- topics ----------------------------------------------------------------------------------------------


async def _topics(operator: Operator, given: Arguments) -> topics.Topics:
    found = await topics.list_topics(operator)
    return found if given["all"] else found.of_applications()


async def _create_topic(operator: Operator, given: Arguments) -> topicchanges.ChangedTopic:
    return await topicchanges.create_topic(operator, *_topic_change(given))


async def _update_topic(operator: Operator, given: Arguments) -> topicchanges.ChangedTopic:
    return await topicchanges.update_topic(operator, *_topic_change(given))


def _topic_change(given: Arguments) -> tuple[topicchanges.TopicChange, Scope]:
    values, scope = _with_scope(given)
    return topicchanges.TopicChange.of(**values), scope


def _with_scope(given: Arguments) -> tuple[dict[str, Any], Scope]:
    values = dict(given)
    return values, Scope(brokers=tuple(values.pop("brokers")))


# ---- groups and offsets ----------------------------------------------------------------------------------


async def _groups(operator: Operator, given: Arguments) -> list[groups.Group]:
    return [one for one in await groups.list_groups(operator) if given["all"] or not one.is_system]


async def _create_group(operator: Operator, given: Arguments) -> groups.ChangedGroup:
    return await groups.create_group(operator, *_group_change(given))


async def _update_group(operator: Operator, given: Arguments) -> groups.ChangedGroup:
    return await groups.update_group(operator, *_group_change(given))


def _group_change(given: Arguments) -> tuple[groups.GroupChange, Scope]:
    values, scope = _with_scope(given)
    return groups.GroupChange.of(**values), scope


async def _lag(operator: Operator, given: Arguments) -> list[groups.GroupLag]:
    return [await groups.group_lag(operator, given["group"], given["topic"])]


async def _reset(operator: Operator, given: Arguments) -> offsets.OffsetReset:
    group, topic, time, offset, queue = (given[name] for name in ("group", "topic", "time", "offset", "queue"))
    if (time is None) == (offset is None):
        raise InvalidOperationError("expected either time or offset")
    if time is not None and queue is not None:
        raise InvalidOperationError("queue needs offset: to a time, all queues of the topic are reset")
    if offset is not None and given["only_back"]:
        raise InvalidOperationError("only_back needs time")
    if time is not None:
        moment = parse_time(time, operator.connection.now_millis())
        return await offsets.reset_to_time(operator, group, topic, moment, only_back=given["only_back"])
    at = None if queue is None else parse_queue_at(queue)
    return await offsets.reset_to_offset(operator, group, topic, offset, at)


# ---- messages --------------------------------------------------------------------------------------------


async def _message_by_id(operator: Operator, given: Arguments) -> list[messages.StoredAt]:
    return [await messages.message_by_id(operator, given["id"], given["at"])]


async def _message_by_unique_key(operator: Operator, given: Arguments) -> list[messages.StoredAt]:
    return [await messages.message_by_unique_key(operator, given["topic"], given["key"])]


async def _messages_by_key(operator: Operator, given: Arguments) -> list[messages.StoredAt]:
    now = operator.connection.now_millis()
    begin, end = parse_bound(given["begin"], now), parse_bound(given["end"] or FOREVER, now)
    return await messages.messages_by_key(
        operator, given["topic"], given["key"], count=given["count"], begin=begin, end=end
    )


async def _messages_at(operator: Operator, given: Arguments) -> list[messages.StoredAt]:
    queue = parse_queue(given["queue"])
    return await messages.messages_at(operator, queue, given["offset"], count=given["count"], at=given["at"])


# ---- settings --------------------------------------------------------------------------------------------


async def _set_settings(operator: Operator, given: Arguments) -> list[settings.ChangedSetting]:
    changes = checked_settings({key: setting_text(value) for key, value in given["settings"].items()})
    return await settings.set_settings(operator, given["target"], changes)


OPERATOR_ENDPOINTS: Sequence[Endpoint] = (
    _endpoint(
        "GET /v1/topics",
        "topics",
        "The topics, with their queues and permission at each broker: `rmqlab topics list`.",
        _topics,
        topics.Topics,
        query=inputs.Listing,
    ),
    _endpoint(
        "POST /v1/topics",
        "create_topic",
        "Create a topic at all masters: `rmqlab topics create`.",
        _create_topic,
        topicchanges.ChangedTopic,
        body=inputs.NewTopic,
    ),
    _endpoint(
        "GET /v1/topics/{topic}",
        "topic_route",
        "Which brokers serve a topic: `rmqlab topics route`.",
        lambda operator, given: topics.topic_route(operator, **given),
        list[topics.RouteAt],
    ),
    _endpoint(
        "PATCH /v1/topics/{topic}",
        "update_topic",
        "Change a topic at all masters that have it: `rmqlab topics update`.",
        _update_topic,
        topicchanges.ChangedTopic,
        body=inputs.TopicSettings,
    ),
    _endpoint(
        "DELETE /v1/topics/{topic}",
        "delete_topic",
        "Delete a topic at all masters and nameservers: `rmqlab topics delete`.",
        lambda operator, given: topicchanges.delete_topic(operator, **given),
        topicchanges.DeletedTopic,
    ),
    _endpoint(
        "GET /v1/topics/{topic}/status",
        "topic_status",
        "The first and the next offset of each queue of a topic: `rmqlab topics status`.",
        lambda operator, given: topics.topic_status(operator, **given),
        list[topics.QueueBounds],
    ),
    _endpoint(
        "GET /v1/groups",
        "groups",
        "The consumer groups, with their settings at each broker: `rmqlab groups list`.",
        _groups,
        list[groups.Group],
        query=inputs.Listing,
    ),
    _endpoint(
        "POST /v1/groups",
        "create_group",
        "Create a consumer group at all masters: `rmqlab groups create`.",
        _create_group,
        groups.ChangedGroup,
        body=inputs.NewGroup,
    ),
    _endpoint(
        "PATCH /v1/groups/{group}",
        "update_group",
        "Change a consumer group at all masters that have it: `rmqlab groups update`.",
        _update_group,
        groups.ChangedGroup,
        body=inputs.GroupSettings,
    ),
    _endpoint(
        "DELETE /v1/groups/{group}",
        "delete_group",
        "Delete a consumer group, and its retry and dead-letter topics: `rmqlab groups delete`.",
        lambda operator, given: groups.delete_group(operator, given["group"], drop_offsets=given["offsets"]),
        groups.DeletedGroup,
        query=inputs.DeletedGroup,
    ),
    _endpoint(
        "GET /v1/lag",
        "all_lags",
        "How far all consumer groups are behind: `rmqlab groups lag`.",
        lambda operator, _given: groups.all_lags(operator),
        list[groups.GroupLag],
    ),
    _endpoint(
        "GET /v1/lag/{group}",
        "lag",
        "How far one consumer group is behind: `rmqlab groups lag GROUP`.",
        _lag,
        list[groups.GroupLag],
        query=inputs.Lag,
    ),
    _endpoint(
        "GET /v1/offsets",
        "offsets",
        "The committed offsets of a consumer group, at master and slaves: `rmqlab offsets show`.",
        lambda operator, given: offsets.show_offsets(operator, **given),
        offsets.GroupOffsets,
        query=inputs.Offsets,
    ),
    _endpoint(
        "POST /v1/offsets/reset",
        "reset_offsets",
        "Reset a consumer group in a topic to a time, or to an offset: `rmqlab offsets reset`.",
        _reset,
        offsets.OffsetReset,
        body=inputs.Reset,
    ),
    _endpoint(
        "GET /v1/messages/id/{id}",
        "message_by_id",
        "The message of an offset message id: `rmqlab messages id`.",
        _message_by_id,
        list[messages.StoredAt],
        query=inputs.Copy,
    ),
    _endpoint(
        "GET /v1/messages/unique-key",
        "message_by_unique_key",
        "The message that its producer gave this id: `rmqlab messages unique-key`.",
        _message_by_unique_key,
        list[messages.StoredAt],
        query=inputs.UniqueKey,
    ),
    _endpoint(
        "GET /v1/messages/key",
        "messages_by_key",
        "The messages that have a key: `rmqlab messages key`.",
        _messages_by_key,
        list[messages.StoredAt],
        query=inputs.Key,
    ),
    _endpoint(
        "GET /v1/messages/at",
        "messages_at",
        "The message at an offset of a queue, and those after it: `rmqlab messages at`.",
        _messages_at,
        list[messages.StoredAt],
        query=inputs.Queue,
    ),
    _endpoint(
        "POST /v1/wipe-write-perm",
        "wipe_write_perm",
        "Remove a broker's write permission at all nameservers: `rmqlab wipe-write-perm`.",
        lambda operator, given: permissions.wipe_write_perm(operator, **given),
        permissions.WritePermission,
        body=inputs.BrokerName,
    ),
    _endpoint(
        "POST /v1/add-write-perm",
        "add_write_perm",
        "Undo `wipe-write-perm`: `rmqlab add-write-perm`.",
        lambda operator, given: permissions.add_write_perm(operator, **given),
        permissions.WritePermission,
        body=inputs.BrokerName,
    ),
    _endpoint(
        "GET /v1/config/{target}",
        "settings",
        "Settings of a running broker, or of all nameservers (`namesrv`): `rmqlab config get`.",
        lambda operator, given: settings.get_settings(operator, given["target"], given["key"]),
        list[settings.SettingsAt],
        query=inputs.SettingNames,
    ),
    _endpoint(
        "PATCH /v1/config/{target}",
        "change_settings",
        "Change settings of a running broker, or of all nameservers: `rmqlab config set`.",
        _set_settings,
        list[settings.ChangedSetting],
        body=inputs.NewSettings,
    ),
)
"""In the order of documents."""
