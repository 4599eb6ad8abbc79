"""A workload that sends numbered messages, and emits an event for each outcome.

Outcomes are RocketMQ's own (SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: the message is
stored), `refused` (not stored) and `indeterminate` (unknown: a request was written, but no response arrived).
"""

import collections
import itertools
import math
import pathlib

import attrs
import trio

from rmqlab.client.config import ClientConfig, ProducerConfig
from rmqlab.client.errors import IndeterminateError, NoNameServerError, NoRouteError, RefusedError, SendError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Attempt, Message, ReceivedMessage, SendResult
from rmqlab.client.outgoing import sent_header
from rmqlab.client.transaction import TransactionProducer, TransactionState
from rmqlab.cluster.workload.account import credentials_of, fits_access_key
from rmqlab.cluster.workload.limits import MOST_SENDERS, MOST_SENDS_PER_SECOND, MOST_SIZE
from rmqlab.cluster.workload.routes import emit_routes
from rmqlab.remoting.min_copies import MAX_MIN_COPIES
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.config.settings import read_settings
from rmqlab.runtime.config.validators import INT32, INT64, MOST_SECONDS, one_of, positive_within, within
from rmqlab.runtime.node.control import ControlLink
from rmqlab.verdict.outcomes import INDETERMINATE, REFUSED

MIN_API_TIMEOUT = 3.0
"""Minimum timeout of routes and connections, in seconds, as in Java's client. Only the send timeout ends a send."""
STATES = {
    "commit": TransactionState.COMMIT,
    "rollback": TransactionState.ROLLBACK,
    "unknown": TransactionState.UNKNOWN,
}
_STRIDE = 7919
"""A prime, so that the sizes of consecutive messages are spread over the whole range."""
_NOT_STORED = (RefusedError, NoRouteError, NoNameServerError)


@attrs.frozen(kw_only=True)
class ProduceConfig:
    """Settings of a producer. Seconds are seconds of the cluster's clock."""

    namesrv_addr: str = "127.0.0.1:9876"
    source_ip: str | None = None
    access_key: str = ""
    """With `secret_key`: an account for brokers with access control, which signs every request."""
    secret_key: str = attrs.field(default="", repr=False, validator=fits_access_key)
    topic: str = "rmqlab"
    group: str = "rmqlab-producer"
    rate_per_second: float = attrs.field(default=10.0, validator=within(0, MOST_SENDS_PER_SECOND))
    """Messages per second; 0 means as fast as responses arrive."""
    count: int = attrs.field(default=0, validator=within(0, INT64))
    """Number of messages; 0 means run until stopped."""
    size: int = attrs.field(default=128, validator=within(0, MOST_SIZE))
    """Size of a body in bytes; longer if the leading message number needs more."""
    size_spread: int = attrs.field(default=0, validator=within(0, MOST_SIZE))
    """Maximum number of additional bytes of a body; the number of the message determines it."""
    first: int = attrs.field(default=1, validator=within(0, INT64))
    """Number of the first message."""
    senders: int = attrs.field(default=16, validator=within(1, MOST_SENDERS))
    """Maximum number of concurrent sends."""
    send_timeout: float = attrs.field(default=3.0, validator=positive_within(MOST_SECONDS))
    retries: int = attrs.field(default=2, validator=within(0, INT32))
    send_latency_fault_enable: bool = False
    """Avoid brokers with slow or failed attempts, as Java's producers do with this setting."""
    tags: str = ""
    delay_level: int = attrs.field(default=0, validator=within(0, 18))
    """Delay level: 1 to 18 delay delivery by 1 s to 2 h. 0: no delay."""
    min_copies: int = attrs.field(default=0, validator=within(0, MAX_MIN_COPIES))
    """Logs that must have each message, the master's included, at brokers with `obey_min_copies`. 0: no demand."""
    transaction: str = attrs.field(default="", validator=one_of(("", *STATES)))
    """Send half messages, and end each with this: commit, rollback or unknown. Transaction checks get `commit`."""
    stays: bool = False
    """Stay a member of the group after the last message, until stopped."""


def load_config(path: str | pathlib.Path) -> ProduceConfig:
    """Read the settings of a producer. SettingsError if they are invalid."""
    return read_settings(path, [ProduceConfig]).bind(ProduceConfig)


async def main(config: ProduceConfig, link: ControlLink) -> None:
    """Send until `count` is reached or the process is stopped; finally emit a summary."""
    counts: collections.Counter[str] = collections.Counter()
    client_config = ClientConfig(
        namesrv_addr=config.namesrv_addr,
        source_ip=config.source_ip,
        credentials=credentials_of(config.access_key, config.secret_key),
        api_timeout=max(config.send_timeout, MIN_API_TIMEOUT),
        connect_timeout=max(config.send_timeout, MIN_API_TIMEOUT),
    )
    try:
        async with open_client(client_config) as client:
            emit_routes(client, link)
            producer = TransactionProducer(
                client,
                config.group,
                lambda message: _commit_checked(link, message),
                producer_config(config),
                on_attempt=lambda attempt: emit_attempt(link, attempt),
            )
            link.ready()
            await _send_all(config, producer, link, counts)
            if config.stays:
                await trio.sleep_forever()
    finally:
        link.emit("produced", sent=counts.total(), **counts)


def producer_config(config: ProduceConfig) -> ProducerConfig:
    """Return the client's settings of a workload."""
    return ProducerConfig(
        send_timeout=config.send_timeout,
        retries=config.retries,
        send_latency_fault_enable=config.send_latency_fault_enable,
        max_concurrent_sends=config.senders,
    )


async def _commit_checked(link: ControlLink, message: ReceivedMessage) -> TransactionState:
    await trio.lowlevel.checkpoint()
    link.emit("transaction_asked", message_id=message.message_id, topic=message.topic)
    return TransactionState.COMMIT


async def _send_all(
    config: ProduceConfig, producer: TransactionProducer, link: ControlLink, counts: collections.Counter[str]
) -> None:
    began = trio.current_time()
    free = trio.Semaphore(config.senders)
    async with trio.open_nursery() as nursery:
        for index in range(config.count) if config.count else itertools.count():
            await free.acquire()
            if config.rate_per_second:
                await trio.sleep_until(began + index / config.rate_per_second)
            nursery.start_soon(_send_one, config, producer, link, counts, config.first + index, free)


async def _send_one(
    config: ProduceConfig,
    producer: TransactionProducer,
    link: ControlLink,
    counts: collections.Counter[str],
    number: int,
    free: trio.Semaphore,
) -> None:
    message_id = producer.new_id()
    message = Message(
        topic=config.topic,
        body=body_of(number, config.size + number * _STRIDE % (config.size_spread + 1)),
        keys=f"n{number}",
        tags=config.tags,
        delay_level=config.delay_level,
        min_copies=config.min_copies,
    )
    began = wall_millis()
    result: dict[str, object] = {"outcome": INDETERMINATE, "error": "the producer was stopped"}
    try:
        result = describe_result(await _send(config, producer, link, message, message_id))
    except (*_NOT_STORED, IndeterminateError) as exc:
        result = describe_failure(exc)
    finally:  # also on cancellation: a written request may have been stored
        free.release()
        counts[str(result["outcome"])] += 1
        link.emit(
            "sent",
            number=number,
            message_id=message_id,
            keys=message.keys,
            **sent_header(message, producer.config, is_half=bool(config.transaction)),
            topic=config.topic,
            group=config.group,
            **result,
            **_held_in(config),
            began_at=began,
            took=wall_millis() - began,
        )


def _held_in(config: ProduceConfig) -> dict[str, str]:
    """Return the field with the system topic and queue of delayed and half messages."""
    if config.transaction:
        return {"held_in": f"{HALF_TOPIC}:0"}
    if config.delay_level:
        return {"held_in": f"{SCHEDULE_TOPIC}:{config.delay_level - 1}"}
    return {}


async def _send(
    config: ProduceConfig, producer: TransactionProducer, link: ControlLink, message: Message, message_id: str
) -> SendResult:
    if not config.transaction:
        return await producer.send(message, message_id=message_id)

    async def work(_message: Message, _message_id: str) -> TransactionState:
        await trio.lowlevel.checkpoint()
        return STATES[config.transaction]

    result = await producer.send_in_transaction(message, work, message_id=message_id)
    if result.state is not TransactionState.COMMIT:
        state = result.state.name.lower()
        link.emit("transaction_not_committed", message_id=message_id, topic=config.topic, state=state)
    return result.sent


def body_of(number: int, size: int) -> bytes:
    """Return the body of a message: its number, a space, and dots up to `size` bytes."""
    return f"{number} ".encode().ljust(size, b".")


def describe_result(result: SendResult) -> dict[str, object]:
    """Return the fields of the event `sent` for a stored message."""
    return {
        "outcome": result.status.value,
        "attempts": result.attempts,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        **({"remark": result.remark} if result.remark else {}),
    }


def describe_failure(exc: Exception) -> dict[str, object]:
    """Return the fields of the event `sent` for a message that may not be stored."""
    return {
        "outcome": INDETERMINATE if isinstance(exc, IndeterminateError) else REFUSED,
        "error": str(exc),
        "attempts": len(exc.attempts) if isinstance(exc, SendError) else 0,
    }


def emit_attempt(link: ControlLink, attempt: Attempt) -> None:
    """Emit an event for each failed attempt.

    A send may succeed late, at the third broker.
    """
    if attempt.status is None:
        link.emit(
            "attempt_failed",
            message_id=attempt.message_id,
            topic=attempt.topic,
            attempt=attempt.number,
            broker=attempt.broker_name,
            address=attempt.address,
            code=attempt.code,
            error=attempt.error,
            outcome=INDETERMINATE if attempt.is_indeterminate else REFUSED,
            took=math.ceil(attempt.took * 1000),
        )
