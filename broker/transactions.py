"""The check of half messages that nobody has resolved: their producers are asked (class TransactionalMessageService).

The half queue and the op queue are read side by side. How far each is done are the consumer offsets of a group of
its own, so that a slave has them too. A half message that is asked about, or is to wait longer, is stored again at
the end of the half queue: the queue is always done up to some point (store-and-ha section 7.1).
"""

import logging
from typing import NoReturn

import attrs
import trio

from broker.halfmessages import (
    HALF_QUEUE,
    MILLIS_PER_HOUR,
    CheckLimits,
    OpRecords,
    Verdict,
    check_request,
    check_times,
    first_queue_offset,
    given_up,
    judge,
    postponed,
    renewed,
)
from broker.state import Broker
from remoting import names
from remoting.message import PROPERTY_PGROUP, StoredMessage, decode_message

log = logging.getLogger(__name__)

ROUND_LIMIT_MILLIS = 60_000
PIECE = 256
"""Records that are read before the sockets are looked at again."""


@attrs.define(eq=False)
class TransactionCheck:
    """Asks about the half messages of one master."""

    broker: Broker
    _turn: int = attrs.field(default=0, init=False)
    """Whose turn it is among the producers of a group."""
    _postponed: set[int] = attrs.field(factory=set, init=False)
    """Where postponed messages stood at first: an op record may yet resolve them by that offset."""

    async def check_forever(self) -> NoReturn:
        """Check once an interval, first after one."""
        while True:
            await trio.sleep(self.broker.config.transaction_check_interval / 1000)
            await self.check()

    async def check(self) -> None:
        """Look at all that is in the half queue now, in order, up to the first message that is too young."""
        broker = self.broker
        self._make_topic(names.HALF_TOPIC)
        began, end = broker.now_millis(), broker.store.max_queue_offset(names.HALF_TOPIC, HALF_QUEUE)
        at = self._start(names.HALF_TOPIC)
        ops = OpRecords(self._start(names.OP_HALF_TOPIC))
        while at < end and broker.now_millis() - began <= ROUND_LIMIT_MILLIS:
            is_done = ops.take(at)
            while not is_done and self._read_ops(ops, half_progress=at):
                await trio.lowlevel.checkpoint()
                is_done = ops.take(at)
            if not is_done and not self._see_to(at, ops):
                break
            at += 1
            if at % PIECE == 0:
                await trio.lowlevel.checkpoint()
        self._keep(names.HALF_TOPIC, at)
        self._keep(names.OP_HALF_TOPIC, ops.progress)

    def _start(self, topic: str) -> int:
        """The group's offset in a queue, if the queue has it; otherwise the nearest that it has."""
        store = self.broker.store
        known = self.broker.offsets.query(names.TRANSACTION_GROUP, topic, HALF_QUEUE) or 0
        return max(store.min_queue_offset(topic, HALF_QUEUE), min(known, store.max_queue_offset(topic, HALF_QUEUE)))

    def _keep(self, topic: str, progress: int) -> None:
        """Commit how far a queue is done. A broker without transactions keeps nothing."""
        if progress != (self.broker.offsets.query(names.TRANSACTION_GROUP, topic, HALF_QUEUE) or 0):
            self.broker.offsets.commit(names.TRANSACTION_GROUP, topic, HALF_QUEUE, progress)

    def _read_ops(self, ops: OpRecords, half_progress: int) -> bool:
        """Read a piece of the op queue. False if there is no more, for now."""
        store = self.broker.store
        entries = store.queue_entries(names.OP_HALF_TOPIC, HALF_QUEUE, ops.next_offset, PIECE)
        for physical_offset, size, _ in entries:
            record = store.message_at(physical_offset, size)
            offset = int(decode_message(record).body) if record is not None else None
            if offset is not None and offset < half_progress and offset not in self._postponed:
                offset = None  # it was asked about, and its copy is what counts; or it was resolved twice
            ops.add(offset)
        return bool(entries)

    def _see_to(self, at: int, ops: OpRecords) -> bool:
        """Do what a half message calls for that no op record resolves. False if the round ends with it."""
        broker = self.broker
        entries = broker.store.queue_entries(names.HALF_TOPIC, HALF_QUEUE, at, 1)
        record = broker.store.message_at(*entries[0][:2]) if entries else None
        if record is None:
            return True  # older than the commit log
        half = decode_message(record)
        if ops.take(first_queue_offset(half)):
            self._postponed.discard(first_queue_offset(half))
            return True
        config = broker.config
        limits = CheckLimits(
            timeout=config.transaction_time_out,
            check_max=config.transaction_check_max,
            reserved_time=broker.store.config.file_reserved_time * MILLIS_PER_HOUR,
        )
        match judge(half, limits, broker.now_millis()):
            case Verdict.LEAVE:
                return False
            case Verdict.POSTPONE:
                self._postponed.add(first_queue_offset(half))
                return broker.put_own(postponed(half)).is_stored
            case Verdict.GIVE_UP:
                return self._give_up(half)
            case Verdict.ASK:
                self._postponed.discard(first_queue_offset(half))
                return self._ask(half)

    def _ask(self, half: StoredMessage) -> bool:
        """Put it again, then ask one producer of its group, if any is there."""
        times = check_times(half) + 1
        result = self.broker.put_own(renewed(half, times))
        if not result.is_stored:
            return False
        group = half.properties.get(PROPERTY_PGROUP, "")
        channels = [channel for channel in self.broker.producers.groups.get(group, ()) if not channel.is_closed]
        if channels:
            self._turn += 1
            command = check_request(half, times, result.queue_offset, result.physical_offset)
            channels[self._turn % len(channels)].send_oneway(command)
        else:
            log.warning("no producer of group %s is here to ask about the half message at %d", group, half.queue_offset)
        self.broker.emit(
            "transaction_checked", group=group, times=times, queue_offset=result.queue_offset, asked=bool(channels)
        )
        return True

    def _give_up(self, half: StoredMessage) -> bool:
        self._make_topic(names.TRANS_CHECK_MAX_TIME_TOPIC)
        if not self.broker.put_own(given_up(half)).is_stored:
            return False
        group = half.properties.get(PROPERTY_PGROUP, "")
        self.broker.emit("transaction_given_up", group=group, times=check_times(half), queue_offset=half.queue_offset)
        return True

    def _make_topic(self, topic: str) -> None:
        if self.broker.topics.get(topic) is None:
            self.broker.topics.create_plain(topic, 1)
            self.broker.registration.register_soon(oneway=True)
