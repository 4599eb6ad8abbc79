"""Enters the records of the log in their queues.

This is a hot path: per record one unpack, one slice and no function call; properties are searched as bytes; the entries
of a queue are collected and written together.
"""

import logging
import struct
from collections.abc import Sequence
from typing import Final

import attrs

from rmqlab.remoting.message import HEADS, IPV6_MASK, MESSAGE_MAGIC, TRANSACTION_PREPARED
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.batches.batchruns import LEAST, BatchRun
from rmqlab.store.batches.keyreader import KeyReader
from rmqlab.store.batches.uniformruns import RUN_PATIENCE, RunReader, UniformRun
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.keyindex.indexkeys import KeyCollector
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ENTRY, NOT_PENDING, ConsumeQueue
from rmqlab.store.queue.queues import Queues, can_have_queues
from rmqlab.store.tagscodes import deliver_at, known_codes, property_of, tags_code_in

logger = logging.getLogger(__name__)

_SCHEDULE_TOPIC_BYTES: Final = SCHEDULE_TOPIC.encode()
# size, magic, queue id, queue offset, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii4xi4xqqi8x8xq8x4x8xi")
_MAGIC: Final = struct.Struct(">4xi")
_FEW: Final = 16 * 1024  # bytes in which consecutive records are rarely of one queue: nothing to join

Arrival = tuple[str, int, int, Sequence[int], int]
"""Consecutive messages of a queue: the arguments of `DispatchObserver.messages_dispatched`."""


@attrs.define(eq=False)
class QueueEntries:
    """Makes queue entries of records, and writes them to the queues."""

    log: CommitLog
    queues: Queues
    delay_millis: tuple[int, ...]  # by delay level, as at the start (ScheduleMessageService)
    is_slave: bool
    count: int = attrs.field(default=0, init=False)
    """Number of queue entries made from the log, by all callers."""
    _is_observed: bool = attrs.field(default=False, init=False)
    _last_stored_at: int = attrs.field(default=0, init=False)
    _stuck_at: int = attrs.field(default=-1, init=False)
    _known: dict[tuple[bytes, int], ConsumeQueue] = attrs.field(factory=dict, init=False)
    _is_warned: bool = attrs.field(default=False, init=False)
    _touched: list[ConsumeQueue] = attrs.field(factory=list, init=False)
    _arrivals: list[Arrival] = attrs.field(factory=list, init=False)
    _keys: KeyReader = attrs.field(factory=KeyReader, init=False)
    _runs: RunReader = attrs.field(factory=RunReader, init=False)

    def enter(
        self, file: LogFile, offset: int, limit: int, keys: KeyCollector | None, *, is_observed: bool
    ) -> tuple[int, int, list[Arrival]]:
        """Enter the records of a file from `offset` up to `limit`.

        Collects their `keys`, if given. Returns the offset of the next record, the store time of the last one (in ms; 0
        without a record), and the arrivals, if observed. OSError when a queue finds no room: then enter
        the same records again.
        """
        self._is_observed = is_observed
        try:
            reached = self._collect(file, offset, limit, keys)
            for queue in self._touched:
                if queue.pending:
                    self.count += len(queue.pending)
                    queue.append_pending()
        finally:
            for queue in self._touched:
                queue.pending.clear()
                queue.pending_offset = NOT_PENDING
            self._touched.clear()
            arrivals, self._arrivals = self._arrivals, []
        return reached, self._last_stored_at, arrivals

    def forget_queues(self) -> None:
        """Drop cached queues, because queues were deleted."""
        self._known.clear()

    def _collect(self, file: LogFile, offset: int, limit: int, keys: KeyCollector | None) -> int:
        """Collect entries, and `keys` if given, up to `limit`; return the next offset."""
        lead, is_observed = self.log.entry_header_size(file), self._is_observed
        mapped, wrote, first, room = file.map, file.wrote, file.first_offset, file.size - _RECORD.size - lead
        unpack, pack, known, add_keys = _RECORD.unpack_from, ENTRY.pack, self._known, self._keys.add
        at, limit, last_stored_at, tags_codes = offset - first, min(limit - first, wrote), 0, known_codes
        are_few, run_at = limit - at <= _FEW, at if not lead else limit  # where a run of records may begin
        while at < limit:
            if at > room:
                at = self._no_record(file, at)
                break
            size, magic, queue_id, queue_offset, physical, sys_flag, stored_at, body_size = unpack(mapped, at + lead)
            if magic != MESSAGE_MAGIC or size <= 88 or (lead and not self.log.is_entry_of(file, at, size, physical)):
                at = self._no_record(file, at)
                break
            end = at + lead + size
            if end > wrote:
                break
            if at >= run_at and limit - at >= LEAST * size:
                run = self._runs.read(
                    mapped, at, sys_flag, body_size, min((limit - at - 1) // size + 1, (wrote - at) // size)
                )
                if run is not None and self._enter_run(run, keys):
                    at, last_stored_at = at + run.count * size, run.last_stored_at
                    continue
                run_at = at + RUN_PATIENCE * size
            at += lead
            if sys_flag & IPV6_MASK:
                head = HEADS[(sys_flag & IPV6_MASK) >> 4]
                if head.size <= size:  # else the tail is empty
                    fields = head.unpack_from(mapped, at)
                    stored_at, body_size = fields[10], fields[14]
                tail = mapped[at + head.size + body_size : end]
            else:
                tail = mapped[at + 88 + body_size : end]
            if not 3 <= len(tail) <= 0x10000 or body_size < 0:
                logger.error("commit log %d: lengths disagree with its size %d: skipped", first + at, size)
                at = end
                continue
            at = end
            last_stored_at = stored_at
            if keys is not None:
                add_keys(tail, sys_flag, physical, stored_at, keys)
            if sys_flag & TRANSACTION_PREPARED:  # also of a rollback: neither has an entry (store-ha#22)
                continue

            topic_end = tail[0] + 1
            key = (tail[1:topic_end], queue_id)
            queue = known.get(key) or self._open(key)
            if queue is None:
                continue
            tags_at = tail.rfind(b"\x02TAGS\x01", topic_end + 2) + 6
            if tags_at >= 6:
                tags_end = tail.find(b"\x02", tags_at)
                tags_code = tags_codes.get(tail[tags_at:tags_end] if tags_end >= 0 else tail[tags_at:])
            else:
                tags_code = None if tail.startswith(b"TAGS\x01", topic_end + 2) else 0
            if tags_code is None:
                tags_code = tags_code_in(b"\x02" + tail[topic_end + 2 :] + b"\x02")
            if key[0] == _SCHEDULE_TOPIC_BYTES:
                text = b"\x02" + tail[topic_end + 2 :] + b"\x02"
                due = deliver_at(property_of(text, b"\x02DELAY\x01"), stored_at, self.delay_millis)
                tags_code = tags_code if due is None else due
            if queue_offset == queue.pending_offset:
                queue.pending.append(pack(physical, size, tags_code))
                queue.pending_offset = queue_offset + 1
            elif are_few:
                self.count += queue.append(queue_offset, physical, size, tags_code)
            else:
                self._begin(queue, queue_offset, physical, size, tags_code)
            if is_observed:
                self._arrivals.append((queue.topic, queue_id, queue_offset, (tags_code,), stored_at))
        self._last_stored_at = last_stored_at
        return first + at

    def _enter_run(self, run: UniformRun | BatchRun, keys: KeyCollector | None) -> bool:
        """Enter a run in its queues, and collect its keys. OSError as `enter`.

        False, and nothing is done, if they do not follow the last entries of their queues, or have no queue.
        """
        groups = run.by_queue()
        if groups is None:
            return False
        found: list[tuple[ConsumeQueue, int, bytes]] = []
        for queue_id, (queue_offset, entries) in groups.items():
            key = (run.topic, queue_id)
            queue = self._known.get(key) or self._open(key)
            if queue is None or run.first_physical < queue.max_physical:
                return False
            if queue.files.files and queue.end_offset + len(queue.pending) != queue_offset:
                return False
            found.append((queue, queue_offset, entries))
        for queue, queue_offset, entries in found:
            if queue.pending:
                self.count += len(queue.pending)
                queue.append_pending()
            queue.pending_offset = NOT_PENDING
            queue.append_joined(queue_offset, entries)
            self.count += len(entries) // ENTRY.size
        if keys is not None:
            run.add_keys(keys)
        if self._is_observed:
            for queue_id, queue_offset, codes, stored_at in run.events():
                self._arrivals.append(
                    (self._known[run.topic, queue_id].topic, queue_id, queue_offset, codes, stored_at)
                )
        return True

    def _open(self, key: tuple[bytes, int]) -> ConsumeQueue | None:
        """Open a queue.

        None for a topic that cannot be a directory: a record's checksum does not cover its topic.
        """
        topic = key[0].decode("utf-8", "replace")
        if not can_have_queues(topic):
            if not self._is_warned:  # log it once: a log may contain many such records
                logger.error(
                    "records of topic %r, or others like it, are in no queue: no directory is called so", topic
                )
                self._is_warned = True
            return None
        queue = self._known[key] = self.queues.open(topic, key[1])
        return queue

    def _begin(self, queue: ConsumeQueue, queue_offset: int, physical: int, size: int, tags_code: int) -> None:
        """Add the first entry of a queue in this chunk, or one after a gap."""
        if queue.pending:
            self.count += len(queue.pending)
            queue.append_pending()
        if physical + size <= queue.max_physical:
            return
        queue.pending_offset = NOT_PENDING
        if queue.max_offset == queue_offset and queue.files.files:
            queue.pending.append(ENTRY.pack(physical, size, tags_code))
        else:
            self.count += queue.append(queue_offset, physical, size, tags_code)
        if queue.max_offset + len(queue.pending) == queue_offset + 1:
            queue.pending_offset = queue_offset + 1
        self._touched.append(queue)

    def _no_record(self, file: LogFile, at: int) -> int:
        """Handle bytes that are not a whole record; return the next position.

        They are the blank at a file's end, an incomplete record, or garbage.
        """
        here = file.first_offset + at
        if at + 8 > file.wrote:
            return at
        if self.log.is_blank(file, at):
            return file.size if file.is_full else at
        if (following := self.log.after_entry(file, at)) is not None:
            return following
        lead = self.log.entry_header_size(file)
        if at + lead + 8 > file.wrote:
            return at
        (magic,) = _MAGIC.unpack_from(file.map, at + lead)
        if self.is_slave:
            # As in RocketMQ, only emptying the slave's store repairs this; dispatch stops here (section 4.9).
            if self._stuck_at != here:
                logger.warning("commit log %d: magic %08X: the slave stops dispatch", here, magic & 0xFFFFFFFF)
            self._stuck_at = here
            return at
        logger.error("commit log %d: magic %08X: the rest of the file is skipped", here, magic & 0xFFFFFFFF)
        return file.wrote
