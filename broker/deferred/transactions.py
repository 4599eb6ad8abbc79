"""Checks of unresolved half messages with their producers.

Class TransactionalMessageService. The half queue and the op queue are read side by side. The progress in both is kept
as consumer offsets of a system group, so that a slave has it too. A half message that is checked, or waits longer, is
stored again at the end of the half queue, so that progress is always one offset (store-and-ha section 7.1).
"""

import collections
import logging
import struct
from collections.abc import Sequence
from typing import NoReturn

import attrs
import trio

from rmqlab.broker.deferred.halfmessages import (
    HALF_QUEUE,
    MILLIS_PER_HOUR,
    CheckAction,
    CheckLimits,
    OpRecords,
    check_action,
    check_request,
    check_times,
    discarded_copy,
    first_queue_offset,
    postponed,
    put_aside,
    renewed,
    resolved_offset,
)
from rmqlab.broker.deferred.message_copy import is_final
from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.message import PROPERTY_PGROUP, NewMessage, RecordError, StoredMessage, decode_message
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.channel import Channel
from rmqlab.store.results import PutResult

log = logging.getLogger(__name__)

SERVICE = "transaction check"
ROUND_LIMIT_MILLIS = 60_000
CANDIDATES = 3
"""Producers of which one is asked."""
PIECE = 256
"""Records read before sockets have their turn."""
SECONDS_AT_ONCE = 0.02
"""Seconds of work, by stopwatch.wall, after which sockets are served earlier: a record of up to 4 MB is copied."""


@attrs.define(eq=False)
class TransactionCheck:
    """Checks the half messages of one master."""

    broker: Broker
    _began: int = attrs.field(default=0, init=False)
    """Begin of this round, in ms of wall time."""
    _turn: int = attrs.field(default=0, init=False)
    """Round-robin position among the producers of a group."""
    _postponed: set[int] = attrs.field(factory=set, init=False)
    """First queue offsets of postponed messages: an op record may still refer to them."""
    _bad_ops_end: int = attrs.field(default=0, init=False)
    """Op records before this offset of their queue were judged: a bad one is reported only once."""
    _unasked: collections.Counter[str] = attrs.field(factory=collections.Counter, init=False)
    """Half messages of this round without a connected producer, by group."""
    _is_at_end_of_ops: bool = attrs.field(default=False, init=False)
    """True if this round found no further op record."""

    async def check_forever(self) -> NoReturn:
        """Check once an interval, first after one."""
        while True:
            await trio.sleep(self.broker.config.transaction_check_interval / 1000)
            await self.check()

    async def check(self) -> None:
        """Check the half queue in order, up to its end or the first too young message.

        The end is that at the start of the check.
        """
        broker = self.broker
        self.broker.create_own_topic(names.HALF_TOPIC, 1)
        began = self._began = broker.now_millis()
        end = broker.store.max_queue_offset(names.HALF_TOPIC, HALF_QUEUE)
        at = self._start(names.HALF_TOPIC)
        ops = OpRecords(self._start(names.OP_HALF_TOPIC))
        self._is_at_end_of_ops = False
        # Also without a half message left, so that op records of half messages before `at` are used up.
        if self._read_ops(ops, half_progress=at):
            await trio.lowlevel.checkpoint()
        until = stopwatch.wall() + SECONDS_AT_ONCE
        while at < end and broker.now_millis() - began <= ROUND_LIMIT_MILLIS:
            if not await self._is_resolved(at, ops) and not self._handle_or_skip(at, ops):
                break
            at += 1
            if at % PIECE == 0 or stopwatch.wall() > until:
                await trio.lowlevel.checkpoint()
                until = stopwatch.wall() + SECONDS_AT_ONCE
        if at == end:
            broker.stats.count_miss()
        self._keep(names.HALF_TOPIC, at)
        self._keep(names.OP_HALF_TOPIC, ops.progress)
        self._report_unasked()

    async def _is_resolved(self, at: int, ops: OpRecords) -> bool:
        """Return True if an op record resolves a half message. Reads op records up to it."""
        while not (is_resolved := ops.take(at)) and self._read_ops(ops, half_progress=at):
            await trio.lowlevel.checkpoint()
        return is_resolved

    def _start(self, topic: str) -> int:
        """Return the group's offset in a queue.

        If the queue lacks that offset, return the nearest one.
        """
        store = self.broker.store
        known = self.broker.offsets.query(names.TRANSACTION_GROUP, topic, HALF_QUEUE) or 0
        return max(store.min_queue_offset(topic, HALF_QUEUE), min(known, store.max_queue_offset(topic, HALF_QUEUE)))

    def _keep(self, topic: str, progress: int) -> None:
        """Commit the processed offset of a queue. Without transactions, no offset is kept."""
        if progress != (self.broker.offsets.query(names.TRANSACTION_GROUP, topic, HALF_QUEUE) or 0):
            self.broker.offsets.commit(names.TRANSACTION_GROUP, topic, HALF_QUEUE, progress)

    def _read_ops(self, ops: OpRecords, half_progress: int) -> bool:
        """Read a piece of the op queue. False if there is no more, for now."""
        entries = self.broker.store.queue_entries(names.OP_HALF_TOPIC, HALF_QUEUE, ops.next_offset, PIECE)
        self._count_read(names.OP_HALF_TOPIC, entries)
        if not entries and not self._is_at_end_of_ops:
            self._is_at_end_of_ops = True
            self.broker.stats.count_miss()
        for physical_offset, size, _ in entries:
            offset = self._resolved_offset(physical_offset, size, ops.next_offset)
            if offset is not None and offset < half_progress and offset not in self._postponed:
                offset = None  # a copy was stored and counts instead; or it was resolved twice
            ops.add(offset)
        return bool(entries)

    def _count_read(self, topic: str, entries: Sequence[tuple[int, int, int]]) -> None:
        """Count it as a pull of the group of the check (class TransactionalMessageBridge)."""
        if entries:
            size = sum(size for _, size, _ in entries)
            self.broker.stats.count_get(topic, names.TRANSACTION_GROUP, len(entries), size)

    def _resolved_offset(self, physical_offset: int, size: int, op_offset: int) -> int | None:
        """The half message that an op record resolves.

        None for a record that is expired or no op record.
        """
        store = self.broker.store
        is_new = op_offset >= self._bad_ops_end
        self._bad_ops_end = max(self._bad_ops_end, op_offset + 1)
        try:
            record = store.message_at(physical_offset, size)
            half_end = store.max_queue_offset(names.HALF_TOPIC, HALF_QUEUE)
            return None if record is None else resolved_offset(decode_message(record), half_end)
        except RecordError as exc:
            if is_new:
                self.broker.skipped.note(SERVICE, physical_offset, str(exc))
            return None

    def _handle_or_skip(self, at: int, ops: OpRecords) -> bool:
        """Handle an unresolved half message. False if the round ends with it.

        A message that cannot be handled is skipped, so that it never blocks those behind it.
        """
        entries = self.broker.store.queue_entries(names.HALF_TOPIC, HALF_QUEUE, at, 1)
        if not entries:
            return True
        self._count_read(names.HALF_TOPIC, entries)
        physical_offset, size, _ = entries[0]
        try:
            record = self.broker.store.message_at(physical_offset, size)
            return record is None or self._handle(decode_message(record), ops)  # None: older than the commit log
        except OSError as exc:  # a state of the machine that the store does not report as a refusal: the next round
            self.broker.errors.caught(SERVICE, exc)
            return False
        except RecordError as exc:
            self.broker.skipped.note(SERVICE, physical_offset, str(exc))
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.broker.skipped.caught(SERVICE, physical_offset, exc)
        return True

    def _handle(self, half: StoredMessage, ops: OpRecords) -> bool:
        broker, first_offset = self.broker, first_queue_offset(half)
        if ops.take(first_offset):
            self._postponed.discard(first_offset)
            return True
        config = broker.config
        limits = CheckLimits(
            timeout=config.transaction_time_out,
            check_max=config.transaction_check_max,
            reserved_time=broker.store.config.file_reserved_time * MILLIS_PER_HOUR,
        )
        match check_action(half, limits, broker.now_millis(), self._began):
            case CheckAction.WAIT:
                return False
            case CheckAction.POSTPONE:
                self._postponed.add(first_offset)
                result = broker.put_own(postponed(half))
                return self._discard(half, put_aside(half)) if is_final(result) else result.is_stored
            case CheckAction.DISCARD:
                return self._discard(half, discarded_copy(half, limits.check_max))
            case CheckAction.CHECK:
                self._postponed.discard(first_offset)
                return self._ask(half)

    def _ask(self, half: StoredMessage) -> bool:
        """Store a copy, then ask one connected producer of its group.

        If its properties have no room for one more, no copy can be stored, and the message is given up at once: 4.9.8
        retries it for a minute in each round, and never checks the messages behind it.
        """
        times = check_times(half) + 1
        result = self.broker.put_own(renewed(half))
        if is_final(result):
            return self._discard(half, put_aside(half))
        if not result.is_stored:
            return False
        is_asked = self._ask_producer(half, result)
        group = half.properties.get(PROPERTY_PGROUP, "")
        self.broker.emit(
            "transaction_checked", group=group, times=times, queue_offset=result.queue_offset, asked=is_asked
        )
        return True

    def _ask_producer(self, half: StoredMessage, put: PutResult) -> bool:
        """Send the check request to one producer of the group.

        False if no producer is connected, or the request cannot be encoded.
        """
        group = half.properties.get(PROPERTY_PGROUP)
        producer = None if group is None else self._producer_of(group)
        if producer is None:
            self._unasked[group or ""] += 1
            return False
        try:
            command = check_request(half, put.queue_offset, put.physical_offset)
            producer.send_oneway(command)
        except (ValueError, struct.error) as exc:
            self.broker.skipped.note(SERVICE, half.physical_offset, f"its producer cannot be asked: {exc}")
            return False
        return True

    def _producer_of(self, group: str) -> Channel | None:
        """Return a connection of the group, another one each time. None if it has none.

        Of the next three, the first whose peer reads its requests (ProducerManager.getAvailableChannel).
        """
        channels = [channel for channel in self.broker.producers.groups.get(group, ()) if not channel.is_closed]
        if not channels:
            return None
        self._turn += 1
        candidates = [channels[(self._turn + place) % len(channels)] for place in range(CANDIDATES)]
        return next((channel for channel in candidates if not channel.is_congested), candidates[-1])

    def _report_unasked(self) -> None:
        """Log once a round how many half messages had no producer."""
        if self._unasked:
            (group, count), *others = self._unasked.most_common()
            more = f" and {len(others)} other groups" if others else ""
            log.warning("no producer is connected to check %d half messages of group %.100r%s", count, group, more)
            self._unasked.clear()

    def _discard(self, half: StoredMessage, copy: NewMessage) -> bool:
        """Store a copy of a half message in the topic TRANS_CHECK_MAX_TIME_TOPIC.

        Return False if the store refuses puts for now.
        """
        self.broker.create_own_topic(names.TRANS_CHECK_MAX_TIME_TOPIC, 1)
        result = self.broker.put_own(copy)
        if is_final(result):  # it may lack the room for one more check
            result = self.broker.put_own(put_aside(half))
        if is_final(result):
            raise RecordError(f"its discarded copy is not stored: {result.status.name}: {result.reason}")
        if not result.is_stored:
            return False
        self._postponed.discard(first_queue_offset(half))
        group = half.properties.get(PROPERTY_PGROUP, "")
        self.broker.emit("transaction_given_up", group=group, times=check_times(half), queue_offset=half.queue_offset)
        return True
