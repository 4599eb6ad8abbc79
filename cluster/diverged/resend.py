"""Sends messages that a slave cut from its log again, under their unique keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import IndeterminateError, NoNameServerError, NoRouteError, RefusedError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.cluster.diverged.listing import DivergedMessage
from rmqlab.remoting.compression import decompress_body
from rmqlab.remoting.message import (
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    PROPERTY_MAX_OFFSET,
    PROPERTY_MIN_OFFSET,
    PROPERTY_PGROUP,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    PROPERTY_TRAN_PREPARED_QUEUE_OFFSET,
    PROPERTY_WAIT,
    RecordError,
)
from rmqlab.verdict.outcomes import INDETERMINATE, REFUSED

GROUP = "rmqlab-resend"
SENDERS = 16
"""Sends at the same time."""
SKIPPED = "skipped"
"""Outcome of a message that was not sent."""
_SET_BY_SERVERS = frozenset(
    (PROPERTY_CLUSTER, PROPERTY_DELAY, PROPERTY_MAX_OFFSET, PROPERTY_MIN_OFFSET, PROPERTY_PGROUP, PROPERTY_REAL_QID,
     PROPERTY_REAL_TOPIC, PROPERTY_TRAN_MSG, PROPERTY_TRAN_PREPARED_QUEUE_OFFSET, PROPERTY_WAIT)
)  # fmt: skip
"""Properties that the broker, or the send of a client, sets again."""


@attrs.frozen(kw_only=True)
class Resent:
    """The outcome of a message that was sent again."""

    message_id: str
    topic: str
    outcome: str
    """SEND_OK, ..., refused, indeterminate; or skipped."""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return attrs.asdict(self)


async def resend(
    namesrv_addr: str,
    messages: Sequence[DivergedMessage],
    *,
    even_if_stored: bool = False,
    on_result: Callable[[Resent], object] = lambda _: None,
) -> list[Resent]:
    """Send messages again, to any queue of their topics; return the outcomes.

    Messages are skipped as `reasons_to_skip` says. The errors of `open_client`.
    """
    results: dict[int, Resent] = {}
    waiting = enumerate(zip(messages, reasons_to_skip(messages, even_if_stored=even_if_stored), strict=True))

    async def send() -> None:
        for number, (one, reason) in waiting:  # shared by all senders
            results[number] = _became(one, SKIPPED, reason) if reason else await _send(producer, one)
            on_result(results[number])

    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = Producer(client, GROUP)
        for _ in range(SENDERS):
            nursery.start_soon(send)
    return [results[number] for number in range(len(messages))]


def reasons_to_skip(messages: Iterable[DivergedMessage], *, even_if_stored: bool) -> Iterator[str]:
    """Yield for each message why it is not sent again; empty if it is.

    It cannot be sent (`DivergedMessage.obstacle`), a log of the group has its unique key (ignored if `even_if_stored`),
    or an earlier message has it: the slave cut its log several times, or cut a delayed message and its delivery. A
    message without unique key is always sent: later messages may have the same offset message id.
    """
    sent: set[str] = set()
    for one in messages:
        if one.obstacle:
            yield one.obstacle
        elif one.in_logs and not even_if_stored:
            yield f"the log of {', '.join(one.in_logs)} has it"
        elif one.unique_key in sent:
            yield "an earlier message has the same unique key"
        else:
            sent |= {one.unique_key} - {""}
            yield ""


async def _send(producer: Producer, one: DivergedMessage) -> Resent:
    try:
        result = await producer.send(as_sent(one))
    except IndeterminateError as exc:
        return _became(one, INDETERMINATE, str(exc))
    except (RefusedError, NoRouteError, NoNameServerError, RecordError) as exc:
        return _became(one, REFUSED, str(exc))
    return _became(one, result.status.value, result.remark or "")


def _became(one: DivergedMessage, outcome: str, reason: str) -> Resent:
    return Resent(message_id=one.message_id, topic=one.topic, outcome=outcome, reason=reason)


def as_sent(one: DivergedMessage) -> Message:
    """Return the message as sent. RecordError if its body cannot be decompressed."""
    stored = one.message
    return Message(
        topic=one.topic,
        body=decompress_body(stored.body, stored.sys_flag),
        flag=stored.flag,
        delay_level=one.delay_level,
        properties={key: value for key, value in stored.properties.items() if key not in _SET_BY_SERVERS},
    )
