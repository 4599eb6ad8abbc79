"""Consumer offsets: tables, progress of a group, and resets.

Sources: broker-requests sections 2.5, 6.3, 6.4; store-and-ha section on config files.
"""

import re
from typing import Any, Self

import msgspec

from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.body import Body, Table
from rmqlab.remoting.header import Int, Long
from rmqlab.remoting.queuekeys import ObjectKey


class ConsumerOffsets(Table, frozen=True, kw_only=True):
    """All committed offsets of a broker: response of 43, consumerOffset.json.

    Key `topic@group`, then queue id.
    """

    offset_table: dict[str, dict[Int, Long]] = {}

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse as any body, but several times as fast.

        A slave reads the offsets of all groups every 10 s. The keys of the inner maps get quotes first. An unescaped
        `":{` occurs in no text, so texts stay as they are.
        """
        return super().decode(_OFFSETS.sub(_quoted, raw))


_OFFSETS = re.compile(rb'(?<!\\)":\{([-\d:,]+)\s*\}')
_KEY = re.compile(rb"(-?\d+):")


def _quoted(match: re.Match[bytes]) -> bytes:
    return b'":{%b}' % _KEY.sub(rb'"\1":', match[1])


class DelayOffsets(Body, frozen=True, kw_only=True):
    """Delivered so far of each delay level: response of 45, delayOffset.json."""

    offset_table: dict[Int, Long] = {}


class OffsetWrapper(Body, frozen=True, kw_only=True):
    """Progress in one queue.

    The timestamp is when the last consumed message was stored, 0 without such a message.
    """

    broker_offset: Long = 0
    consumer_offset: Long = 0
    last_timestamp: Long = 0


class ConsumeStats(Table, frozen=True, kw_only=True):
    """Response of 208."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = {}


class ConsumeStatsList(Table, frozen=True, kw_only=True):
    """Response of 317: one map per group, one ConsumeStats per topic in it."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    total_diff: Long = 0


class ResetOffsetBody(Table, frozen=True, kw_only=True):
    """Request of 220 and response of 222.

    Go splits the text, so it must not contain spaces.

    Reads the form for C++ too: `mqadmin resetOffsetByTime -c` has it sent to every client.
    """

    offset_table: dict[MessageQueue, Long] = {}

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Return the map of the list."""
        try:
            listed = msgspec.convert(value, ResetOffsetBodyForC, strict=False)
        except msgspec.ValidationError:
            return value
        return {
            "offsetTable": {
                ObjectKey(brokerName=q.broker_name, queueId=q.queue_id, topic=q.topic): q.offset
                for q in listed.offset_table
            }
        }


class MessageQueueForC(Body, frozen=True, kw_only=True):
    """A queue and its offset in the form for C++."""

    broker_name: str
    offset: Long
    queue_id: Int
    topic: str


class ResetOffsetBodyForC(Table, frozen=True, kw_only=True):
    """Request of 220 to a C++ client, which reads no objects as keys."""

    offset_table: list[MessageQueueForC] = []

    @classmethod
    def of(cls, body: ResetOffsetBody) -> Self:
        """Return the same as a list."""
        return cls(
            offset_table=[
                MessageQueueForC(
                    broker_name=queue.broker_name, offset=offset, queue_id=queue.queue_id, topic=queue.topic
                )
                for queue, offset in body.offset_table.items()
            ]
        )


class GetConsumerStatusBody(Body, frozen=True, kw_only=True):
    """Response of 221 (the second member) and of 223 (the first, by client id)."""

    consumer_table: dict[str, dict[MessageQueue, Long]] = {}
    message_queue_table: dict[MessageQueue, Long] = {}


class QueryCorrectionOffsetBody(Body, frozen=True, kw_only=True):
    """Response of 308, by queue id."""

    correction_offsets: dict[Int, Long] = {}


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """Store times at the ends of one queue and at its consumer, in milliseconds.

    Each again as text.
    """

    consume_time_stamp: Long = 0
    consume_time_stamp_str: str | None = None
    delay_time: Long = 0
    max_time_stamp: Long = 0
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue
    min_time_stamp: Long = 0
    min_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Table, frozen=True, kw_only=True):
    """Response of 303."""

    consume_time_span_set: list[QueueTimeSpan] = []


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """Body of the message that a master stores when it replies to a pull with code 21."""

    consumer_group: str
    message_queue: MessageQueue
    offset_new: Long
    offset_request: Long
