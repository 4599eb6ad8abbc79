"""The message store of one broker: put, read, replicate, flush, recover. Nothing here waits or reads a clock.

All calls belong to one thread, except `FlushJob.run`. Memoryviews it answers lie in mapped files: use them
within the same pass of the event loop, for a later pass may delete the file below them.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Self

import attrs

from remoting.message import BatchItem, NewMessage
from store import cleaning, recovery
from store.checkpoint import Checkpoint
from store.commitlog import CommitLog
from store.config import QUEUE_ENTRY_SIZE, StoreConfig
from store.consumequeue import ENTRY
from store.disk import Disk
from store.dispatch import Dispatcher, OnDispatched
from store.filequeue import FileQueue
from store.flush import FlushedMarks, FlushJob
from store.index import Index
from store.lock import AbortFile, StoreLock
from store.pull import PropertyFilter, Puller, TagsMatch
from store.put import Putter
from store.queues import Queues
from store.results import GetResult, PutResult, QueryResult
from store.timesearch import offset_by_time

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class MessageStore:
    config: StoreConfig
    now_millis: Callable[[], int]
    is_slave: bool
    disk: Disk
    log: CommitLog
    queues: Queues
    index: Index | None
    checkpoint: Checkpoint
    dispatcher: Dispatcher
    putter: Putter
    puller: Puller
    marks: FlushedMarks
    _lock: StoreLock
    _abort: AbortFile
    _queues_flushed_at: int = attrs.field(default=0, init=False)  # dispatched offset at the last queue flush
    _closed: bool = attrs.field(default=False, init=False)

    # ---- opening and closing -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        now_millis: Callable[[], int],
        is_slave: bool = False,
        on_dispatched: OnDispatched | None = None,
        disk: Disk | None = None,
    ) -> Self:
        """Lock, map, recover, dispatch to the log's end. StoreLocked, StoreCorrupt or OSError if it cannot."""
        root, disk = config.store_path_root_dir, disk or Disk()
        root.mkdir(parents=True, exist_ok=True)
        lock = StoreLock.acquire(root / "lock")
        try:
            log = CommitLog(FileQueue(config.store_path_commit_log, config.mapped_file_size_commit_log, disk))
            queues = Queues(root / "consumequeue", config.mapped_file_size_consume_queue, disk)
            index = None
            if config.message_index_enable:
                index = Index(root / "index", config.max_hash_slot_num, config.max_index_num, disk, now_millis)
            dispatcher = Dispatcher(log, queues, index, config.delay_millis, is_slave, on_dispatched)
            store = cls(
                config, now_millis, is_slave, disk, log, queues, index, Checkpoint.load(root / "checkpoint"),
                dispatcher, Putter(config, log, queues, index, dispatcher, now_millis), Puller.of(log, config, is_slave=is_slave),
                FlushedMarks.open(root / "config" / "rmqlab.flushed"), lock, AbortFile(root / "abort"),
            )  # fmt: skip
            store._recover()
        except BaseException:
            lock.release()
            raise
        store._abort.create()
        if not store.checkpoint.path.exists():
            store.checkpoint.write(store.checkpoint.packed())
        return store

    def _recover(self) -> None:
        """Load, cut what is torn, enter what queues and index lack (section 3.5)."""
        crashed = self._abort.exists
        log, queues, checkpoint = self.log, self.queues, self.checkpoint
        log.files.load()
        queues.load()
        if self.index is not None:
            self.index.load(safe_until=checkpoint.index_msg_timestamp if crashed else None)
        queues.recover()
        replay_from = 0
        if log.files.files:
            files = log.files.files
            views = [file.view for file in files]
            start = recovery.first_file_after_clean_stop(len(files))
            if crashed:
                safe = checkpoint.safe_timestamp
                if self.config.message_index_safe:
                    safe = min(safe, checkpoint.index_msg_timestamp)
                start = recovery.first_file_after_crash([recovery.FirstRecord.read(view) for view in views], safe)
            offsets = [file.first_offset for file in files]
            end = recovery.log_end(views, offsets, start, check_crc=self.config.check_crc_on_recover)
            log.files.trim(end)
            if queues.max_physical >= end:
                queues.trim_to_log(end)
            replay_from = offsets[start] if crashed else queues.max_physical
        else:
            for topic in {queue.topic for queue in queues}:
                queues.delete(topic)
        queues.correct_min_offsets(log.min_offset)
        for queue in queues:
            queue.flushed = 0 if crashed else queue.files.max_offset
        self.marks.log = self.marks.queues = log.max_offset if not crashed else min(self.marks.log, log.max_offset)
        self._catch_up(replay_from)
        if not crashed:
            self._queues_flushed_at = replay_from
        queues.recover_counters()

    def _catch_up(self, replay_from: int) -> None:
        dispatcher = self.dispatcher
        dispatcher.offset = max(replay_from, self.log.min_offset)
        watcher, dispatcher.on_dispatched = dispatcher.on_dispatched, None  # nobody waits for old messages
        dispatcher.run()
        dispatcher.on_dispatched = watcher
        if self.is_slave:
            self.putter.refusal = "a slave takes no messages but its master's"

    def reconfigure(self, config: StoreConfig) -> None:
        """Go on with other settings. Paths, sizes and delay levels stay as they were at the start, as in RocketMQ."""
        self.config = config
        self.puller = Puller.of(self.log, config, is_slave=self.is_slave)

    def close(self) -> None:
        """A clean stop: all on disk, `abort` removed only if queues and index have everything (store-ha#5)."""
        if self._closed:
            return
        self._closed = True
        self.putter.refusal = "the store is shut down"
        for make_job in (self.flush_job, partial(self.flush_queues_job, everything=True)):
            job = make_job()  # the second writes the checkpoint, which the first moves on
            if job is not None:
                job.run()
                self.flushed(job)
        if self.index is not None:
            self.index.close()
        if self.dispatch_behind_bytes == 0:
            self._abort.remove()
        self.log.files.close()
        self.queues.close()
        self.marks.close()
        self._lock.release()

    # ---- where things stand ------------------------------------------------------------------------------

    @property
    def min_commit_log_offset(self) -> int:
        return self.log.min_offset

    @property
    def max_commit_log_offset(self) -> int:
        return self.log.max_offset

    @property
    def dispatched_offset(self) -> int:
        return self.dispatcher.offset

    @property
    def dispatch_behind_bytes(self) -> int:
        return self.log.max_offset - self.dispatcher.offset

    @property
    def flushed_offset(self) -> int:
        return self.marks.log

    # ---- put, read ---------------------------------------------------------------------------------------

    def put(self, message: NewMessage) -> PutResult:
        """Append one message and enter it in queue and index."""
        return self.putter.put(message)

    def put_batch(self, message: NewMessage, items: Sequence[BatchItem]) -> PutResult:
        """Append several messages at once, all or none. `message` has what they share."""
        return self.putter.put_batch(message, items)

    def write_refused(self) -> str | None:
        """Why a put would be refused now; None if it would not."""
        return self.putter.refusal

    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_nums: int,
        matches: TagsMatch | None = None,
        *,
        property_filter: PropertyFilter | None = None,
    ) -> GetResult:
        """Messages of one queue from `queue_offset` on, within the limits of one pull (section 6.1)."""
        return self.puller.get(
            self.queues.table.get((topic, queue_id)), queue_offset, max_nums, matches, property_filter
        )

    def message_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The whole record at a commit log offset; with `size`, exactly that many bytes."""
        return self.log.record(physical_offset) if size is None else self.log.slice(physical_offset, size)

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Records whose key, or unique key, has this key's hash, stored in [begin, end], oldest first."""
        if self.index is None or not self.index.files:
            return QueryResult([], 0, 0)
        found = self.index.find(f"{topic}#{key}", min(max_num, self.config.max_msgs_num_batch), begin, end)
        records = [self.log.record(offset) for offset in sorted(found)]
        newest = self.index.files[-1]
        return QueryResult(
            [record for record in records if record is not None], newest.end_timestamp, newest.end_physical
        )

    def queue_entries(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Entries of a queue from one on: commit log offset, size, tags code. They end with their file."""
        queue = self.queues.table.get((topic, queue_id))
        raw = queue.entries(queue_offset, count * QUEUE_ENTRY_SIZE) if queue is not None and queue_offset >= 0 else b""
        return list(ENTRY.iter_unpack(raw))

    def topics_queues(self) -> Iterable[tuple[str, int]]:
        return list(self.queues.table)

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.table.get((topic, queue_id))
        return queue.min_offset if queue is not None else 0

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.table.get((topic, queue_id))
        return queue.max_offset if queue is not None else 0

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Queue offset of the message stored at, or nearest to, a time; 0 for an empty queue."""
        queue = self.queues.table.get((topic, queue_id))
        return offset_by_time(queue, self.log, timestamp) if queue is not None else 0

    def message_store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """-1 if there is no such message."""
        entry = self._entry(topic, queue_id, queue_offset)
        return self.log.stored_at(entry[0]) if entry is not None else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        return self.message_store_time(topic, queue_id, self.min_queue_offset(topic, queue_id))

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """By RocketMQ's measure: not too far from the log's end. True, too, for a missing entry."""
        entry = self._entry(topic, queue_id, queue_offset)
        return entry is None or self.log.max_offset - entry[0] <= self.config.near_bytes

    def _entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        queue = self.queues.table.get((topic, queue_id))
        return queue.entry(queue_offset) if queue is not None else None

    # ---- replication -------------------------------------------------------------------------------------

    def read_log(self, offset: int, limit: int) -> memoryview:
        """Readable log bytes from `offset`, never across the end of a file, possibly none."""
        return self.log.read(offset, limit)

    def log_space(self, offset: int, size: int) -> memoryview | None:
        """Where a slave receives `size` bytes of its master's log; then call `log_filled`.

        Creates files as RocketMQ does (section 4.5), also for size 0. None: they do not fit into the file, and
        RocketMQ drops them. Whether `offset` is the next one wanted is for the caller to check. OSError: no room.
        """
        return self.log.stream_space(offset, size)

    def log_filled(self, new_end: int) -> None:
        """The bytes up to `new_end` are in the space given; may be said piece by piece. Dispatch comes later."""
        self.log.stream_filled(new_end)

    def append_raw(self, offset: int, data: bytes | memoryview) -> bool:
        """Both steps at once, for bytes that are elsewhere. False if they do not fit into the file."""
        space = self.log.stream_space(offset, len(data))
        if space is None:
            return False
        space[:] = data
        self.log.stream_filled(offset + len(data))
        return True

    def dispatch(self, max_bytes: int | None = None) -> int:
        """Enter received records in queues and index; answer how many bytes were done. OSError: no room."""
        done = self.dispatcher.run(max_bytes)
        if done and self.is_slave:
            self.checkpoint.physic_msg_timestamp = self.dispatcher.last_stored_at
        return done

    # ---- flush -------------------------------------------------------------------------------------------

    def flush_job(self) -> FlushJob | None:
        """What would make the whole log durable; None if it is. Run it anywhere, then call `flushed`."""
        target = self.log.max_offset
        if target <= self.marks.log:
            return None
        files = [file.sync for file in self.log.files.files if file.end_offset > self.marks.log]
        return FlushJob(target, files, self.putter.last_stored_at or self.dispatcher.last_stored_at)

    def flush_queues_job(self, *, everything: bool = False) -> FlushJob | None:
        """What would make the queues durable, then the checkpoint; None if they are."""
        target = self.dispatcher.offset
        if target == self._queues_flushed_at and not everything:
            return None
        dirty = [queue for queue in self.queues if queue.is_dirty]
        syncs: list[Callable[[], None]] = [file.sync for queue in dirty for file in queue.dirty_files()]
        if self.index is not None:
            full, self.index.full = self.index.full, []
            syncs += [file.file.sync for file in full]
            if everything:
                syncs += [file.file.sync for file in self.index.files]
            if full:
                self.checkpoint.index_msg_timestamp = full[-1].end_timestamp
        self.checkpoint.logics_msg_timestamp = self.dispatcher.last_stored_at or self.checkpoint.logics_msg_timestamp
        syncs.append(partial(self.checkpoint.write, self.checkpoint.packed()))
        return FlushJob(target, syncs, positions=[(queue, queue.files.max_offset) for queue in dirty])

    def flushed(self, job: FlushJob) -> None:
        """A job has run: what it covered is durable now."""
        if job.log_stored_at is None:
            self._queues_flushed_at = self.marks.queues = max(self.marks.queues, job.target)
            for queue, position in job.positions:
                queue.flushed = max(queue.flushed, position)
        else:
            self.marks.log = max(self.marks.log, job.target)
            self.checkpoint.physic_msg_timestamp = max(self.checkpoint.physic_msg_timestamp, job.log_stored_at)
        self.marks.write()

    # ---- cleaning ----------------------------------------------------------------------------------------

    def disk_ratio(self) -> float:
        """Used part of the fuller disk of commit log and queues, from 0 to 1."""
        return self._used_percent() / 100

    def _used_percent(self) -> int:
        root = self.config.store_path_root_dir
        log = self.config.store_path_commit_log
        return max(self.disk.used_percent(root), self.disk.used_percent(log if log.is_dir() else root))

    def delete_expired(self, hour: int, *, by_hand: bool = False) -> list[str]:
        """One round of cleaning, due every 10 s; `hour` is the local one. Answers the commit log files deleted.

        Also decides whether puts are refused because the disk is full, or taken again (store-ha#31).
        """
        used, files = self._used_percent(), self.log.files.files
        # RocketMQ asks the file system when a file was last written. Our clock may be rated, so the first
        # record of the next file tells: both happen in one put.
        written_until = [max(0, self.log.stored_at(following.first_offset)) for following in files[1:]]
        count = cleaning.expired_count(
            written_until, self.config, now=self.now_millis(), hour=hour, used_percent=used, by_hand=by_hand
        )
        deleted = [file.path.name for file in files[:count]]
        for _ in range(count):
            self.log.files.drop_first()
        if count:
            self.queues.delete_expired(self.log.min_offset)
            if self.index is not None:
                self.index.delete_expired(self.log.min_offset)
        self._judge_disk(used)
        return deleted

    def _judge_disk(self, used_percent: int) -> None:
        if self.is_slave or self._closed:
            return
        if used_percent > self.config.disk_space_warning_level_ratio:
            self.putter.refusal = f"the disk of {self.config.store_path_root_dir} is {used_percent} % full"
        elif self.putter.refusal is not None:
            self.putter.refusal = None
            self.putter.catch_up()  # refuses again if there is no room for what is behind

    def delete_topic(self, topic: str) -> None:
        """Drop a topic's queues and their counters; its messages stay in the commit log until they expire."""
        self.queues.delete(topic)
        self.dispatcher.forget_queues()
