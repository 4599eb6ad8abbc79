"""The client for applications on asyncio, with calls that they can await.

The client runs in a thread of its own.

    async with open_asyncio_client(ClientConfig(namesrv_addr="127.0.0.1:9876")) as client:
        producer = await client.producer("orders-out")
        await producer.send(Message(topic="orders", body=b"RB-1"))
        consumer = await client.consume("billing", {"orders": "*"}, on_messages)
        ...
        await consumer.stop()

The thread runs trio. Passing a call to it and the result back takes some ten microseconds. Cancelling a call in asyncio
cancels it in trio. Functions of the application run in the asyncio loop that opened the client.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from rmqlab.client.client_handlers import ReplyMessage
from rmqlab.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rmqlab.client.consuming import OnMessages
from rmqlab.client.errors import ClientClosedError, ClientError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import Message, ReceivedMessage, SendResult
from rmqlab.client.offsets import OnEvent, no_event
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.requestreply import request
from rmqlab.client.sendarguments import SelectQueue
from rmqlab.client.subscription import Expression
from rmqlab.client.transaction import LocalWork, TransactionProducer, TransactionResult, TransactionState
from rmqlab.remoting.bodies.queue import MessageQueue

T = TypeVar("T")

CLEAN_UP_SECONDS = 10.0
"""Seconds for a cancelled function of the application to end."""


class Bridge:
    """Passes calls between an asyncio loop and the trio thread of the client."""

    def __init__(self, config: ClientConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self._opened: asyncio.Future[Client] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(target=self._run, name="rmqlab client", daemon=True)
        self._token: trio.lowlevel.TrioToken | None = None
        self._calls: trio.Nursery | None = None
        """None before the client is open, and when it leaves its groups."""
        self._closing: trio.Event | None = None
        self._is_closing = False

    async def open(self) -> Client:
        """Start the thread; the client may be used only by functions that `call` runs."""
        self._thread.start()
        return await self._opened

    async def close(self) -> None:
        """Leave all groups, end all calls, and wait for the thread."""
        self._is_closing = True
        if self._token is not None and self._closing is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._closing.set)
        await self._ended

    async def call(self, fn: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the trio thread, and await its result in asyncio.

        ClientClosedError once the client begins to close.
        """
        if self._token is None or self._is_closing:
            raise ClientClosedError("the client is closed, or was never open")
        future: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()

        async def run() -> None:
            outcome: T | Exception = ClientClosedError("the client was closed during the call")
            try:
                with scope:
                    outcome = await fn(*args)
            except Exception as exc:  # noqa: BLE001 - it is raised to the caller
                outcome = exc
            finally:
                self._call_in_loop(_settle, future, outcome)

        def start() -> None:
            if self._calls is None:  # the client has failed, and leaves its groups: no task may start
                self._call_in_loop(_settle, future, ClientClosedError("the client is closed"))
            else:
                self._calls.start_soon(run)

        try:
            self._token.run_sync_soon(start)
        except trio.RunFinishedError:
            raise ClientClosedError("the client is closed") from None
        try:
            return await future
        except asyncio.CancelledError:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(scope.cancel)
            raise

    async def start(self, fn: Callable[..., Awaitable[object]]) -> None:
        """Start a task in trio that runs until the client is closed; wait for its start."""
        if self._calls is None:
            raise ClientClosedError("the client is closed")
        await self._calls.start(fn)

    async def call_back(self, fn: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function of the application in its loop, and wait for it in trio.

        If the wait is cancelled, so is the function. It may clean up for CLEAN_UP_SECONDS, in which its messages count
        as being consumed. In a loop that does not run it could not: the wait ends at once.
        """
        done, token = trio.Event(), trio.lowlevel.current_trio_token()
        tasks: list[asyncio.Task[T]] = []

        async def run() -> T:
            return await fn(*args)

        def start() -> None:
            tasks.append(self._loop.create_task(run()))
            tasks[0].add_done_callback(lambda _: _suppressed(token.run_sync_soon, done.set))

        def cancel() -> None:  # the loop calls it after `start`
            tasks[0].cancel()

        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError as exc:
            raise ClientClosedError("the asyncio loop of the application is closed") from exc
        try:
            await done.wait()
        except trio.Cancelled:
            self._call_in_loop(cancel)
            with trio.move_on_after(CLEAN_UP_SECONDS if self._loop.is_running() else 0, shield=True):
                await done.wait()
            raise
        if tasks[0].cancelled():
            raise ClientError("the asyncio loop of the application cancelled the function")
        return tasks[0].result()

    def call_back_soon(self, fn: Callable[..., object], *args: Any) -> None:
        """Schedule a function of the application in its asyncio loop; called from trio."""
        self._call_in_loop(fn, *args)

    def _call_in_loop(self, fn: Callable[..., object], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the asyncio loop is closed: there is no receiver
            self._loop.call_soon_threadsafe(fn, *args)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._main)
        except BaseException as exc:  # noqa: BLE001 - it is raised where the client was opened, or is closed
            failure = exc
        self._call_in_loop(self._finish, failure)

    def _finish(self, failure: BaseException | None) -> None:
        if self._opened.done():
            _settle(self._ended, failure)
        else:
            _settle(self._opened, failure or ClientClosedError("the client ended before it was open"))
            _settle(self._ended, None)

    async def _main(self) -> None:
        self._token, self._closing = trio.lowlevel.current_trio_token(), trio.Event()
        async with open_client(self._config) as client, trio.open_nursery() as calls:
            self._calls = calls
            self._call_in_loop(_settle, self._opened, client)
            try:
                await self._closing.wait()
            finally:
                self._calls = None
            calls.cancel_scope.cancel()


def _settle(future: "asyncio.Future[Any]", outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _suppressed(fn: Callable[..., object], *args: Any) -> None:
    with contextlib.suppress(trio.RunFinishedError):
        fn(*args)


class AsyncioProducer:
    """Producer, to be awaited from asyncio. Arguments and errors as there."""

    def __init__(self, bridge: Bridge, producer: Producer) -> None:
        self._bridge = bridge
        self._producer = producer

    async def send(
        self,
        message: Message,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Producer.send
        to: MessageQueue | SelectQueue | None = None,
    ) -> SendResult:
        """Send and wait until it is stored."""
        return await self._bridge.call(lambda: self._producer.send(message, timeout=timeout, to=to))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Producer.send
        to: MessageQueue | SelectQueue | None = None,
    ) -> SendResult:
        """Send several messages of one topic into one queue, all or none."""
        return await self._bridge.call(lambda: self._producer.send_batch(messages, timeout=timeout, to=to))

    async def send_oneway(self, message: Message, *, to: MessageQueue | SelectQueue | None = None) -> str:
        """Write the request without waiting for a reply; returns the unique id."""
        return await self._bridge.call(lambda: self._producer.send_oneway(message, to=to))

    async def request(
        self,
        message: Message,
        *,
        timeout: float = 3.0,  # noqa: ASYNC109 - as requestreply.request
    ) -> ReplyMessage:
        """Send a message and wait for its reply."""
        return await self._bridge.call(lambda: request(self._producer, message, timeout=timeout))

    async def close(self) -> None:
        """Leave the group."""
        await self._bridge.call(self._producer.close)


class AsyncioTransactionProducer(AsyncioProducer):
    """TransactionProducer, to be awaited from asyncio.

    The application's functions run in its loop.
    """

    _producer: TransactionProducer

    async def send_in_transaction(
        self,
        message: Message,
        work: LocalWork,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Producer.send
    ) -> TransactionResult:
        """Send the half message, do the work, end the transaction at the broker."""

        async def call_back(half: Message, unique_id: str) -> TransactionState:
            return await self._bridge.call_back(work, half, unique_id)

        return await self._bridge.call(lambda: self._producer.send_in_transaction(message, call_back, timeout=timeout))


class AsyncioConsumer:
    """PushConsumer, running in the background."""

    def __init__(self, bridge: Bridge, consumer: PushConsumer) -> None:
        self._bridge = bridge
        self._consumer = consumer

    async def suspend(self) -> None:
        """Stop pulling until `resume`."""
        await self._call(self._consumer.suspend)

    async def resume(self) -> None:
        """Continue after `suspend`."""
        await self._call(self._consumer.resume)

    async def held_queues(self) -> list[MessageQueue]:
        """Return the queues that are assigned to this consumer."""
        return await self._call(lambda: self._consumer.held_queues)

    async def stop(self, within: float = 10.0) -> None:
        """Consume held messages, commit, and leave the group. As PushConsumer.stop."""
        await self._bridge.call(self._consumer.stop, within)

    async def _call(self, fn: Callable[[], T]) -> T:
        async def run() -> T:
            await trio.lowlevel.checkpoint()
            return fn()

        return await self._bridge.call(run)


class AsyncioClient:
    """Made by `open_asyncio_client`."""

    def __init__(self, bridge: Bridge, client: Client) -> None:
        self._bridge = bridge
        self._client = client

    async def producer(self, group: str, config: ProducerConfig | None = None) -> AsyncioProducer:
        """Join a producer group."""

        async def make() -> Producer:
            await trio.lowlevel.checkpoint()
            return Producer(self._client, group, config)

        return AsyncioProducer(self._bridge, await self._bridge.call(make))

    async def transaction_producer(
        self,
        group: str,
        check: Callable[[ReceivedMessage], Awaitable[TransactionState]],
        config: ProducerConfig | None = None,
    ) -> AsyncioTransactionProducer:
        """Join a producer group whose transactions brokers may check."""

        async def call_back(half: ReceivedMessage) -> TransactionState:
            return await self._bridge.call_back(check, half)

        async def make() -> TransactionProducer:
            await trio.lowlevel.checkpoint()
            return TransactionProducer(self._client, group, call_back, config)

        return AsyncioTransactionProducer(self._bridge, await self._bridge.call(make))

    async def consume(
        self,
        group: str,
        topics: Mapping[str, Expression],
        on_messages: OnMessages,
        *,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = no_event,
    ) -> AsyncioConsumer:
        """Start a push consumer; returns after its first rebalance.

        Errors as PushConsumer.run.
        """

        async def call_back(messages: Sequence[ReceivedMessage]) -> object:
            return await self._bridge.call_back(on_messages, messages)

        def emit(kind: str, **fields: Any) -> None:
            self._bridge.call_back_soon(lambda: on_event(kind, **fields))

        async def start() -> PushConsumer:
            consumer = PushConsumer(self._client, group, topics, call_back, config=config, on_event=emit)
            await self._bridge.start(consumer.run)
            return consumer

        return AsyncioConsumer(self._bridge, await self._bridge.call(start))

    async def call(self, fn: Callable[[Client], Awaitable[T]]) -> T:
        """Run an async function with the client, in the client's thread.

        Use it for operations that have no method here.
        """
        return await self._bridge.call(fn, self._client)


@contextlib.asynccontextmanager
async def open_asyncio_client(config: ClientConfig) -> AsyncIterator[AsyncioClient]:
    """Open a client instance for the length of the block."""
    bridge = Bridge(config, asyncio.get_running_loop())
    client = await bridge.open()
    try:
        yield AsyncioClient(bridge, client)
    finally:
        await bridge.close()
