"""Single messages, by id, unique key, key, or queue and offset.

The model is mqadmin's queryMsgById, queryMsgByUniqueKey, queryMsgByKey, queryMsgByOffset.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.client import broker_api as calls
from rmqlab.client.errors import BrokerError
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.messagequery import FOREVER, MAX_FOUND, query_by_key, query_by_unique_key, view_message
from rmqlab.cluster.operate.errors import InvalidOperationError, OperationError, UnknownNameError, unknown
from rmqlab.cluster.operate.session import UNLISTED, BrokerAt, Operator, find_broker, list_brokers
from rmqlab.cluster.operate.topics import find_route
from rmqlab.cluster.operate.values import parse_number, queue_text
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.remoting.message import RecordError, parse_offset_message_id

TOOLS_GROUP = "TOOLS_CONSUMER"
"""RocketMQ's group for tools: every broker has it."""
MAX_COUNT = 1024
"""Messages of one query by offset."""
_PULL_SECONDS = 10.0
_NOT_FOUND = ("no message at commit log offset", "can not find message by the offset")
"""Remarks of brokers, ours and RocketMQ's: the code is that of every other error."""


@attrs.frozen(kw_only=True)
class StoredAt:
    """A message as it is stored."""

    message_id: str
    """The unique key that its producer gave it; else the offset message id."""
    offset_message_id: str
    topic: str
    broker: str
    queue: int
    queue_offset: int
    log_offset: int
    """Offset in the commit log, in bytes."""
    size: int
    """Bytes of the record."""
    born_at: int
    born_host: str
    stored_at: int
    stored_host: str
    keys: str
    tags: str
    reconsume_times: int
    properties: Mapping[str, str]
    body: bytes
    """Decompressed."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values: the body in base64, and as `text` if it is UTF-8."""
        return {**attrs.asdict(self), "body": base64.b64encode(self.body).decode(), "text": body_text(self.body)}


def body_text(body: bytes) -> str | None:
    """Return a body as text; None if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def body_json(body: bytes) -> str | None:
    """Return a body as indented JSON; None if it is not JSON."""
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


async def message_by_id(operator: Operator, message_id: str, at: str = "") -> StoredAt:
    """Return the message of an offset message id.

    It is read from the broker that the id names, or from another copy (`at`).

    OperationError if the nameserver does not list that broker, so that no foreign address is connected to.
    """
    try:
        host, port, _ = parse_offset_message_id(message_id)
    except RecordError as exc:
        raise InvalidOperationError(str(exc)) from None
    brokers = list_brokers(await operator.admin.cluster_info())
    if at:
        broker = await operator.find(at)
    else:
        found = [one for one in brokers if one.address == f"{host}:{port}"]
        if not found:
            listed = ", ".join(f"{one} ({one.address})" for one in brokers)
            raise UnknownNameError(
                f"id {message_id} names the broker {host}:{port}, which is not registered; there are:"
                f" {listed or 'none'}."
                " --at BROKER reads another copy; for a unique key use: messages unique-key TOPIC KEY"
            )
        broker = found[0]
    try:
        message = await view_message(operator.client, message_id, address=broker.address)
    except BrokerError as exc:
        if any(text in (exc.remark or "") for text in _NOT_FOUND):
            raise UnknownNameError(f"no message {message_id} at {broker}: {exc}") from None
        raise OperationError(f"{broker} did not return message {message_id}: {exc}") from None
    return _stored(message, broker.broker)


async def message_by_unique_key(operator: Operator, topic: str, key: str) -> StoredAt:
    """Return the message that its producer gave this id.

    OperationError if there is none.
    """
    await find_route(operator, topic)
    message = await query_by_unique_key(operator.client, topic, key)
    if message is None:
        raise UnknownNameError(f"topic {topic} has no message of the unique key {key!r}")
    return _stored(message, message.queue.broker_name)


async def messages_by_key(
    operator: Operator, topic: str, key: str, *, count: int = MAX_FOUND, begin: int = 0, end: int = FOREVER
) -> list[StoredAt]:
    """Return the messages with a key, in the order of storing.

    They were stored between `begin` and `end`, in ms.
    """
    if not key or " " in key:
        raise InvalidOperationError(f"key {key!r}: expected one key without spaces, which separate keys")
    await find_route(operator, topic)
    found = await query_by_key(operator.client, topic, key, max_num=count, begin=begin, end=end)
    return [_stored(one, one.queue.broker_name) for one in sorted(found, key=lambda one: one.store_timestamp)][:count]


async def messages_at(
    operator: Operator, queue: MessageQueue, offset: int, *, count: int = 1, at: str = ""
) -> list[StoredAt]:
    """Return the messages of a queue from an offset on.

    They are read from the queue's master, or from another copy (`at`).

    OperationError if the queue has none there.
    """
    parse_number(count, "count", 1, MAX_COUNT)
    broker = await _reader(operator, queue, at)
    found: list[StoredAt] = []
    while len(found) < count:
        result = await calls.pull(
            operator.client,
            broker.address,
            queue.broker_name,
            _pull_header(queue, offset, count - len(found)),
            _PULL_SECONDS,
        )
        if not found and not result.messages and not result.min_offset <= offset < result.max_offset:
            raise UnknownNameError(
                f"{queue_text(queue)} has no offset {offset} at {broker}:"
                f" it has {result.min_offset} to {result.max_offset - 1}"
                if result.max_offset > result.min_offset
                else f"{queue_text(queue)} is empty at {broker}"
            )
        found += [_stored(one, queue.broker_name) for one in result.messages]
        if not result.messages or result.next_offset <= offset:
            break
        offset = result.next_offset
    return found[:count]


async def _reader(operator: Operator, queue: MessageQueue, at: str) -> BrokerAt:
    """Check the queue; return the broker to read it from."""
    route = await find_route(operator, queue.topic)
    here = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
    if queue.broker_name not in here:
        raise unknown("broker", queue.broker_name, here, of=f"topic {queue.topic}")
    if queue.queue_id >= here[queue.broker_name]:
        raise UnknownNameError(
            f"topic {queue.topic} has no queue {queue.queue_id} at {queue.broker_name}:"
            f" it has {here[queue.broker_name]}, from 0 on"
        )
    if at:
        broker = await operator.find(at)
        if broker.broker_id != UNLISTED and broker.broker != queue.broker_name:
            raise InvalidOperationError(f"{at} is a broker of {broker.broker}, and the queue is at {queue.broker_name}")
        return broker
    brokers = list_brokers(await operator.admin.cluster_info())
    return find_broker(queue.broker_name, brokers)


def _pull_header(queue: MessageQueue, offset: int, count: int) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group=TOOLS_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=min(count, 32),
        sys_flag=calls.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


def _stored(message: ReceivedMessage, broker: str) -> StoredAt:
    stored = message.stored
    return StoredAt(
        message_id=message.message_id,
        offset_message_id=message.offset_message_id,
        topic=stored.topic,
        broker=broker,
        queue=stored.queue_id,
        queue_offset=stored.queue_offset,
        log_offset=stored.physical_offset,
        size=stored.store_size,
        born_at=stored.born_timestamp,
        born_host="{}:{}".format(*stored.born_host),
        stored_at=stored.store_timestamp,
        stored_host="{}:{}".format(*stored.store_host),
        keys=message.keys,
        tags=message.tags,
        reconsume_times=stored.reconsume_times,
        properties=stored.properties,
        body=message.body,
    )
