"""Held pulls: long polls that wait for a message (broker-requests section 2.7).

Class PullRequestHoldService. A pull is held under its topic and queue. On a master, the arrival of a matching message
wakes it, and any arrival in its queue ends it once its deadline has passed. On every role, a sweep checks all held
pulls: only the sweep wakes pulls on a slave, and pulls of a broker without long polling.

Each woken pull makes a reply of up to 256 KiB. So pulls are woken in portions, and those of a peer that does not read
its replies stay here until it does (issue 12.6).
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import attrs

from rmqlab.broker.filter.message_filter import EVERYTHING, MessageFilter
from rmqlab.broker.waits.checkbudget import CheckBudget
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.runtime import stopwatch
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.dispatch import Request
from rmqlab.runtime.net.slices import Later

SWEEP_PERIOD = 5.0
"""Seconds, with long polling. Without it a sweep follows each `shortPollingTimeMills`."""
WAKES_AT_ONCE = 64
"""Maximum number of pulls woken before sockets, timers and tasks have their turn."""
LONG_WAKE = 0.005
"""Seconds. A pull that exceeds this, because it filters hundreds of messages, ends its portion."""
QUEUES_SWEPT_AT_ONCE = 1000
MAX_HELD = 100_000
"""Maximum held pulls: the capacity of RocketMQ's queue for pulls (pullThreadPoolQueueCapacity)."""
MAX_HELD_OF_CHANNEL = 10_000
MAX_HELD_BYTES_OF_CHANNEL = 16 * 2**20
"""Bytes of the texts in the headers of one channel's pulls."""

Queue = tuple[str, int]
"""Topic and queue id."""
QueueEnd = Callable[[str, int], int]
"""Returns the offset after the last entry of a queue, by topic and queue id."""


@attrs.define(eq=False)
class HeldPull:
    """One pull without messages. `deadline` is in seconds of the process's clock."""

    request: Request
    header: PullMessageRequestHeader
    queue_offset: int
    deadline: float
    waker: "PullWaker"
    message_filter: MessageFilter = EVERYTHING
    size: int = 0
    """Bytes of the texts in its header."""


class PullWaker(Protocol):
    """The part of the broker that its held pulls use."""

    def wake(self, pull: HeldPull, /) -> None:
        """Run a pull again and reply to it."""

    def properties_at(self, topic: str, queue_id: int, queue_offset: int, /) -> Mapping[str, str] | None:
        """Return the properties of a stored message; None where it cannot be read."""


@attrs.define(eq=False)
class _Share:
    """The held pulls of one channel."""

    pulls: int = 0
    size: int = 0
    postponed: list[HeldPull] = attrs.field(factory=list)
    """Due pulls that wait until the peer has read its replies."""


@attrs.define(eq=False)
class PullHold:
    """The pulls that are held, by topic and queue."""

    later: Later
    now: Callable[[], float]
    """Seconds of the process's clock."""
    errors: InternalErrors
    emit: Callable[..., object] = lambda _kind, **_fields: None
    wakes_on_arrival: bool = attrs.field(default=True, init=False)
    """False without long polling: then only the sweep wakes pulls."""
    _held: dict[Queue, list[HeldPull]] = attrs.field(factory=dict, init=False)
    _shares: dict[Any, _Share] = attrs.field(factory=dict, init=False)  # by channel
    _due: collections.deque[HeldPull] = attrs.field(factory=collections.deque, init=False)
    _wakes_left: int = attrs.field(default=WAKES_AT_ONCE, init=False)
    _count: int = attrs.field(default=0, init=False)
    _budget: CheckBudget = attrs.field(
        default=attrs.Factory(lambda self: CheckBudget(self.later), takes_self=True), init=False
    )
    _crowded: dict[Queue, int] = attrs.field(factory=dict, init=False)
    """Ends of queues that had too many new messages to compare each with each held pull."""
    _to_sweep: list[Queue] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        return self._count

    def add(self, topic: str, queue_id: int, pull: HeldPull) -> bool:
        """Hold a pull. False if its channel, or the broker, holds too many."""
        share = self._shares.get(pull.request.channel)
        if share is None:
            share = self._shares[pull.request.channel] = _Share()
        if (
            self._count >= MAX_HELD
            or share.pulls >= MAX_HELD_OF_CHANNEL
            or share.size + pull.size > MAX_HELD_BYTES_OF_CHANNEL
        ):
            return False
        share.pulls += 1
        share.size += pull.size
        self._count += 1
        self._held.setdefault((topic, queue_id), []).append(pull)
        return True

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int]) -> None:
        """Wake the pulls that match new messages at the end of their queue.

        Pulls whose filters reject the message stay held, unless their deadline has passed.

        If there are too many messages and pulls, all pulls behind the queue's end are woken a little later, as in a
        sweep.
        """
        queue = (topic, queue_id)
        if not self.wakes_on_arrival or queue not in self._held:
            return
        checks = len(tags_codes) * len(self._held[queue])
        if queue in self._crowded or not self._budget.spend_checks(checks):
            self._check_later(queue, queue_offset + len(tags_codes))
            return
        now = self.now()
        for max_offset, tags_code in enumerate(tags_codes, queue_offset + 1):
            if queue not in self._held:
                break
            self._check(
                queue,
                lambda pull, end=max_offset, code=tags_code: (  # type: ignore[misc]  # bound now, called now
                    pull.deadline <= now or self._is_for(pull, topic, queue_id, end - 1, code)
                ),
            )

    def _check_later(self, queue: Queue, end: int) -> None:
        """Check a queue with this end after sockets, timers and tasks."""
        is_scheduled = bool(self._crowded)
        self._crowded[queue] = end
        if not is_scheduled:
            self.later(self._check_crowded)

    def _check_crowded(self) -> None:
        """Wake the pulls of one crowded queue that are behind its end.

        Filters are not evaluated.
        """
        queue = next(iter(self._crowded))
        self._wake_behind(queue, self._crowded.pop(queue))
        if self._crowded:
            self.later(self._check_crowded)

    def _wake_behind(self, queue: Queue, end: int) -> None:
        """Wake the pulls of a queue that are behind its end or expired.

        A pull is behind if its offset is below `end`, and expired if its deadline has passed.
        """
        if queue in self._held:
            now = self.now()
            self._check(queue, lambda pull: pull.deadline <= now or end > pull.queue_offset)

    def _check(self, queue: Queue, is_due: Callable[[HeldPull], bool]) -> None:
        """Wake the due pulls of a queue; drop those of closed connections."""
        held, stay = self._held.pop(queue), []
        for pull in held:
            if pull.request.channel.is_closed:
                self._forget(pull)
            elif self._judge(is_due, pull):
                self._wake(pull)
            else:
                stay.append(pull)
        if stay:
            self._held.setdefault(queue, []).extend(stay)

    def _judge(self, is_due: Callable[[HeldPull], bool], pull: HeldPull) -> bool:
        """Apply a condition.

        A filter that raises makes the pull due: it runs again, and its consumer gets the error.
        """
        try:
            return is_due(pull)
        except Exception as exc:  # noqa: BLE001 - a boundary: other pulls, and sends, do not depend on this one
            self.errors.caught("filter of a held pull", exc, pull.request.channel.peer)
            return True

    def _is_for(self, pull: HeldPull, topic: str, queue_id: int, offset: int, tags_code: int) -> bool:
        message_filter = pull.message_filter
        if offset < pull.queue_offset:
            return False
        if message_filter.by_code is not None and not message_filter.by_code(tags_code):
            return False
        if message_filter.by_properties is None:
            return True
        if not self._budget.may_filter:  # this pull is woken as in a sweep
            return True
        began = stopwatch.wall()
        try:
            properties = pull.waker.properties_at(topic, queue_id, offset)
            return properties is None or message_filter.by_properties(properties)
        finally:
            self._budget.spend_filter_seconds(stopwatch.wall() - began)

    # -- waking ----------------------------------------------------------------------------------

    def _wake(self, pull: HeldPull) -> None:
        """Wake a pull now, in the next portion, or after its peer has read its replies."""
        channel = pull.request.channel
        if channel.is_congested:
            self._postpone(pull)
        elif self._wakes_left:
            self._wakes_left -= 1
            self._forget(pull)
            began = stopwatch.wall()
            pull.waker.wake(pull)
            if stopwatch.wall() - began > LONG_WAKE:
                self._wakes_left = 0
        else:
            self._due.append(pull)
            if len(self._due) == 1:
                self.later(self._wake_due)

    def _wake_due(self) -> None:
        """Wake the next portion."""
        self._wakes_left = WAKES_AT_ONCE
        while self._due and self._wakes_left:
            pull = self._due.popleft()
            if pull.request.channel.is_closed:
                self._forget(pull)
            else:
                self._wake(pull)
        if self._due:
            self.later(self._wake_due)

    def _postpone(self, pull: HeldPull) -> None:
        channel = pull.request.channel
        postponed = self._shares[channel].postponed
        postponed.append(pull)
        if len(postponed) == 1:
            channel.when_drained(partial(self._drained, channel))

    def _drained(self, channel: Any) -> None:
        """Wake the postponed pulls of this channel until it is congested again."""
        if (share := self._shares.get(channel)) is None:
            return
        waiting, share.postponed = share.postponed, []
        for pull in waiting:
            self._wake(pull)

    def _forget(self, pull: HeldPull) -> None:
        self._count -= 1
        share = self._shares[pull.request.channel]
        share.pulls -= 1
        share.size -= pull.size

    # -- sweeping --------------------------------------------------------------------------------

    def sweep(self, end_of: QueueEnd) -> None:
        """Wake every pull whose queue has grown or whose deadline has passed.

        Tags are not compared. Pulls for all messages whose queue has grown are recorded: on a slave of 4.9, their
        messages have waited for this sweep (store-ha#70).
        """
        self._drop_closed()
        if not self._to_sweep:  # otherwise the previous sweep is not finished
            self._to_sweep = list(self._held)
            self._sweep_some(end_of)

    def _drop_closed(self) -> None:
        """Drop closed channels' postponed pulls, and entries of channels without pulls."""
        for channel, share in list(self._shares.items()):
            if channel.is_closed:
                for pull in share.postponed:
                    self._forget(pull)
                share.postponed.clear()
            if not share.pulls:
                del self._shares[channel]

    def _sweep_some(self, end_of: QueueEnd) -> None:
        """Sweep a portion of the queues."""
        portion = self._to_sweep[-QUEUES_SWEPT_AT_ONCE:]
        del self._to_sweep[-QUEUES_SWEPT_AT_ONCE:]
        for queue in portion:
            if queue in self._held:
                end = end_of(*queue)
                self._record_overdue(queue, end)
                self._wake_behind(queue, end)
        if self._to_sweep:
            self.later(partial(self._sweep_some, end_of))

    def _record_overdue(self, queue: Queue, end: int) -> None:
        overdue = sum(
            end > pull.queue_offset and pull.message_filter == EVERYTHING and not pull.request.channel.is_closed
            for pull in self._held[queue]
        )
        if overdue:
            self.emit("held_pulls_overdue", topic=queue[0], queue=queue[1], pulls=overdue)
