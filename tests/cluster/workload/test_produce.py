"""The journal's outcome of each send is the client's own, neither safer nor worse."""

import collections
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import IndeterminateError, NoNameServerError, NoRouteError, RefusedError
from rmqlab.client.message import Attempt, Message, SendResult, SendStatus
from rmqlab.client.outgoing import sent_header
from rmqlab.client.transaction import TransactionResult, TransactionState
from rmqlab.cluster.workload.produce import ProduceConfig, _send_one, body_of, emit_attempt, producer_config
from rmqlab.remoting.bodies.queue import MessageQueue

if TYPE_CHECKING:
    from rmqlab.client.transaction import TransactionProducer
    from rmqlab.runtime.node.control import ControlLink

Send = Callable[[], Awaitable[SendResult]]


class Link:
    """Replaces the control link, and keeps the emitted events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, kind: str, **fields: Any) -> None:
        self.events.append({"kind": kind, **fields})


class Producer:
    """Ends each send with the given result, and each transaction with the given state."""

    def __init__(self, send: Send, state: TransactionState = TransactionState.COMMIT) -> None:
        self._send = send
        self._state = state
        self.config = ProducerConfig()

    def new_id(self) -> str:
        return "ID1"

    async def send(self, _message: Message, *, message_id: str) -> SendResult:
        assert message_id == "ID1"
        return await self._send()

    async def send_in_transaction(self, message: Message, _work: object, *, message_id: str) -> TransactionResult:
        return TransactionResult(sent=await self.send(message, message_id=message_id), state=self._state)


async def sent_entry(
    send: Send, *, cancel: bool = False, config: ProduceConfig | None = None
) -> tuple[dict[str, Any], collections.Counter[str]]:
    """The entry `sent` of one send, and the producer's counts."""
    link, counts, free = Link(), collections.Counter[str](), trio.Semaphore(0)
    producer = cast("TransactionProducer", Producer(send))
    with trio.CancelScope() as scope:
        if cancel:
            scope.cancel()
        await _send_one(config or ProduceConfig(), producer, cast("ControlLink", link), counts, 1, free)
    assert free.value == 1  # the next send may begin
    (entry,) = link.events
    message = Message(topic=entry["topic"], body=body_of(1, 128), keys="n1")
    assert entry["crc"] == sent_header(message, producer.config)["crc"]
    return entry, counts


def failing(exc: Exception) -> Send:
    async def send() -> SendResult:
        await trio.lowlevel.checkpoint()
        raise exc

    return send


@pytest.mark.parametrize(
    ("exc", "outcome"),
    [
        (IndeterminateError("no answer in time"), "indeterminate"),
        (RefusedError("no permission", code=16), "refused"),
        (NoRouteError("orders"), "refused"),
        (NoNameServerError("none answers"), "refused"),
    ],
)
async def test_a_send_that_fails_is_recorded_as_what_is_known_of_it(exc: Exception, outcome: str) -> None:
    entry, counts = await sent_entry(failing(exc))
    assert (entry["kind"], entry["outcome"], entry["message_id"]) == ("sent", outcome, "ID1")
    assert entry["error"] == str(exc)
    assert counts == {outcome: 1}


async def test_a_send_that_is_cancelled_may_be_stored() -> None:
    entry, counts = await sent_entry(failing(AssertionError("not reached")), cancel=True)
    assert (entry["outcome"], entry["error"]) == ("indeterminate", "the producer was stopped")
    assert counts == {"indeterminate": 1}


def acknowledging(status: SendStatus = SendStatus.SEND_OK) -> Send:
    async def send() -> SendResult:
        await trio.lowlevel.checkpoint()
        queue = MessageQueue(broker_name="broker-a", queue_id=2, topic="orders")
        return SendResult(
            status=status, message_id="ID1", offset_message_id="7F", queue=queue, queue_offset=7, attempts=2
        )

    return send


@pytest.mark.parametrize("status", list(SendStatus))
async def test_a_send_that_is_acknowledged_is_recorded_with_its_place(status: SendStatus) -> None:
    entry, counts = await sent_entry(acknowledging(status))
    assert (entry["outcome"], entry["broker"], entry["queue"], entry["offset"]) == (status.value, "broker-a", 2, 7)
    assert counts == {status.value: 1}


@pytest.mark.parametrize(
    ("config", "held_in"),
    [
        (ProduceConfig(), None),
        (ProduceConfig(delay_level=3), "SCHEDULE_TOPIC_XXXX:2"),
        (ProduceConfig(transaction="commit"), "RMQ_SYS_TRANS_HALF_TOPIC:0"),
    ],
)
async def test_a_delayed_or_half_message_is_recorded_with_the_queue_that_it_waits_in(
    config: ProduceConfig, held_in: str | None
) -> None:
    entry, _ = await sent_entry(failing(IndeterminateError("no answer in time")), config=config)
    assert entry.get("held_in") == held_in


@pytest.mark.parametrize(
    ("state", "recorded"),
    [
        (TransactionState.COMMIT, []),
        (TransactionState.ROLLBACK, ["rollback"]),
        (TransactionState.UNKNOWN, ["unknown"]),
    ],
)
async def test_a_half_message_that_is_not_committed_is_recorded(state: TransactionState, recorded: list[str]) -> None:
    link, free = Link(), trio.Semaphore(0)
    producer = cast("TransactionProducer", Producer(acknowledging(), state))
    config = ProduceConfig(topic="orders", transaction="commit")
    await _send_one(config, producer, cast("ControlLink", link), collections.Counter(), 1, free)
    ends = [event for event in link.events if event["kind"] == "transaction_not_committed"]
    assert [event["state"] for event in ends] == recorded
    assert all((event["message_id"], event["topic"]) == ("ID1", "orders") for event in ends)


def attempt(**more: Any) -> Attempt:
    fields: dict[str, Any] = {
        "number": 1,
        "topic": "orders",
        "message_id": "ID1",
        "broker_name": "broker-a",
        "address": "a:1",
    }
    return Attempt(**fields, began_at=0.0, took=0.0101, **more)


@pytest.mark.parametrize(("is_indeterminate", "outcome"), [(True, "indeterminate"), (False, "refused")])
def test_an_attempt_that_failed_is_recorded_with_its_own_outcome(is_indeterminate: bool, outcome: str) -> None:  # noqa: FBT001
    link = Link()
    emit_attempt(cast("ControlLink", link), attempt(is_indeterminate=is_indeterminate))
    (entry,) = link.events
    assert (entry["kind"], entry["outcome"], entry["took"]) == ("attempt_failed", outcome, 11)


def test_an_attempt_that_succeeded_is_no_failure() -> None:
    link = Link()
    emit_attempt(cast("ControlLink", link), attempt(status=SendStatus.SEND_OK))
    assert link.events == []


def test_settings_of_a_workload_are_those_of_its_producer() -> None:
    config = producer_config(ProduceConfig(send_timeout=6.0, retries=4, send_latency_fault_enable=True))
    assert (config.send_timeout, config.retries, config.send_latency_fault_enable) == (6.0, 4, True)
    assert not producer_config(ProduceConfig()).send_latency_fault_enable
