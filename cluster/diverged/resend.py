"""Sends messages that a slave cut from its log again, under their unique keys."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import IndeterminateError, NoNameServerError, NoRouteError, RefusedError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.cluster.diverged.listing import DivergedMessage
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
    decompress_body,
)
from rmqlab.verdict.outcomes import INDETERMINATE, REFUSED

GROUP = "rmqlab-resend"
SENDERS = 16
"""Sends at the same time."""
_SET_BY_SERVERS = frozenset(
    (PROPERTY_CLUSTER, PROPERTY_DELAY, PROPERTY_MAX_OFFSET, PROPERTY_MIN_OFFSET, PROPERTY_PGROUP, PROPERTY_REAL_QID,
     PROPERTY_REAL_TOPIC, PROPERTY_TRAN_MSG, PROPERTY_TRAN_PREPARED_QUEUE_OFFSET, PROPERTY_WAIT)
)  # fmt: skip
"""Properties that a broker or a client's send sets anew."""


@attrs.frozen(kw_only=True)
class Resent:
    """What became of a message that was sent again."""

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

    A message is skipped if it cannot be sent (`DivergedMessage.obstacle`), or if a log of the group has its unique key,
    unless `even_if_stored`. The errors of `open_client`.
    """
    results: dict[int, Resent] = {}
    free = trio.Semaphore(SENDERS)

    async def send(number: int, one: DivergedMessage) -> None:
        async with free:
            results[number] = await _send(producer, one)
        on_result(results[number])

    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = Producer(client, GROUP)
        for number, one in enumerate(messages):
            if reason := one.obstacle or _stored_reason(one, even_if_stored=even_if_stored):
                results[number] = Resent(message_id=one.message_id, topic=one.topic, outcome="skipped", reason=reason)
                on_result(results[number])
            else:
                nursery.start_soon(send, number, one)
    return [results[number] for number in range(len(messages))]


def _stored_reason(one: DivergedMessage, *, even_if_stored: bool) -> str:
    return f"the log of {', '.join(one.in_logs)} has it" if one.in_logs and not even_if_stored else ""


async def _send(producer: Producer, one: DivergedMessage) -> Resent:
    def became(outcome: str, reason: str = "") -> Resent:
        return Resent(message_id=one.message_id, topic=one.topic, outcome=outcome, reason=reason)

    try:
        result = await producer.send(as_sent(one))
    except IndeterminateError as exc:
        return became(INDETERMINATE, str(exc))
    except (RefusedError, NoRouteError, NoNameServerError, RecordError) as exc:
        return became(REFUSED, str(exc))
    return became(result.status.value, result.remark or "")


def as_sent(one: DivergedMessage) -> Message:
    """Return the message as sent. RecordError if its body cannot be decompressed."""
    stored = one.message
    level = stored.properties.get(PROPERTY_DELAY, "0")
    return Message(
        topic=one.topic,
        body=decompress_body(stored.body, stored.sys_flag),
        flag=stored.flag,
        delay_level=int(level) if level.isdecimal() else 0,
        properties={key: value for key, value in stored.properties.items() if key not in _SET_BY_SERVERS},
    )
