"""Dispatch: writes queue and index entries for records of the log (section 3.4).

Used for a master's puts, for a slave's received log, and at a start for records that a crash left undispatched. Batches
are the exception: `Putter` writes their entries. This is a hot path: per record one unpack, one slice and no function
call; properties are searched as bytes; the entries of a queue are collected and written together.
"""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from rmqlab.remoting.message import HEADS, IPV6_MASK, MESSAGE_MAGIC, TRANSACTION_PREPARED
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.batches.batchruns import LEAST, BatchRun
from rmqlab.store.batches.keyreader import KeyReader
from rmqlab.store.batches.uniformruns import RUN_PATIENCE, RunReader, UniformRun
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexkeys import KeyCollector
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ENTRY, NOT_PENDING, ConsumeQueue
from rmqlab.store.queue.queues import Queues, can_have_queues
from rmqlab.store.tagscodes import deliver_at, known_codes, property_of, tags_code_in

logger = logging.getLogger(__name__)

_SCHEDULE_TOPIC_BYTES: Final = SCHEDULE_TOPIC.encode()


class DispatchObserver(Protocol):
    """Receives the messages that have been entered in their queues."""

    def messages_dispatched(
        self, topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int], store_timestamp: int, /
    ) -> None:
        """Receive consecutive messages of a queue, the first at `queue_offset`.

        `tags_codes` has a code per message. In the schedule topic, these are times of delivery, in ms, as
        `store_timestamp` is.
        """


# size, magic, queue id, queue offset, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii4xi4xqqi8x8xq8x4x8xi")
_MAGIC: Final = struct.Struct(">4xi")
_CHUNK: Final = 1 << 20  # bytes between two writes of the collected entries
_FEW: Final = 16 * 1024  # bytes in which consecutive records are rarely of one queue: nothing to join
_BULK: Final = 256 * 1024  # more than this at once is a catch-up, not a master's live traffic
INDEX_AT_ONCE: Final = 8 * 2**20  # bytes of the log; more than a blank at a file's end, but not long to wait for
INDEX_LAG: Final = 2 << 30  # bytes that the index may be behind the queues, or a chunk more: they are in memory still
INDEX_LAG_ENTRIES: Final = 2_000_000  # the same in queue entries: a clean stop brings the index up in some 5 s


@attrs.define(eq=False)
class Dispatcher:
    """Dispatches the log, with one position for the queues and one for the index.

    The index is never ahead of the queues. When much is to be dispatched, the queues are completed first, because
    consumers wait for them; the index only serves queries by key.
    """

    log: CommitLog
    queues: Queues
    index: Index | None
    delay_millis: tuple[int, ...]  # by delay level, as at the start (ScheduleMessageService)
    is_slave: bool
    observer: DispatchObserver | None = None
    is_observed: bool = attrs.field(default=False, init=False)
    """False during recovery, because no client waits for old messages, and on slaves without a waiting client."""
    offset: int = attrs.field(default=0, init=False)  # everything before is in the queues
    indexed: int = attrs.field(default=0, init=False)  # everything before is in the index, too
    index_wanted: int = attrs.field(default=0, init=False)  # a query waits for the index to reach this offset
    entered: int = attrs.field(default=0, init=False)  # queue entries made from the log, by all callers
    _unindexed: int = attrs.field(default=0, init=False)  # approximate number of queue entries that the index lacks
    last_stored_at: int = attrs.field(default=0, init=False)
    _stuck_at: int = attrs.field(default=-1, init=False)
    _known: dict[tuple[bytes, int], ConsumeQueue] = attrs.field(factory=dict, init=False)
    _is_warned: bool = attrs.field(default=False, init=False)
    _touched: list[ConsumeQueue] = attrs.field(factory=list, init=False)
    _events: list[tuple[str, int, int, Sequence[int], int]] = attrs.field(factory=list, init=False)
    _keys: KeyReader = attrs.field(factory=KeyReader, init=False)
    _runs: RunReader = attrs.field(factory=RunReader, init=False)

    def catch_up(
        self, replay_from: int, indexed: int, on_progress: Callable[[int], object] = lambda _offset: None
    ) -> None:
        """Dispatch missing records at a start. OSError: no room.

        Writes queue entries from `replay_from` on, and index entries from the smaller of `replay_from` and `indexed`.
        Earlier index entries of deleted index files stay lost, as in RocketMQ (section 3.5).
        """
        self.offset = max(replay_from, self.log.min_offset)
        self.indexed = min(indexed, self.offset)
        while self.enter_queues(_CHUNK):
            on_progress(self.offset)
        self.follow()

    def follow(self) -> None:
        """Dispatch all readable records; skip the index if it is far behind.

        OSError: no room. If it is far behind (a crash lost an index file), `step` completes it later, in small parts.
        """
        while self.offset < self.log.max_offset and self.enter_queues(_CHUNK, may_index=True):
            pass
        if 0 < self.offset - self.indexed <= INDEX_AT_ONCE:
            self.enter_index()

    def cut(self, log_end: int) -> None:
        """Move both positions back to the end of a truncated log."""
        self.offset, self.indexed = min(self.offset, log_end), min(self.indexed, log_end)

    def reset_store(self) -> None:
        """Reset all positions: the log is empty, and may begin at any offset."""
        self.offset = self.indexed = self.index_wanted = 0
        self.forget_queues()

    def run(self, max_bytes: int | None = None) -> int:
        """Enter readable records, up to a bit more than `max_bytes`, in queues and index.

        Return the bytes done. OSError when a queue or the index finds no room: call again later, nothing is lost.
        """
        done = 0
        while max_bytes is None or done < max_bytes:
            step = self.enter_queues(_CHUNK if max_bytes is None else min(_CHUNK, max_bytes - done), may_index=True)
            if self.indexed < self.offset:
                self.enter_index()
            done += step
            if not step or self.offset == self.log.max_offset:
                break
        return done

    def step(self, max_bytes: int, *, may_index: bool = True) -> int:
        """Dispatch a part of the received log.

        Return the bytes done, 0 if nothing remains. OSError as `run`.

        Up to `_BULK` bytes, queues and index are written together. Of more, the queues are completed first, because
        consumers wait for them, then the index, unless `may_index` is false. The index is not delayed if a query waits
        for it, nor if it is far behind: its records should still be in the page cache, and a clean stop must complete
        it.
        """
        behind = self.log.max_offset - self.offset
        if self.indexed >= self.offset and behind <= _BULK:
            return self.run(max_bytes)
        if self.indexed < self.index_wanted or self._is_index_far_behind:
            return self.enter_index(max_bytes) + self.enter_queues(max_bytes)
        return self.enter_queues(max_bytes) or (self.enter_index(max_bytes) if may_index else 0)

    @property
    def _is_index_far_behind(self) -> bool:
        return self.offset - self.indexed > INDEX_LAG or self._unindexed > INDEX_LAG_ENTRIES

    @property
    def is_index_behind(self) -> bool:
        """True if the index lacks records that the queues have."""
        return self.indexed < self.offset

    def want_index(self) -> int | None:
        """Request the index up to the queues; return the `indexed` to wait for.

        Returns None if it is complete. Otherwise the index catches up even during a bulk transfer.
        """
        if not self.is_index_behind:
            return None
        self.index_wanted = self.offset
        return self.offset

    def enter_queues(self, max_bytes: int, *, may_index: bool = False) -> int:
        """Enter readable records, up to a bit more than `max_bytes`, in the queues.

        Return the bytes done.

        With `may_index` also in the index, unless the index is behind: so each record is read only once.
        """
        start = self.offset = max(self.offset, self.log.min_offset)
        limit, entered = min(self.log.max_offset, start + max_bytes), self.entered
        while self.offset < limit:
            file = self.log.file_from(self.offset)
            if file is None:
                break
            self.offset = max(self.offset, file.first_offset)
            keys = KeyCollector() if may_index and self.index and self.indexed == self.offset else None
            try:
                reached = self._collect(file, min(limit, self.offset + _CHUNK), keys)
                for queue in self._touched:
                    if queue.pending:
                        self.entered += len(queue.pending)
                        queue.append_pending()
            finally:  # after an error the entries are collected again
                for queue in self._touched:
                    queue.pending.clear()
                    queue.pending_offset = NOT_PENDING
                self._touched.clear()
                events, self._events = self._events, []
            if reached == self.offset:
                break
            self.offset = reached
            if self.index is None:
                self.indexed = reached
            if self.observer is not None:
                for event in events:
                    self.observer.messages_dispatched(*event)
            if self.index is not None and keys is not None:
                if entries := keys.entries():
                    self.index.put(entries)
                self.indexed = reached
        self._unindexed = self._unindexed + self.entered - entered if self.is_index_behind else 0
        return self.offset - start

    def enter_index(self, max_bytes: int | None = None) -> int:
        """Enter records of the queues, up to a bit more than `max_bytes`, in the index.

        Return the bytes done.
        """
        start = self.indexed = max(self.indexed, self.log.min_offset)
        behind = self.offset - start
        limit = self.offset if max_bytes is None else min(self.offset, start + max_bytes)
        while self.indexed < limit:
            file = self.log.file_from(self.indexed)
            if self.index is None or file is None:  # nothing to do, at a start with the index off
                self.indexed = self.offset
                break
            self.indexed = max(self.indexed, file.first_offset)
            keys, lead = KeyCollector(), self.log.entry_header_size(file)
            reached = self._keys.read(file, self.indexed, min(limit, self.indexed + _CHUNK), keys, lead)
            if entries := keys.entries():
                self.index.put(entries)
            self.indexed = min(reached, self.offset)
        self._unindexed = self._unindexed * (self.offset - self.indexed) // behind if behind > 0 else 0
        return self.indexed - start

    def forget_queues(self) -> None:
        """Drop cached queues, because queues were deleted."""
        self._known.clear()

    def _collect(self, file: LogFile, limit: int, keys: KeyCollector | None) -> int:
        """Collect entries, and `keys` if given, up to `limit`; return the next offset."""
        lead, is_observed = self.log.entry_header_size(file), self.is_observed
        mapped, wrote, first, room = file.map, file.wrote, file.first_offset, file.size - _RECORD.size - lead
        unpack, pack, known, add_keys = _RECORD.unpack_from, ENTRY.pack, self._known, self._keys.add
        at, limit, last_stored_at, tags_codes = self.offset - first, min(limit - first, wrote), 0, known_codes
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
                self.entered += queue.append(queue_offset, physical, size, tags_code)
            else:
                self._begin(queue, queue_offset, physical, size, tags_code)
            if is_observed:
                self._events.append((queue.topic, queue_id, queue_offset, (tags_code,), stored_at))
        self.last_stored_at = last_stored_at or self.last_stored_at
        return first + at

    def _enter_run(self, run: UniformRun | BatchRun, keys: KeyCollector | None) -> bool:
        """Enter a run in its queues, and collect its keys. OSError as `enter_queues`.

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
                self.entered += len(queue.pending)
                queue.append_pending()
            queue.pending_offset = NOT_PENDING
            queue.append_joined(queue_offset, entries)
            self.entered += len(entries) // ENTRY.size
        if keys is not None:
            run.add_keys(keys)
        if self.is_observed:
            for queue_id, queue_offset, codes, stored_at in run.events():
                self._events.append((self._known[run.topic, queue_id].topic, queue_id, queue_offset, codes, stored_at))
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
            self.entered += len(queue.pending)
            queue.append_pending()
        if physical + size <= queue.max_physical:
            return
        queue.pending_offset = NOT_PENDING
        if queue.max_offset == queue_offset and queue.files.files:
            queue.pending.append(ENTRY.pack(physical, size, tags_code))
        else:
            self.entered += queue.append(queue_offset, physical, size, tags_code)
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
