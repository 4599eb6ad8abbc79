"""The producer: retries until a broker has stored the message, or raises an error.

The error says whether the message may have been stored. Source: class DefaultMQProducerImpl; broker-requests section 1,
remoting-and-nameserver section 6.5.

A send that timed out may have succeeded: the message may be stored, and a later attempt may store it again under the
same unique id. After RefusedError the message is certainly not stored; after IndeterminateError it may be.
"""

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import (
    BROKER_NOT_EXIST,
    IndeterminateError,
    NoNameServerError,
    NoRouteError,
    RefusedError,
    SendError,
    TooManySendsError,
    failure_of,
)
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.limited import Limit
from rmqlab.client.message import Attempt, Message, SendResult
from rmqlab.client.outgoing import RETRY_CODES, STATUSES, Outgoing, prepare, prepare_batch
from rmqlab.client.queuechoice import QueueChoice
from rmqlab.client.replies import remark_of
from rmqlab.client.routes import publish_queues
from rmqlab.client.sendarguments import SelectQueue as SelectQueue  # noqa: PLC0414 - its users import it
from rmqlab.client.sendarguments import chosen_queue, refusing, send_limit
from rmqlab.client.tracing import TRACE_PRODUCER, Tracer, producer_group
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.send import SendMessageResponseHeader
from rmqlab.remoting.message import PROPERTY_INSTANCE_ID
from rmqlab.remoting.unique_ids import UniqueIdGenerator
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.config.valuetypes import check_value, checked
from rmqlab.runtime.identity import process_id
from rmqlab.runtime.net.remoting_errors import ConnectError, RemotingError, RequestTimeoutError

log = logging.getLogger(__name__)

Outcome = SendResult | SendError


class Producer:
    """One member of a producer group. Any number of tasks may send at once."""

    @checked
    def __init__(
        self,
        client: Client,
        group: str,
        config: ProducerConfig | None = None,
        *,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> None:
        self.client = client
        self.group = client.named_group(group)
        self.config = config or ProducerConfig()
        self.sends_under_way = 0
        """Those of `send_soon`."""
        self._on_attempt = on_attempt
        self._limit = Limit(self.config.max_concurrent_sends)
        self._topics = client.add_producer(self.group)
        self._ids = UniqueIdGenerator(client.ip, process_id(), wall_millis, client.rng.getrandbits(32))
        self._announced: set[str] = set()
        self._choice = QueueChoice(client.rng, avoid_slow_brokers=self.config.send_latency_fault_enable)
        self.tracer = _tracer(client, self.group, self.config) if self.config.enable_trace else None

    async def close(self) -> None:
        """Leave the group. Closing the client instance does this too."""
        if self.tracer is not None:
            await self.tracer.close()
        await self.client.leave(producer_group=self.group)

    # -- sending ---------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds all attempts, and decides what the error says
        to: MessageQueue | SelectQueue | None = None,
        message_id: str | None = None,
    ) -> SendResult:
        """Send and wait until it is stored. Errors: RefusedError, IndeterminateError.

        `to` names the queue, or chooses it from all queues of the topic; then there is one attempt only. `timeout`
        bounds all attempts together, from when fewer than `max_concurrent_sends` are under way. The fetch of a route
        that is not known yet counts, but is not cut short (Java: method sendDefaultImpl): it has `connect_timeout` and
        `api_timeout` of the client. `message_id` is from `new_id`, for callers that need it before the send ends.
        """
        limit = send_limit(timeout, to, self.config.send_timeout)
        return await self._limit.call(self._deliver, self._prepared(message, message_id), limit, to)

    def new_id(self) -> str:
        """Make a unique id for one message."""
        return self._ids.next()

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as send
        to: MessageQueue | SelectQueue | None = None,
    ) -> SendResult:
        """Send several messages of one topic into one queue, all or none.

        Errors as `send`.
        """
        limit = send_limit(timeout, to, self.config.send_timeout)
        check_value("messages", messages, Sequence)
        ids = [self._ids.next() for _ in messages]
        named = [self._named(message) for message in messages]
        return await self._limit.call(self._deliver, prepare_batch(named, ids, self.config), limit, to)

    def send_soon(
        self,
        message: Message,
        on_outcome: Callable[[Outcome], None],
        *,
        timeout: float | None = None,
        to: MessageQueue | SelectQueue | None = None,
    ) -> None:
        """Send in the background; call back with the result or the error.

        RefusedError at once for an illegal message, TooManySendsError above `max_sends_under_way`. If `to` raises, or
        returns no queue, the outcome is RefusedError; what `on_outcome` raises is logged. So it is in Java.
        """
        if self.sends_under_way >= self.config.max_sends_under_way:
            raise TooManySendsError(f"{self.sends_under_way} sends are under way")
        limit = send_limit(timeout, to, self.config.send_timeout)
        if not callable(on_outcome):
            check_value("on_outcome", on_outcome, Callable)
        outgoing = self._prepared(message)
        self.sends_under_way += 1
        if callable(to):
            to = refusing(to)
        self.client.nursery.start_soon(self._send_and_report, outgoing, on_outcome, limit, to)

    async def send_oneway(self, message: Message, *, to: MessageQueue | SelectQueue | None = None) -> str:
        """Write the request without waiting for a reply; returns the unique id.

        RefusedError if it cannot be written.
        """
        send_limit(None, to, self.config.send_timeout)
        outgoing = self._prepared(message)
        queue = self._choose(outgoing.topic, await self._queues(outgoing), to, None)
        began_at = trio.current_time()
        try:
            await self._write(outgoing, queue)
        except RefusedError:
            self._record(queue.broker_name, began_at, is_failed=True)
            raise
        self._record(queue.broker_name, began_at, is_failed=False)
        return outgoing.message_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Queues that messages of a topic may go to.

        NoRouteError and others as Client.fetch_route.
        """
        topic = self.client.named(topic)
        self._topics.add(topic)
        queues = self.client.routes.queues_to_write(topic)
        if not queues:
            try:
                queues = publish_queues(topic, await self.client.refresh_route(topic))
            except NoRouteError:
                queues = publish_queues(topic, await self._borrow_route(topic))
        if not queues:
            raise NoRouteError(f"no broker of topic {topic} has a master that can be written to")
        return queues

    async def announce(self, topic: str) -> None:
        """Register this client, once per topic, at the brokers of its route.

        A reply finds the client by its id.
        """
        if topic in self._announced:
            return
        await self.queues(topic)
        await self.client.heartbeat()
        self._announced.add(topic)

    def _prepared(self, message: Message, message_id: str | None = None) -> Outgoing:
        return prepare(self._named(message), message_id or self.new_id(), self.config)

    def _named(self, message: Message) -> Message:
        """Put a message into this client's namespace, as Java's client does."""
        namespace = self.client.config.namespace
        if not namespace:
            return message
        properties = {**message.properties, PROPERTY_INSTANCE_ID: namespace}
        return attrs.evolve(message, topic=self.client.named(message.topic), properties=properties)

    async def _borrow_route(self, topic: str) -> TopicRouteData:
        template = self.config.create_topic_key
        try:
            return await self.client.borrow_route(topic, template, self.config.default_topic_queue_nums)
        except NoRouteError:
            raise NoRouteError(f"no route for topic {topic}, nor for its template {template}") from None

    # -- attempts --------------------------------------------------------------------------------

    async def _send_and_report(
        self,
        outgoing: Outgoing,
        on_outcome: Callable[[Outcome], None],
        limit: float,
        to: MessageQueue | SelectQueue | None,
    ) -> None:
        outcome: Outcome
        try:
            outcome = await self._limit.call(self._deliver, outgoing, limit, to)
        except SendError as exc:
            outcome = exc
        except Exception as exc:  # such as one of on_attempt: it must not end the client
            log.exception("the send of %s failed", outgoing.message_id)
            outcome = IndeterminateError(f"may be stored: {exc!r}", ())
        finally:
            self.sends_under_way -= 1
        try:
            on_outcome(outcome)
        except Exception:
            log.exception("on_outcome failed at %s", outgoing.message_id)

    async def _deliver(
        self,
        outgoing: Outgoing,
        whole: float,
        to: MessageQueue | SelectQueue | None,
    ) -> SendResult:
        deadline = trio.current_time() + whole
        queues = await self._queues(outgoing)
        attempts: list[Attempt] = []
        result = None  # of the last attempt that was stored, even if a later one failed
        for number in range(1, 2 if to is not None else 2 + self.config.retries):
            if attempts and trio.current_time() >= deadline:
                break
            queue = self._choose(outgoing.topic, queues, to, attempts[-1].broker_name if attempts else None)
            is_broker_asked = to is None and trio.current_time() < deadline
            attempt, stored = await self._attempt(number, outgoing, queue, deadline, whole)
            result = stored or result
            attempts.append(attempt)
            if is_broker_asked:
                self._record(attempt.broker_name, attempt.began_at, is_failed=attempt.status is None)
            self._report(attempt)
            if not self._is_worth_another(attempt):
                break
        if result is not None:
            return attrs.evolve(result, attempts=len(attempts))
        raise failure_of(tuple(attempts))

    def _is_worth_another(self, attempt: Attempt) -> bool:
        if attempt.status is not None:
            return attempt.status.name != "SEND_OK" and self.config.retry_another_broker_when_not_store_ok
        return attempt.code in RETRY_CODES or attempt.code in (None, BROKER_NOT_EXIST)

    async def _attempt(
        self, number: int, outgoing: Outgoing, queue: MessageQueue, deadline: float, whole: float
    ) -> tuple[Attempt, SendResult | None]:
        began_at = trio.current_time()
        address = await self._master(queue)

        def attempt(**what: object) -> Attempt:
            return Attempt(
                number=number,
                topic=outgoing.topic,
                message_id=outgoing.message_id,
                broker_name=queue.broker_name,
                address=address,
                began_at=began_at,
                took=trio.current_time() - began_at,
                **what,  # type: ignore[arg-type]  # the fields of an outcome
            )

        if address is None:
            return attempt(code=BROKER_NOT_EXIST, error=f"broker {queue.broker_name} has no known master"), None
        try:
            response = await self._request(address, self._command(outgoing, queue), deadline, whole)
        except ConnectError as exc:
            return attempt(error=str(exc)), None
        except RemotingError as exc:
            return attempt(error=str(exc), is_indeterminate=True), None
        status = STATUSES.get(response.code)  # type: ignore[call-overload]  # a plain int looks up an IntEnum
        if status is None:
            return attempt(code=response.code, error=remark_of(response) or f"response code {response.code}"), None
        try:
            header = response.header(SendMessageResponseHeader)
        except HeaderError as exc:
            return attempt(error=f"{address} sent an invalid reply: {exc}", is_indeterminate=True), None
        stored_in = MessageQueue(
            topic=outgoing.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id if header.queue_id is None else header.queue_id,
        )
        result = SendResult(
            status=status,
            message_id=outgoing.message_id,
            offset_message_id=header.msg_id or "",
            queue=stored_in,
            queue_offset=-1 if header.queue_offset is None else header.queue_offset,
            remark=response.remark,
        )
        if self.tracer is not None:
            self.tracer.published(outgoing, address, result, header, trio.current_time() - began_at)
        return attempt(status=status), result

    async def _request(self, address: str, command: Command, deadline: float, whole: float) -> Command:
        """Send a request to a broker, until the deadline.

        After ConnectError, certainly no byte was written. `whole` is the time of the send in seconds, for errors.
        """
        if trio.current_time() >= deadline:
            raise ConnectError(f"the time-out of {whole:g} s was over before the request, with the fetch of the route")
        with trio.move_on_at(deadline) as connecting:
            channel = await self.client.remoting.channel(address)
        if connecting.cancelled_caught:
            raise ConnectError(f"no connection to {address} before the send timed out")
        try:
            return await channel.request(command, max(deadline - trio.current_time(), 0), whole)
        except RequestTimeoutError as exc:
            channel.close(f"a send timed out: {exc}")  # as Java's client: its state is unknown
            raise

    async def _write(self, outgoing: Outgoing, queue: MessageQueue) -> None:
        """Write a request without a reply. RefusedError if no byte of it was written."""
        address = await self._master(queue)
        if address is None:
            raise RefusedError(f"broker {queue.broker_name} has no known master", code=BROKER_NOT_EXIST)
        try:
            await self.client.remoting.send_oneway(address, self._command(outgoing, queue, oneway=True))
        except ConnectError as exc:
            raise RefusedError(str(exc)) from exc

    def _record(self, broker_name: str, began_at: float, *, is_failed: bool) -> None:
        now = trio.current_time()
        self._choice.note(broker_name, now - began_at, is_failed=is_failed, now=now)

    def _command(self, outgoing: Outgoing, queue: MessageQueue, *, oneway: bool = False) -> Command:
        header = outgoing.header(self.group, queue, self.config, wall_millis())
        return self.client.command(outgoing.code, header, outgoing.body, oneway=oneway)

    def _report(self, attempt: Attempt) -> None:
        if self._on_attempt is not None:
            self._on_attempt(attempt)

    # -- where to --------------------------------------------------------------------------------

    async def _queues(self, outgoing: Outgoing) -> list[MessageQueue]:
        """As `queues`, with the errors of a send."""
        began_at = trio.current_time()
        try:
            return await self.queues(outgoing.topic)
        except FAILURES as exc:
            code = exc.code if isinstance(exc, (NoRouteError, NoNameServerError)) else 0
            attempt = Attempt(
                number=1,
                topic=outgoing.topic,
                message_id=outgoing.message_id,
                broker_name="",
                address=None,
                began_at=began_at,
                took=trio.current_time() - began_at,
                code=code,
                error=str(exc),
            )
            self._report(attempt)
            raise RefusedError(str(exc), (attempt,), code=code, remark=str(exc)) from exc

    def _choose(
        self, topic: str, queues: list[MessageQueue], to: MessageQueue | SelectQueue | None, avoid_broker: str | None
    ) -> MessageQueue:
        if to is not None:
            return chosen_queue(to, queues)
        return self._choice.next_queue(topic, queues, avoid_broker, trio.current_time())

    async def _master(self, queue: MessageQueue) -> str | None:
        """Return the master of a queue's broker; refresh a route without one."""
        address = self.client.routes.master(queue.broker_name)
        if address is None:
            await self.client.try_refresh(queue.topic)
            address = self.client.routes.master(queue.broker_name)
        return address


def _tracer(client: Client, group: str, config: ProducerConfig) -> Tracer:
    sender = Producer(client, producer_group(group, "PRODUCE"), TRACE_PRODUCER)
    return Tracer(sender, group, config.trace_topic)
