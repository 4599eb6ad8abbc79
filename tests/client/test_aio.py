"""The client on asyncio: a loop of its own beside the servers' trio loop.

Applications use it in the same way.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from rmqlab.client.aio import CLEAN_UP_SECONDS, AsyncioClient, Bridge, open_asyncio_client
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.errors import ClientClosedError, RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.transaction import TransactionState
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply, Request

if TYPE_CHECKING:
    from tests.client.conftest import FakeBroker, World

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
MESSAGE = Message(topic="orders", body=b"x")

Application = Callable[[AsyncioClient], Awaitable[None]]
Run = Callable[[Application], Awaitable[None]]


@pytest.fixture
def broker(world: "World") -> "FakeBroker":
    (broker,) = world.add("a")
    world.route("orders", 1)
    return broker


@pytest.fixture
def run(world: "World", broker: "FakeBroker") -> Run:
    """Run an application in a thread with a loop of asyncio, and a client open."""
    del broker

    async def application_with_client(application: Application) -> None:
        async with open_asyncio_client(world.config()) as client:
            await asyncio.wait_for(application(client), 30)

    async def run(application: Application) -> None:
        await trio.to_thread.run_sync(lambda: asyncio.run(application_with_client(application)))

    return run


async def test_sends_and_deliveries_cross_over(broker: "FakeBroker", run: Run) -> None:
    got: asyncio.Queue[tuple[ReceivedMessage, int]] = asyncio.Queue()

    async def application(client: AsyncioClient) -> None:
        async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                await got.put((message, threading.get_ident()))

        producer = await client.producer("pg")
        results = await asyncio.gather(*[producer.send(MESSAGE) for _ in range(5)])
        batch = await producer.send_batch([MESSAGE, MESSAGE])
        oneway = await producer.send_oneway(MESSAGE)
        consumer = await client.consume("cg", {"orders": "*"}, on_messages, config=FIRST)
        received = [await got.get() for _ in range(8)]
        ids = {*(result.message_id for result in results), *batch.message_id.split(","), oneway}
        assert len(ids) == 8
        assert ids >= {message.message_id for message, _ in received if message.properties.get("UNIQ_KEY")}
        assert len({message.queue_offset for message, _ in received}) == 8
        assert {thread for _, thread in received} == {threading.get_ident()}
        assert [queue.topic for queue in await consumer.held_queues() if queue.topic == "orders"] == ["orders"]
        await consumer.suspend()
        await consumer.resume()
        await consumer.stop()

    await run(application)
    assert broker.offsets["cg", "orders", 0] == 8


async def test_errors_of_either_side_are_raised_at_the_other(broker: "FakeBroker", run: Run) -> None:
    tries, handed_back = 0, asyncio.Event()
    loop: asyncio.AbstractEventLoop

    def take_back(_request: Request) -> Reply:
        loop.call_soon_threadsafe(handed_back.set)
        return Reply()

    async def application(client: AsyncioClient) -> None:
        async def fail(_messages: Sequence[ReceivedMessage]) -> None:
            nonlocal tries
            await asyncio.sleep(0)
            tries += 1
            raise ValueError("on purpose")

        nonlocal loop
        loop = asyncio.get_running_loop()
        broker.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = take_back
        producer = await client.producer("pg")
        broker.script[RequestCode.SEND_MESSAGE_V2].append(Reply(ResponseCode.MESSAGE_ILLEGAL, remark="no"))
        with pytest.raises(RefusedError, match="no"):
            await producer.send(MESSAGE)
        with pytest.raises(ValueError, match="already"):
            await client.producer("pg")
        await producer.send(MESSAGE)
        await client.consume("cg", {"orders": "*"}, fail, config=FIRST)
        await handed_back.wait()

    await run(application)
    assert tries == 1


async def test_a_call_that_is_cancelled_here_is_cancelled_there(broker: "FakeBroker", run: Run) -> None:
    broker.script[RequestCode.SEND_MESSAGE_V2].append(None)  # never answered

    async def application(client: AsyncioClient) -> None:
        producer = await client.producer("pg")
        sending = asyncio.create_task(producer.send(MESSAGE, timeout=1000))
        while not broker.asked(RequestCode.SEND_MESSAGE_V2):  # noqa: ASYNC110 - the broker lives in another thread
            # It has the request: the script's answer is used up.
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert (await producer.send(MESSAGE)).queue_offset == 0

    await run(application)


async def test_a_cancelled_function_may_clean_up_before_its_queue_is_given_away(broker: "FakeBroker", run: Run) -> None:
    broker.put("orders", 0, b"x")
    cleaned_up: list[bool] = []

    async def application(client: AsyncioClient) -> None:
        begun = asyncio.Event()

        async def consume(messages: Sequence[ReceivedMessage]) -> None:
            del messages
            begun.set()
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(0.2)
                cleaned_up.append(bool(broker.locked))

        config = attrs.evolve(FIRST, orderly=True)
        consumer = await client.consume("cg", {"orders": "*"}, consume, config=config)
        await begun.wait()
        await consumer.stop(within=0)

    await run(application)
    assert cleaned_up == [True]


@pytest.mark.usefixtures("autojump_clock")
async def test_a_cancelled_function_of_a_stopped_loop_is_not_waited_for(world: "World") -> None:
    async def function() -> None:
        raise AssertionError("the loop does not run")

    loop = asyncio.new_event_loop()
    bridge = Bridge(world.config(), loop)
    with trio.move_on_after(1) as scope:
        await bridge.call_back(function)
    loop.close()
    assert scope.cancelled_caught
    assert trio.current_time() < CLEAN_UP_SECONDS


async def test_transactions_and_requests_cross_over(broker: "FakeBroker", run: Run) -> None:
    async def application(client: AsyncioClient) -> None:
        async def check(_message: ReceivedMessage) -> TransactionState:
            await asyncio.sleep(0)
            return TransactionState.UNKNOWN

        async def work(_message: Message, _unique_id: str) -> TransactionState:
            await asyncio.sleep(0)
            return TransactionState.COMMIT

        producer = await client.transaction_producer("pg", check)
        assert (await producer.send_in_transaction(MESSAGE, work)).state is TransactionState.COMMIT
        await producer.close()

    await run(application)
    assert [end.ext_fields["commitOrRollback"] for end in broker.asked(RequestCode.END_TRANSACTION)] == ["8"]


async def test_after_the_end_calls_are_refused(run: Run) -> None:
    kept: list[AsyncioClient] = []

    async def application(client: AsyncioClient) -> None:
        await asyncio.sleep(0)
        kept.append(client)

    async def too_late() -> None:
        with pytest.raises(ClientClosedError):
            await kept[0].producer("pg")

    await run(application)
    await trio.to_thread.run_sync(lambda: asyncio.run(too_late()))


@attrs.define
class SilentLeave:
    """A broker that lets a client wait for the reply to its leaving.

    `begun` is set in the application's loop.
    """

    broker: "FakeBroker"
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        loop = asyncio.get_running_loop()

        def keep_silent(_request: Request) -> None:
            loop.call_soon_threadsafe(self.begun.set)

        self.broker.handlers[RequestCode.UNREGISTER_CLIENT] = keep_silent


async def nothing(_client: Client) -> None:
    await trio.lowlevel.checkpoint()


async def test_a_call_while_the_client_closes_is_refused(world: "World", broker: "FakeBroker") -> None:
    async def application() -> None:
        leave = SilentLeave(broker)
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_asyncio_client(world.config(shutdown_timeout=0.5)))
            await (await client.producer("pg")).send(MESSAGE)
            closing = asyncio.create_task(stack.aclose())
            await asyncio.wait_for(leave.begun.wait(), 30)
            with pytest.raises(ClientClosedError):
                await asyncio.wait_for(client.call(nothing), 30)
            await closing

    await trio.to_thread.run_sync(lambda: asyncio.run(application()))


async def test_a_call_while_a_failed_client_leaves_its_groups_is_refused(world: "World", broker: "FakeBroker") -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("on purpose")

    async def break_down(client: Client) -> None:
        client.nursery.start_soon(fail)
        await trio.sleep_forever()

    async def application() -> None:
        leave = SilentLeave(broker)
        async with open_asyncio_client(world.config(shutdown_timeout=0.5)) as client:
            await (await client.producer("pg")).send(MESSAGE)
            with pytest.raises(ClientClosedError):
                await client.call(break_down)
            await asyncio.wait_for(leave.begun.wait(), 30)
            with pytest.raises(ClientClosedError):
                await asyncio.wait_for(client.call(nothing), 30)

    with pytest.raises(ExceptionGroup) as caught:
        await trio.to_thread.run_sync(lambda: asyncio.run(application()))
    assert caught.group_contains(OSError, match="on purpose")
