"""A workload that consumes a topic as a push consumer.

It emits an event for every delivery, and when it pulls from or commits to another broker.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.cluster.workload.account import credentials_of, fits_access_key
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.runtime.config.settings import read_settings
from rmqlab.runtime.config.validators import INT64, MOST_SECONDS, one_of, positive_within, within
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.text.digits import number_of

FROM_WHERE = {
    "first": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "last": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
}


@attrs.frozen(kw_only=True)
class ConsumeConfig:
    """Settings of a consumer. Seconds are seconds of the cluster's clock."""

    namesrv_addr: str = "127.0.0.1:9876"
    source_ip: str | None = None
    access_key: str = ""
    """With `secret_key`: an account for brokers with access control, which signs every request."""
    secret_key: str = attrs.field(default="", repr=False, validator=fits_access_key)
    topic: str = "rmqlab"
    group: str = "rmqlab-consumer"
    tags: str = "*"
    from_where: str = attrs.field(default="first", validator=one_of(tuple(FROM_WHERE)))
    """Start position of a group without committed offsets."""
    orderly: bool = False
    """Consume the messages of a queue sequentially, in the member that holds the queue's lock at the master."""
    work: float = attrs.field(default=0.0, validator=within(0, MOST_SECONDS))
    """Time that each message takes; it counts as delivered afterwards."""
    count: int = attrs.field(default=0, validator=within(0, INT64))
    """End after this number of deliveries; 0 means run until stopped."""
    poll_name_server_period: float = attrs.field(default=30.0, validator=positive_within(MOST_SECONDS))
    commit_period: float = attrs.field(default=5.0, validator=positive_within(MOST_SECONDS))


def load_config(path: str | pathlib.Path) -> ConsumeConfig:
    """Read the settings of a consumer. SettingsError if they are invalid."""
    return read_settings(path, [ConsumeConfig]).bind(ConsumeConfig)


async def main(config: ConsumeConfig, link: ControlLink) -> None:
    """Consume until `count` is reached or the process is stopped.

    Finally emit a summary.
    """
    delivered = 0
    enough = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal delivered
        await trio.lowlevel.checkpoint()
        for message in messages:
            if config.work:
                await trio.sleep(config.work)
            delivered += 1
            link.emit("delivered", group=config.group, **describe_delivery(message))
        if delivered == config.count:
            enough.set()

    def on_event(kind: str, **fields: Any) -> None:
        link.emit(kind, **event_fields(fields))

    client_config = ClientConfig(
        namesrv_addr=config.namesrv_addr,
        source_ip=config.source_ip,
        credentials=credentials_of(config.access_key, config.secret_key),
        poll_name_server_period=config.poll_name_server_period,
    )
    consumer_config = ConsumerConfig(
        consume_from_where=FROM_WHERE[config.from_where], commit_period=config.commit_period, orderly=config.orderly
    )
    try:
        async with open_client(client_config) as client, trio.open_nursery() as nursery:
            consumer = PushConsumer(
                client,
                config.group,
                {config.topic: config.tags},
                on_messages,
                config=consumer_config,
                on_event=on_event,
            )
            await nursery.start(consumer.run)
            link.ready(group=config.group, orderly=config.orderly)
            if config.topic not in client.routes.routes:
                link.emit("route_missing", topic=config.topic)
            await enough.wait()
            nursery.cancel_scope.cancel()
    finally:
        link.emit("consumed", delivered=delivered)


def describe_delivery(message: ReceivedMessage) -> dict[str, object]:
    """Return the fields of the event `delivered`, without the group."""
    number, _, _ = message.body.partition(b" ")
    return {
        "number": number_of(number),
        "message_id": message.message_id,
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "reconsume_times": message.reconsume_times,
        "from_broker_id": message.from_broker_id,
        "born_at": message.born_timestamp,
    }


def event_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields for an event, with queues as `topic@broker:id`."""
    return {
        key: [_event_value(v) for v in value] if isinstance(value, list | tuple) else _event_value(value)
        for key, value in fields.items()
    }


def _event_value(value: object) -> object:
    if isinstance(value, MessageQueue):
        return f"{value.topic}@{value.broker_name}:{value.queue_id}"
    return value
