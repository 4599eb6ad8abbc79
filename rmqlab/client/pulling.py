"""The loop that pulls a queue while it is assigned to this consumer.

Source: class DefaultMQPushConsumerImpl, method pullMessage.

The loop pauses while too many messages are held, pulls from the broker that the last reply suggested, and repeats at
once; a broker without messages holds the request. A lost connection ends a pull at once, while Java's client waits for
its time-out of 30 s; then, as after any error, the loop pauses.
"""

import logging
from collections.abc import Callable

import attrs
import trio

from rmqlab.client import broker_api as calls
from rmqlab.client.broker_api import COMMIT_OFFSET, LITE_PULL, SUBSCRIPTION, SUSPEND, PullResult, PullStatus
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consumestats import ConsumeStats
from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.offsets import Offsets, OnEvent
from rmqlab.client.processqueue import FlowLimits, ProcessQueue
from rmqlab.client.pulltiming import PullTiming
from rmqlab.client.routes import BrokerAddress
from rmqlab.client.subscription import TAG, matching
from rmqlab.client.tracing import Tracer
from rmqlab.remoting.bodies.heartbeat import MessageModel, SubscriptionData
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.remoting.names import MASTER_ID

log = logging.getLogger(__name__)

FLOW_CONTROL_DELAY = 0.02
"""Seconds of pause after a 5.x broker's flow control."""


@attrs.define(eq=False)
class Group:
    """The state that all parts of one consumer share."""

    client: Client
    name: str
    config: ConsumerConfig
    subscriptions: dict[str, SubscriptionData]
    offsets: Offsets
    on_event: OnEvent
    stats: ConsumeStats
    tracer: Tracer | None = None
    resumed: trio.Event = attrs.field(factory=trio.Event)
    """Set while queues are pulled; clearing it pauses all pulls."""
    flow: FlowLimits = attrs.field(init=False)
    """Limits of each queue; they depend on the number of queues if these share a limit."""
    is_backlogged: Callable[[], bool] = lambda: False
    """True while messages of all queues wait for the application, so that none is pulled."""

    def __attrs_post_init__(self) -> None:
        self.resumed.set()
        self.flow = self.config.flow


@attrs.define(eq=False)
class Assignment:
    """An assigned queue: its held messages, its pull loop, and its consume loop.

    Only orderly consumers have a consume loop per queue.
    """

    held: ProcessQueue
    pulling: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    consuming: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    arrived: trio.Event = attrs.field(factory=trio.Event)
    """For orderly consumers: set when messages are ready."""
    idle: trio.Event | None = None
    """For orderly consumers: set when the call under way, if any, has ended."""
    is_leaving: bool = False
    """For orderly consumers: no further call may begin."""
    restart_at: int = 0
    """The offset at which a queue begins again that was dropped for another offset."""
    resumed: trio.Event = attrs.field(factory=trio.Event)
    """As that of the group, for this queue alone."""
    _room: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.resumed.set()

    def drop(self) -> None:
        """Drop the queue, which is not ours any more.

        Messages still being consumed are not committed.
        """
        self.pulling.cancel()
        self.drop_messages()

    def drop_messages(self) -> None:
        """As `drop`, but the pull loop goes on: it restarts the queue."""
        self.held.is_dropped = True
        self.consuming.cancel()
        self.notify_room()

    def leave(self) -> None:
        """Let no further call of an orderly consumer begin."""
        self.is_leaving = True
        self.pulling.cancel()
        self.arrived.set()
        self.notify_room()

    @property
    def is_idle(self) -> bool:
        """True while no call of an orderly consumer is under way."""
        return self.idle is None or self.idle.is_set()

    async def wait_idle(self) -> None:
        """Wait until the call under way, if any, has ended."""
        if self.idle is not None:
            await self.idle.wait()

    def notify_room(self) -> None:
        """Wake `wait_room` and `wait_empty`."""
        self._room.set()

    async def wait_room(self, group: Group) -> None:
        """Wait until so little is held that pulling may continue."""
        while self.held.is_full(group.flow, is_orderly=group.config.orderly) or group.is_backlogged():
            self._room = trio.Event()
            await self._room.wait()

    async def wait_empty(self) -> None:
        """Wait until no message is held that will be consumed.

        The caller must have stopped pulling.
        """
        while self.held.count and not self.held.is_dropped:
            if self.is_leaving:
                await self.wait_idle()
                return
            self._room = trio.Event()
            await self._room.wait()


@attrs.define(eq=False)
class Progress:
    """Decides when a pull loop pauses.

    A server that replies at once, in vain, must not keep it busy.
    """

    delay: float
    held_from: float
    """Seconds after which an empty reply shows that the broker held the pull."""
    furthest: int
    """The highest next offset so far."""
    in_vain: int = 0
    """Consecutive replies without progress."""

    def pause_after(self, result: PullResult, took: float) -> float:
        """Return the seconds of pause after a reply that took some seconds.

        A broker without messages holds a pull. A single one that it returns at once is no fault: it was woken in vain.
        """
        is_held = result.status is PullStatus.NO_NEW_MSG and took >= self.held_from
        if result.next_offset > self.furthest or is_held:
            self.furthest, self.in_vain = max(self.furthest, result.next_offset), 0
            return 0.0
        self.in_vain += 1
        return 0.0 if result.status is PullStatus.NO_NEW_MSG and self.in_vain == 1 else self.delay


@attrs.define(eq=False)
class QueuePuller:
    """Pulls one queue; `deliver` gets new messages."""

    group: Group
    assignment: Assignment
    deliver: Callable[[Assignment, list[ReceivedMessage]], None]
    sends_subscription: bool = False
    """For lite pull consumers, which send no heartbeat; their pulls never commit positions."""
    _suggested_id: int = attrs.field(default=MASTER_ID, init=False)
    _pulling_from: BrokerAddress | None = attrs.field(default=None, init=False)
    _is_silent: bool = attrs.field(default=True, init=False)
    """True until the first reply, and after a failed pull: the next reply emits an event."""

    async def pull_until_illegal(self) -> int:
        """Pull until the broker reports our offset as out of range.

        Return the offset that it offers.
        """
        held = self.assignment.held
        delay = self.group.config.pull_delay_without_progress
        progress = Progress(delay, min(delay, self.group.config.suspend_timeout / 2), held.next_offset)
        while True:
            await self.group.resumed.wait()
            await self.assignment.resumed.wait()
            await self.assignment.wait_room(self.group)
            began_at = trio.current_time()
            result = await self._pull()
            if result is None:
                continue
            if result.status is PullStatus.OFFSET_ILLEGAL:
                log.warning("offset %d of %s is out of bounds: %s", held.next_offset, held.queue, result)
                return result.next_offset
            held.next_offset = result.next_offset
            if result.status is PullStatus.FOUND:
                self._hold(result.messages)
            elif held.count == 0:
                # No message matched: skipped messages must not count as lag.
                self.group.offsets.update(held.queue, result.next_offset, increase_only=True)
            await trio.sleep(progress.pause_after(result, trio.current_time() - began_at))

    def _hold(self, messages: list[ReceivedMessage]) -> None:
        held = self.assignment.held
        fresh = held.put(matching(messages, self.group.subscriptions[held.queue.topic]))
        if fresh:
            self.deliver(self.assignment, fresh)

    async def _pull(self) -> PullResult | None:
        group, held = self.group, self.assignment.held
        timing = PullTiming(group.config.suspend_timeout)
        held.last_pull_at = timing.began_at
        target: BrokerAddress | None = None
        try:
            target = await calls.broker_of(group.client, held.queue, self._suggested_id)
            if target != self._pulling_from:  # emitted at the request: the broker may hold the pull
                self._pulling_from = target
                group.on_event("pulling_from", queue=held.queue, broker_id=target.broker_id, address=target.address)
            result = await self._request(target, timing)
        except FAILURES as exc:
            log.info("pull of %s failed: %s", held.queue, exc)
            address = target.address if target else None
            held_for = timing.held_before_loss(exc)
            group.on_event(
                "pull_failed", queue=held.queue, address=address, error=str(exc), took=timing.took, held=held_for
            )
            self._is_silent = True
            await self._pause_after(exc)
            return None
        self._report_reply(target, result, timing)
        self._suggested_id = result.suggested_broker_id
        for message in result.messages:
            message.from_broker_id = target.broker_id
        if result.status is PullStatus.FOUND:
            group.stats.pulled(held.queue.topic, len(result.messages), trio.current_time() - timing.began_at)
        return result

    async def _request(self, target: BrokerAddress, timing: PullTiming) -> PullResult:
        group, queue = self.group, self.assignment.held.queue
        channel = await group.client.remoting.channel(target.address)
        # No checkpoint until the request is written: offsets are recorded in the order in which they are sent.
        header = self._header(target)
        if header.sys_flag & COMMIT_OFFSET:
            group.offsets.note_commit(queue, target, header.commit_offset or 0)
        timing.sent()
        timeout = group.config.pull_timeout
        return await calls.pull_over(channel, group.client, target.address, queue.broker_name, header, timeout)

    def _report_reply(self, target: BrokerAddress, result: PullResult, timing: PullTiming) -> None:
        """Emit the first reply after a silence.

        A slave's reply that it lacks the data does not end a silence.
        """
        held = self.assignment.held
        is_stuck = result.status is PullStatus.NO_MATCHED_MSG and result.next_offset == held.next_offset
        if not self._is_silent or is_stuck:
            return
        self._is_silent = False
        self.group.on_event(
            "pull_resumed",
            queue=held.queue,
            broker_id=target.broker_id,
            address=target.address,
            status=result.status.name,
            took=timing.took,
            held=timing.held_before(result, is_slave=target.is_slave),
            stored_at=result.messages[0].store_timestamp if result.messages else None,
        )

    async def _pause_after(self, exc: Exception) -> None:
        delay = self.group.config.pull_delay_after_error
        if isinstance(exc, BrokerError) and exc.code == ResponseCode.FLOW_CONTROL:
            delay = FLOW_CONTROL_DELAY
        elif isinstance(exc, BrokerError) and exc.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
            self.group.client.heartbeat_soon()  # a restarted broker has lost our registration
        await trio.sleep(delay)

    def _header(self, target: BrokerAddress) -> PullMessageRequestHeader:
        group, queue = self.group, self.assignment.held.queue
        config, subscription = group.config, group.subscriptions[queue.topic]
        offset = group.offsets.peek(queue) or 0 if config.model is MessageModel.CLUSTERING else 0
        has_version = subscription.expression_type != TAG or not self.sends_subscription
        is_committing = offset > 0 and not target.is_slave and not self.sends_subscription
        return PullMessageRequestHeader(
            consumer_group=group.name,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=self.assignment.held.next_offset,
            max_msg_nums=config.pull_batch_size,
            sys_flag=SUSPEND
            | (COMMIT_OFFSET if is_committing else 0)
            | (SUBSCRIPTION | LITE_PULL if self.sends_subscription else 0),
            commit_offset=0 if self.sends_subscription else offset,
            suspend_timeout_millis=int(config.suspend_timeout * 1000),
            subscription=subscription.sub_string if self.sends_subscription else None,
            sub_version=subscription.sub_version if has_version else 0,
            expression_type=subscription.expression_type,
        )
