"""Request and reply: the consumer's reply returns to the requesting client.

    reply = await request(producer, Message(topic="prices", body=b"RB-1"), timeout=3)
    await producer.send(reply_to(message, b"9.99"))          # in the consumer's function

The request is an ordinary message with the sender's client id; the reply is sent to a broker, which pushes it over the
connection of the sender's heartbeats. Sources: broker-requests section 1.10; classes
DefaultMQProducerImpl, MessageUtil.
"""

import contextlib
import uuid

import attrs
import trio

from rmqlab.client.client_handlers import ReplyMessage
from rmqlab.client.errors import ClientError, RefusedError
from rmqlab.client.instance import FAILURES
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.outgoing import REPLY
from rmqlab.client.producer import Producer
from rmqlab.client.sendarguments import SelectQueue
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.message import (
    PROPERTY_CLUSTER,
    PROPERTY_CORRELATION_ID,
    PROPERTY_MSG_TYPE,
    PROPERTY_REPLY_TO_CLIENT,
    PROPERTY_TTL,
)
from rmqlab.remoting.names import REPLY_TOPIC_SUFFIX
from rmqlab.runtime.config.valuetypes import TimeLimit, checked

_SHORTEST = 0.001
"""Seconds of a send whose time is over: it fails as one that timed out."""


class NoReplyError(ClientError):
    """The request is stored, and no reply arrived in time. It may have been handled."""


class NotARequestError(ClientError):
    """A message without a waiting request."""


@checked
async def request(
    producer: Producer,
    message: Message,
    *,
    timeout: TimeLimit = 3.0,  # noqa: ASYNC109 - it goes with the message, and the error names it
    to: MessageQueue | SelectQueue | None = None,
) -> ReplyMessage:
    """Send a message and wait for its reply.

    NoReplyError, and errors as Producer.send. The time-out includes the route, and the registration at its brokers.
    """
    client = producer.client
    deadline = trio.current_time() + timeout
    with trio.move_on_at(deadline) as announcing, contextlib.suppress(*FAILURES):  # the send has the same failures
        await producer.announce(message.topic)
    if announcing.cancelled_caught:
        raise RefusedError(f"not sent: no route of {message.topic}, or no registration at it, within {timeout:g} s")
    correlation_id = str(uuid.UUID(int=client.rng.getrandbits(128), version=4))
    asked = attrs.evolve(
        message,
        properties={
            **message.properties,
            PROPERTY_CORRELATION_ID: correlation_id,
            PROPERTY_REPLY_TO_CLIENT: client.client_id,
            PROPERTY_TTL: str(int(timeout * 1000)),
        },
    )
    arrived = trio.Event()
    got: list[ReplyMessage] = []

    def on_reply(reply: ReplyMessage) -> None:
        got.append(reply)
        arrived.set()

    client.local_members.replies[correlation_id] = on_reply
    try:
        await producer.send(asked, timeout=max(deadline - trio.current_time(), _SHORTEST), to=to)
        with trio.move_on_at(deadline):
            await arrived.wait()
    finally:
        client.local_members.replies.pop(correlation_id, None)
    if not got:
        raise NoReplyError(f"the request to {message.topic} is stored, but no reply arrived within {timeout:g} s")
    return got[0]


def reply_to(message: ReceivedMessage, body: bytes | bytearray | memoryview) -> Message:
    """Make the reply to a request, to be sent by any producer.

    NotARequestError if no request waits for it.
    """
    properties = message.properties
    missing = [name for name in (PROPERTY_CLUSTER, PROPERTY_REPLY_TO_CLIENT) if not properties.get(name)]
    if missing:
        raise NotARequestError(f"message {message.message_id} is no request: it has no property {missing[0]}")
    carried = (PROPERTY_CORRELATION_ID, PROPERTY_REPLY_TO_CLIENT, PROPERTY_TTL)
    return Message(
        topic=properties[PROPERTY_CLUSTER] + REPLY_TOPIC_SUFFIX,
        body=body,
        properties={
            PROPERTY_MSG_TYPE: REPLY,
            **{name: properties[name] for name in carried if name in properties},
        },
    )
