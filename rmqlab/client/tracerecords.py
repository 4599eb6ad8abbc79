"""The records of message traces, as 4.9.8 writes them. Pure.

`mqadmin queryMsgTraceById` reads them.

A record is a line of text: fields joined by 0x01, 0x02 at its end. A missing field is `null`.

    Pub, at, region, group, topic, id, tags, keys, broker, body length, ms, kind, offset id, ok
    SubBefore, at, region, group, request id, id, times reconsumed, keys
    SubAfter, request id, id, ms, ok, keys, outcome, at, group
    EndTransaction, at, region, group, topic, id, tags, keys, broker, kind, transaction id, state, asked for

Times are milliseconds. Sources: classes TraceDataEncoder, SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl,
EndTransactionTraceHookImpl of 4.9.8.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence

import attrs

from rmqlab.client.message import ReceivedMessage, SendResult, SendStatus
from rmqlab.client.outgoing import Outgoing
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_MSG_REGION,
    PROPERTY_TAGS,
    PROPERTY_TRACE_ON,
    PROPERTY_TRAN_MSG,
    parse_properties,
)

DEFAULT_REGION = "DefaultRegion"
_FIELD_END, _RECORD_END = "\x01", "\x02"


class Kind(enum.IntEnum):
    """The type of a sent message (enum MessageType)."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAYED = 3


class Consumed(enum.IntEnum):
    """Outcome of a call of the application's function (enum ConsumeReturnType)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    FAILED = 4


@attrs.frozen
class TraceRecord:
    """One or several records about the same messages, with search keys.

    The keys are the ids of the messages and the messages' own keys.
    """

    text: str
    keys: tuple[str, ...]
    size: int = attrs.field(init=False)
    """Bytes of the text."""

    @size.default
    def _size(self) -> int:
        return len(self.text.encode())


def published(
    group: str, topic: str, outgoing: Outgoing, broker: str, result: SendResult, *, region: str, at: int, took: int
) -> TraceRecord:
    """Return the record of a send with a reply.

    A batch has one record: under all of its ids, joined by commas.
    """
    properties = parse_properties(outgoing.properties)
    keys = properties.get(PROPERTY_KEYS)
    text = _record(
        "Pub",
        at,
        region,
        group,
        topic,
        outgoing.message_id,
        properties.get(PROPERTY_TAGS),
        keys,
        broker,
        len(outgoing.body),
        took,
        _kind(properties),
        result.offset_message_id,
        result.status is SendStatus.SEND_OK,
    )
    return TraceRecord(text, _keys([(outgoing.message_id, keys)]))


def consuming(group: str, messages: Sequence[ReceivedMessage], request_id: str, *, at: int) -> TraceRecord:
    """Return the record of a delivery to the application.

    The region is that of the last message, as in Java.
    """
    region = messages[-1].properties.get(PROPERTY_MSG_REGION)
    text = "".join(
        _record(
            "SubBefore",
            at,
            region,
            group,
            request_id,
            message.message_id,
            message.reconsume_times,
            message.keys or None,
        )
        for message in messages
    )
    return TraceRecord(text, _keys((message.message_id, message.keys) for message in messages))


def consumed(
    group: str, messages: Sequence[ReceivedMessage], request_id: str, outcome: Consumed, *, at: int, took: int
) -> TraceRecord:
    """Trace the end of consumption; `took` is the share of each message."""
    is_ok = outcome is Consumed.SUCCESS
    text = "".join(
        _record("SubAfter", request_id, message.message_id, took, is_ok, message.keys or None, outcome, at, group)
        for message in messages
    )
    return TraceRecord(text, _keys((message.message_id, message.keys) for message in messages))


def ended_transaction(
    group: str,
    topic: str,
    properties: Mapping[str, str],
    broker: str,
    message_id: str,
    state: str,
    *,
    is_asked_for: bool,
    at: int,
) -> TraceRecord:
    """Return the record of the end of a transaction.

    `is_asked_for` if a broker's check caused it.
    """
    keys = properties.get(PROPERTY_KEYS)
    text = _record(
        "EndTransaction",
        at,
        properties.get(PROPERTY_MSG_REGION) or DEFAULT_REGION,
        group,
        topic,
        message_id,
        properties.get(PROPERTY_TAGS),
        keys,
        broker,
        Kind.COMMIT,
        message_id,
        state,
        is_asked_for,
    )
    return TraceRecord(text, _keys([(message_id, keys)]))


def is_traced(message: ReceivedMessage) -> bool:
    """Return False for a message of a broker with tracing off (`traceOn=false`)."""
    return message.properties.get(PROPERTY_TRACE_ON) != "false"


def _kind(properties: Mapping[str, str]) -> Kind:
    if PROPERTY_DELAY in properties:
        return Kind.DELAYED
    return Kind.HALF if properties.get(PROPERTY_TRAN_MSG) == "true" else Kind.NORMAL


def _record(*fields: object) -> str:
    return _FIELD_END.join(map(_text, fields)) + _RECORD_END


def _text(field: object) -> str:
    if field is None:
        return "null"
    if isinstance(field, bool):
        return "true" if field else "false"
    return str(int(field)) if isinstance(field, int) else str(field)


def _keys(of: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for message_id, keys in of for key in (message_id, *(keys or "").split())))
