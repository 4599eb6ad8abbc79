"""Functions of the application that raise, or return something invalid.

The client and its other work go on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.config import ConsumerConfig, ProducerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.errors import IndeterminateError, RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message, SendResult
from rmqlab.client.producer import Outcome, Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.subscription import Sql
from rmqlab.client.transaction import TransactionProducer
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request as command_of
from rmqlab.runtime.net.dispatch import Reply
from tests.client.application import Application, start
from tests.client.conftest import record

if TYPE_CHECKING:
    from tests.client.conftest import World

MESSAGE = Message(topic="orders", body=b"x")


def fail(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("as it should")


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (fail, r"not sent: the choice of a queue failed: ZeroDivisionError\('as it should'\)"),
        (lambda _: "queue 0", r"not sent: .*to\(queues\) = 'queue 0': expected a MessageQueue"),
    ],
)
async def test_a_choice_that_fails_is_the_outcome_of_a_send_in_the_background(
    world: "World", client: Client, to: Any, said: str
) -> None:
    """It ended the client.

    In a send that is awaited, the error of the function is raised.
    """
    world.add("a")
    world.route("orders", 1)
    producer, outcomes = Producer(client, "pg"), list[Outcome]()
    producer.send_soon(MESSAGE, outcomes.append, to=to)
    await world.until(lambda: bool(outcomes))
    (outcome,) = outcomes
    assert isinstance(outcome, RefusedError)
    with pytest.raises(RefusedError, match=said):
        raise outcome
    with pytest.raises((ZeroDivisionError, TypeError)):
        await producer.send(MESSAGE, to=to)
    assert producer.sends_under_way == 0


async def test_callbacks_of_sends_in_the_background_that_fail_do_not_end_the_client(
    world: "World", client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    world.add("a")
    world.route("orders", 1)
    outcomes: list[Outcome] = []
    Producer(client, "failing", on_attempt=fail).send_soon(MESSAGE, outcomes.append)
    await world.until(lambda: bool(outcomes))
    assert isinstance(outcomes[0], IndeterminateError)
    producer = Producer(client, "pg")
    producer.send_soon(MESSAGE, fail)
    await world.until(lambda: "on_outcome failed" in caplog.text)
    assert isinstance(await producer.send(MESSAGE), SendResult)


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("returned", [None, "COMMIT", 8])
async def test_what_is_no_transaction_state_is_unknown(
    world: "World", client: Client, returned: Any, caplog: pytest.LogCaptureFixture, *, is_traced: bool
) -> None:
    """With traces, a wrong state ended the client; without, it was sent."""
    (broker,) = world.add("a")
    world.route("orders", 1)

    async def function(*_: object) -> Any:
        return returned

    producer = TransactionProducer(client, "pg", function, ProducerConfig(enable_trace=is_traced))
    with pytest.raises(TypeError, match=r"work\(\.\.\.\) = .*: expected a TransactionState"):
        await producer.send_in_transaction(MESSAGE, function)
    (channel,) = broker.server.channels
    half = record("orders", 0, 0, b"half", "UNIQ_KEY\x01u\x02PGROUP\x01pg")
    fields = {"tranStateTableOffset": "0", "commitLogOffset": "0"}
    channel.send_oneway(command_of(RequestCode.CHECK_TRANSACTION_STATE, fields, half, oneway=True))
    await world.until(lambda: len(broker.asked(RequestCode.END_TRANSACTION)) == 2)
    assert [end.ext_fields["commitOrRollback"] for end in broker.asked(RequestCode.END_TRANSACTION)] == ["0", "0"]
    assert "check(...) = " in caplog.text


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: ConsumeLaterError(delay_level="3"), TypeError, "delay_level = '3': expected a level"),  # type: ignore[arg-type]
        (lambda: ConsumeLaterError(delay_level=-2), ValueError, "delay_level = -2: expected a level from 0 .* or -1"),
        (lambda: ConsumeLaterError(consumed="1"), TypeError, "consumed = '1': expected a number of messages"),  # type: ignore[arg-type]
        (lambda: ConsumeLaterError(consumed=-1), ValueError, "consumed = -1: expected a number of messages from 0 on"),
    ],
)
def test_a_wrong_argument_of_consume_later_is_named(
    make: Callable[[], object], kind: type[Exception], said: str
) -> None:
    """`consumed` ended the consumer where it cut the list of messages."""
    with pytest.raises(kind, match=said):
        make()


async def test_a_function_that_is_not_async_is_named(
    world: "World", client: Client, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"m")
    function: Any = lambda _: 5  # noqa: E731 - without the types that mypy would reject
    await nursery.start(PushConsumer(client, "cg", {"orders": "*"}, function).run)
    await world.until(lambda: "on_messages(messages) = 5: expected an async function" in caplog.text)


async def test_an_orderly_batch_continues_behind_its_consumed_messages(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """`consumed` had no effect: all of the batch was delivered again."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    bodies = [b"0", b"1", b"2"]
    broker.put("orders", 0, *bodies)
    got: list[list[bytes]] = []

    async def on_messages(messages: Any) -> None:
        await trio.lowlevel.checkpoint()
        got.append([message.body for message in messages])
        if len(got) == 1:
            raise ConsumeLaterError(consumed=2)

    config = ConsumerConfig(orderly=True, consume_batch_size=3, suspend_current_queue=20.0, commit_period=1.0)
    await nursery.start(PushConsumer(client, "cg", {"orders": "*"}, on_messages, config=config).run)
    await world.until(lambda: broker.offsets.get(("cg", "orders", 0)) == 2)
    await world.until(lambda: len(got) == 2)
    assert got == [bodies, [b"2"]]
    await world.until(lambda: broker.offsets["cg", "orders", 0] == 3)


async def test_a_consumer_runs_once(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """A second run returned at once, or never pulled."""
    world.add("a")
    world.route("orders", 1)
    push, _ = await start(nursery, client)
    await push.stop()
    lite = LitePullConsumer(client, "lite")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as inner:
            await inner.start(lite.run)
            scope.cancel()
    for consumer in (push, lite):
        with pytest.raises(RuntimeError, match=r"the consumer of group .* has run: expected a new one"):
            await consumer.run()
    await nursery.start(PushConsumer(client, "cg", {"orders": "*"}, Application()).run)


async def test_a_subscription_that_is_cancelled_counts_after_its_heartbeat_only(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """It left a consumer that never rebalanced, and could not subscribe again."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"m")
    find = world.name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC]
    beat = broker.handlers[RequestCode.HEART_BEAT]
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    world.name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: None
    with trio.move_on_after(0.5) as scope:
        await consumer.subscribe({"other": "*"})
    assert scope.cancelled_caught
    world.name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = find
    broker.handlers[RequestCode.HEART_BEAT] = lambda _: None
    with trio.move_on_after(0.5) as scope:
        await consumer.subscribe({"orders": "*"})
    assert scope.cancelled_caught
    broker.handlers[RequestCode.HEART_BEAT] = beat
    assert list(consumer.topics()) == ["orders"]
    assert [message.body for message in await consumer.poll(60)] == [b"m"]


async def test_a_refused_subscription_can_be_made_again(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("others", 1)
    broker.script[RequestCode.CHECK_CLIENT_CONFIG].append(Reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark="no"))
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    with pytest.raises(Exception, match="code 23: no"):
        await consumer.subscribe({"orders": Sql("a > > 1")})
    await consumer.subscribe({"others": "*"})
    assert [queue.topic for queue in consumer.held_queues] == ["others"]


async def test_offsets_that_a_queue_cannot_have_are_rejected(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """`seek` pulled from there, in vain."""
    world.add("a")
    world.route("orders", 1)
    queue = MessageQueue(topic="orders", broker_name="a", queue_id=0)
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([queue])
    for offset in (-1, 2**63):
        with pytest.raises(ValueError, match=rf"offset = {offset}: expected an offset from 0 to 2\^63 - 1"):
            consumer.seek(queue, offset)
