"""Delayed messages: each waits in the queue of its level until it is due.

When due, a message is stored in its original topic. Source: store-and-ha section 7.2; class ScheduleMessageService.
RocketMQ reads each of 18 queues every 100 ms. Here one task reads all of them, never twice within 100 ms, and sleeps
until the next message is due: delivery times are the same, but an idle broker uses no CPU.
"""

import math
import pathlib
from collections.abc import Callable
from typing import NoReturn

import attrs
import trio

from rmqlab.broker.deferred.message_copy import copy_of, destination, is_final
from rmqlab.broker.deferred.skipped import SkippedMessages
from rmqlab.remoting import names
from rmqlab.remoting.bodies.offset import DelayOffsets
from rmqlab.remoting.message import NewMessage, RecordError, decode_message
from rmqlab.runtime import stopwatch
from rmqlab.runtime.clock import until_wall
from rmqlab.store.files.configfile import keep_config_file, load_config_file
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import Decision, PutResult, PutStatus

FIRST_AFTER = 1.0
"""Seconds from the start to the first delivery."""
PERIOD = 0.1
"""Seconds between two deliveries."""
PAUSE_AFTER_ERROR_MILLIS = 10_000
PAUSE_AFTER_FAILURE_MILLIS = 100
"""After a put that no quorum has stored in time."""
SERVICE = "delayed delivery"
NEVER_DELAYED = (names.HALF_TOPIC, names.SCHEDULE_TOPIC)
"""Destinations that are skipped. A delayed half message could never be resolved (RocketMQ drops it as well), and a
message for the schedule topic would be delivered to its own queue endlessly.
"""
LEVEL_LIMIT = 256
"""Maximum messages of one level delivered before sockets are served."""
SECONDS_AT_ONCE = 0.02
"""Seconds of work, by stopwatch.wall, after which sockets are served earlier: a message of up to 4 MB is copied."""


@attrs.define(eq=False)
class DueAlarm:
    """The sleep of delayed delivery.

    Dispatch ends it early for a message that is due before the others.
    """

    now_millis: Callable[[], int]
    _sleeping: trio.CancelScope | None = attrs.field(default=None, init=False)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds of wall time.

        Shorter if `bring_forward` reports a message meanwhile that is due earlier.
        """
        self._sleeping = trio.CancelScope(deadline=trio.current_time() + until_wall(seconds))
        with self._sleeping:
            await trio.sleep_forever()
        self._sleeping = None

    def wake(self) -> None:
        """End the sleep, because the wall clock has jumped: other messages may be due."""
        self.bring_forward(self.now_millis())

    def bring_forward(self, due_millis: int) -> None:
        """Shorten the sleep to the due time of a delayed message that was stored.

        Do nothing if no task sleeps.
        """
        if self._sleeping is not None:
            due_at = trio.current_time() + until_wall(max(0, due_millis - self.now_millis()) / 1000)
            self._sleeping.deadline = min(self._sleeping.deadline, due_at)


@attrs.define(eq=False)
class DelayedDelivery:
    """Delivers each level and keeps its progress.

    A slave has the table of progress and never delivers.
    """

    store: MessageStore
    path: pathlib.Path
    put: Callable[[NewMessage, int], PutResult]
    """Stores a message for which no client waits. The second argument is its delay level."""
    now_millis: Callable[[], int]
    alarm: DueAlarm
    skipped: SkippedMessages = attrs.field(factory=SkippedMessages)
    offsets: dict[int, int] = attrs.field(factory=dict, init=False)
    """By level, from 1: the first entry of its queue that is not delivered. Levels never delivered are not in it."""
    _delays: tuple[int, ...] = attrs.field(init=False)
    _next_level: int = attrs.field(default=1, init=False)
    """The level that is delivered next."""
    _resume_at: dict[int, int] = attrs.field(factory=dict, init=False)
    """Wall-clock ms until which a level is paused after an error."""
    _undecided: dict[int, Decision] = attrs.field(factory=dict, init=False)
    """By level: the put of its next entry, until the broker's DLedger group decides on it (dledger#58)."""
    _is_decided: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set at each decision, and replaced by the loop."""

    def __attrs_post_init__(self) -> None:
        self._delays = self.store.dispatcher.entries.delay_millis
        self.load()

    def load(self) -> None:
        """Read delayOffset.json.

        At the start, and when a slave, whose file is its master's, becomes master.
        """
        loaded = load_config_file(self.path, DelayOffsets.decode)
        known = loaded.offset_table if loaded is not None else {}
        self._undecided.clear()
        self.offsets.clear()
        self.offsets.update({level: self._within_queue(level, at) for level, at in known.items()})

    def body(self) -> DelayOffsets:
        """Return the table as sent over the wire (request 45) and saved to the file."""
        return DelayOffsets(offset_table=self.offsets)

    def save(self) -> None:
        """Write delayOffset.json.

        Messages delivered since the last save are delivered again after a crash.
        """
        keep_config_file(self.path, self.body().encode_pretty())

    # ---- delivery ----------------------------------------------------------------------------------------

    async def deliver_forever(self) -> NoReturn:
        """Deliver due messages, then sleep until the next one is due."""
        await trio.sleep(FIRST_AFTER)
        while True:
            while self.deliver_due():
                await trio.lowlevel.checkpoint()
            self._is_decided = trio.Event()
            with trio.move_on_after(PERIOD):
                await self._is_decided.wait()
                continue
            await self.alarm.sleep(self.seconds_until_due())

    def deliver_due(self) -> bool:
        """Deliver due messages of one level after the other. True if more may be due.

        At most LEVEL_LIMIT of each, and until SECONDS_AT_ONCE have passed. The next call continues with the level
        after the last one.
        """
        most, until = 0, stopwatch.wall() + SECONDS_AT_ONCE
        for _ in self._delays:
            most = max(most, self._deliver_level(self._next_level, until))
            self._next_level = self._next_level % len(self._delays) + 1
            if most and stopwatch.wall() > until:
                return True
        return most == LEVEL_LIMIT

    def seconds_until_due(self) -> float:
        """Return the seconds until the next stored message is due.

        Infinite if there is none.
        """
        waits = [self._millis_until_due(level) for level in range(1, len(self._delays) + 1)]
        return min(waits, default=math.inf) / 1000

    def _millis_until_due(self, level: int) -> float:
        heads = self._entries(level, self._position(level), 1)
        decision = self._undecided.get(level)
        if not heads or (decision is not None and decision.status is None):
            return math.inf
        now = self.now_millis()
        return max(0, self._pause_left(level, now), self._due(level, heads[0][2], now) - now)

    def _pause_left(self, level: int, now: int) -> int:
        """Return the ms until a level is resumed.

        More than a pause is the time of another clock, and counts as none.
        """
        left = self._resume_at.get(level, 0) - now
        return left if 0 < left <= PAUSE_AFTER_ERROR_MILLIS else 0

    def _deliver_level(self, level: int, until: float) -> int:
        """Deliver messages of a level in order; return the number that is done.

        Ends at one that is not due or cannot be stored now, and at the time `until`, by stopwatch.wall.
        """
        now = self.now_millis()
        if self._pause_left(level, now) or not self._follow_decision(level):
            return 0
        done, position = 0, self._position(level)
        for physical_offset, size, due in self._entries(level, position, LEVEL_LIMIT):
            if self._due(level, due, now) > now:
                break
            if done and stopwatch.wall() > until:
                break
            try:
                if not self._deliver_or_skip(level, physical_offset, size):
                    break  # refused for now, or not decided: retry this entry at the next delivery
            except OSError as exc:  # a state of the machine that the store does not report as a refusal
                self.skipped.errors.caught(SERVICE, exc, f"level {level}")
                self._resume_at[level] = now + PAUSE_AFTER_ERROR_MILLIS
                break
            done += 1
        if done:
            self.offsets[level] = position + done
        return done

    def _follow_decision(self, level: int) -> bool:
        """Count the entry of the last put as done if a quorum has stored it.

        False while the group has not decided. After another decision, such as a timeout, the entry is put again, and
        if the first one is committed later, the message is delivered twice (syncDeliver).
        """
        decision = self._undecided.get(level)
        if decision is None:
            return True
        if decision.status is None:
            return False
        del self._undecided[level]
        if decision.status is not PutStatus.PUT_OK:
            self._resume_at[level] = self.now_millis() + PAUSE_AFTER_FAILURE_MILLIS
            return False
        self.offsets[level] = self._position(level) + 1
        return True

    def _deliver_or_skip(self, level: int, physical_offset: int, size: int) -> bool:
        """Deliver a message, or skip one that can never be delivered.

        Return False to retry it, or while the group has not decided on it.
        """
        try:
            return self._deliver(level, physical_offset, size)
        except OSError:
            raise
        except RecordError as exc:
            self.skipped.note(SERVICE, physical_offset, str(exc))
        except Exception as exc:  # noqa: BLE001 - a boundary: no message may stop those behind it
            self.skipped.caught(SERVICE, physical_offset, exc)
        return True

    def _deliver(self, level: int, physical_offset: int, size: int) -> bool:
        """Store a message in its real queue.

        Return False if the store refuses puts for now, or until the group has decided on it.

        The properties DELAY, REAL_TOPIC and REAL_QID stay, without effect. RecordError if the message can never
        be delivered; RocketMQ retries such a message every 100 ms and delivers no later message of its level.
        """
        record = self.store.message_at(physical_offset, size)
        if record is None:
            return True  # older than the commit log
        stored = decode_message(record)
        topic, queue_id = destination(stored)
        if topic in NEVER_DELAYED:
            raise RecordError(f"a delayed message may not go to {topic}")
        result = self.put(copy_of(stored, topic, queue_id), level)
        if is_final(result):
            raise RecordError(f"{result.status.name}: {result.reason}")
        if result.decision is not None:
            self._undecided[level] = result.decision
            result.decision.when_made(self._note_decision)
            return False
        return result.is_stored

    def _note_decision(self, _status: PutStatus, _cause: str | None) -> None:
        self._is_decided.set()
        self.alarm.bring_forward(self.now_millis())

    def _due(self, level: int, due: int, now: int) -> int:
        """Return the wall-clock ms of delivery.

        An entry due later than its whole delay has the time of another clock, and is due now.
        """
        return due if due <= now + self._delays[level - 1] else now

    def _entries(self, level: int, position: int, count: int) -> list[tuple[int, int, int]]:
        return self.store.queue_entries(names.SCHEDULE_TOPIC, level - 1, position, count)

    def _position(self, level: int) -> int:
        return self._within_queue(level, self.offsets.get(level, 0))

    def _within_queue(self, level: int, offset: int) -> int:
        """Return the nearest offset that the queue has."""
        queue = names.SCHEDULE_TOPIC, level - 1
        return max(self.store.min_queue_offset(*queue), min(offset, self.store.max_queue_offset(*queue)))
