"""The message store of one broker: put, read, replicate, flush, recover.

No function here waits or reads a clock. All calls must be made in one thread, except `FlushJob.run` and its steps.
Returned memoryviews point into mapped files: use them within the same pass of the event loop, because a later pass may
delete the file.
"""

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable
from typing import Self

import attrs

from rmqlab.remoting.batch import Batch, ReceivedBatch
from rmqlab.remoting.message import NewMessage
from rmqlab.remoting.steps import run_to_end
from rmqlab.store.cleaner import Cleaner
from rmqlab.store.config import QUEUE_ENTRY_SIZE, StoreConfig
from rmqlab.store.dispatch import Dispatcher, DispatchObserver
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.lock import AbortFile, StoreLock
from rmqlab.store.flush import MARKS_FILE, FlushedMarks, Flusher, FlushJob
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keysearch import search_by_key
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.logkind import PLAIN_LOG, LogKind, Recover
from rmqlab.store.pull import MOST_EXAMINED, PropertyFilter, Puller, TagsMatch
from rmqlab.store.put import Putter
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.queue.queueends import save_queue_ends
from rmqlab.store.queue.queues import Queues
from rmqlab.store.queue.timesearch import offset_by_time
from rmqlab.store.queueentries import QueueEntries
from rmqlab.store.results import GetResult, PutResult, QueryResult

logger = logging.getLogger(__name__)

SLAVE_REFUSAL = "a slave accepts no sends, only its master does"


@attrs.define(eq=False)
class MessageStore:
    """One broker's store, open. `open` makes it."""

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
    flusher: Flusher
    cleaner: Cleaner
    _lock: StoreLock
    _abort: AbortFile
    _closed: bool = attrs.field(default=False, init=False)

    # ---- opening and closing -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        now_millis: Callable[[], int],
        is_slave: bool = False,
        observer: DispatchObserver | None = None,
        disk: Disk | None = None,
        log_kind: LogKind = PLAIN_LOG,
        on_progress: Callable[[int], object] = lambda _offset: None,
        on_queue: Callable[[], object] = lambda: None,
    ) -> Self:
        """Lock, map, recover, and dispatch to the log's end.

        StoreLocked, StoreCorrupt or OSError if that fails. On a full disk the store opens and refuses puts.
        `on_progress` gets the commit log offset that recovery has reached, and `on_queue` is called at each step.
        """
        root, disk = config.store_path_root_dir, disk or Disk()
        for directory in (root, config.store_path_commit_log, root / "consumequeue"):
            disk.make_directory(directory)
        lock, marks, store = StoreLock.acquire(root / "lock", disk), None, None
        try:
            log = log_kind.make_log(config, disk)
            queues = Queues(root / "consumequeue", config.mapped_file_size_consume_queue, disk)
            index = None
            if config.message_index_enable:
                index = Index(root / "index", config.max_hash_slot_num, config.max_index_num, disk, now_millis)
            checkpoint = Checkpoint.load(root / "checkpoint", disk)
            marks = FlushedMarks.open(root / MARKS_FILE, disk)
            dispatcher = Dispatcher(log, QueueEntries(log, queues, config.delay_millis, is_slave), index, observer)
            putter = log_kind.putter(config, log, queues, index, dispatcher, now_millis)
            store = cls(
                config, now_millis, is_slave, disk, log, queues, index, checkpoint, dispatcher, putter,
                Puller.of(log, config, is_slave=is_slave), Flusher(log, queues, index, checkpoint, marks),
                Cleaner(config, log, queues, index, putter, disk, now_millis, is_slave), lock,
                AbortFile(root / "abort", disk),
            )  # fmt: skip
            store._recover(log_kind.recover, on_progress, on_queue)
            dispatcher.is_observed = observer is not None
            store._abort.create()
        except BaseException:
            if store is not None:
                store._release()
            else:
                if marks is not None:
                    marks.close()
                lock.release()
            raise
        with contextlib.suppress(OSError):  # a full disk: the first flush that can writes it
            if not disk.exists(checkpoint.path):
                checkpoint.write()
        return store

    def _recover(self, recover: Recover, on_progress: Callable[[int], object], on_queue: Callable[[], object]) -> None:
        """Load the files, truncate torn records, dispatch missing ones (section 3.5)."""
        crashed, log, queues = self._abort.exists, self.log, self.queues
        claim, indexed = CompletenessClaim(self.checkpoint, self._abort), 0
        log.load()
        queues.load(on_queue)
        if self.index is not None:
            indexed = self.index.load(claim, crashed=crashed)
        found = recover(
            log, queues, claim, self.config, on_progress, crashed=crashed, indexed=indexed, on_recovered=on_queue
        )
        index_from = found.index_from
        if self.index is not None:
            index_from = self.index.cut_to_log(log.max_offset, index_from)
        queues.correct_min_offsets(log.min_offset)
        for queue in queues:
            queue.flushed = 0 if crashed else queue.files.max_offset
        self.flusher.begin(log.max_offset, found.queues_from, crashed=crashed)
        self.dispatcher.last_stored_at = found.last_stored_at
        try:
            self.dispatcher.catch_up(found.queues_from, index_from, on_progress)
            queues.end_rebuild(log)
        except OSError as problem:  # a full disk: dispatched messages are served
            self.dispatcher.last_stored_at = 0
            self.putter.no_room(problem)
        queues.recover_counters()
        if self.is_slave:
            self.putter.refusal = SLAVE_REFUSAL

    def reconfigure(self, config: StoreConfig) -> None:
        """Replace settings, except paths, file sizes and delay levels, as RocketMQ does."""
        self.config = self.cleaner.config = config
        self.putter.reconfigure(config)
        self.puller = Puller.of(self.log, config, is_slave=self.is_slave)

    def set_role(self, *, is_slave: bool) -> None:
        """Accept or refuse puts: for a group member whose role changes."""
        self.is_slave = self.cleaner.is_slave = is_slave
        self.putter.refusal = SLAVE_REFUSAL if is_slave else None
        self.cleaner.check_disk()
        self.puller = Puller.of(self.log, self.config, is_slave=is_slave)

    def close(self) -> None:
        """Stop cleanly: flush all, remove `abort` if the store is complete (store-ha#5).

        If not, or if the disk is full or fails, `abort` stays: the next start recovers as after a crash. No OSError.
        """
        if self._closed:
            return
        self._closed = True
        self.putter.refusal = "the store is shut down"
        try:
            self._finish()
        except OSError as exc:
            logger.error("%s could not be flushed: %s", self.config.store_path_root_dir, exc)  # noqa: TRY400 - the disk's fault, not the code's
        finally:
            self._release()

    def _finish(self) -> None:
        """Index and flush the rest. OSError if the disk fails."""
        self.dispatcher.enter_index()
        while (job := self.flush_job()) is not None:  # several, where a sync failed before
            job.run()
            self.flushed(job)
        job = self.flush_queues_job(at_stop=True)  # writes the checkpoint, which those before moved on
        if job is not None:
            job.run()
            self.flushed(job)
        is_whole = self.dispatch_behind_bytes == 0 and not self.queues.stuck and not self.flusher.is_index_unsafe
        if is_whole and not self.cleaner.is_disk_full:
            save_queue_ends(self.config.store_path_root_dir, self.queues, self.log.max_offset)
            self._abort.remove()

    def _release(self) -> None:
        """Release mappings, descriptors and the lock."""
        try:
            if self.index is not None:
                self.index.close()
            self.log.close()
            self.queues.close()
        finally:
            self.flusher.marks.close()
            self._lock.release()

    # ---- offsets ------------------------------------------------------------------------------------------

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
    def indexed_offset(self) -> int:
        return self.dispatcher.indexed

    @property
    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log that queues or index lack."""
        return self.log.max_offset - self.dispatcher.indexed

    @property
    def flushed_offset(self) -> int:
        return self.flusher.marks.log

    @property
    def flush_error(self) -> str:
        """Why the last flush of the log failed; empty if it did not."""
        return self.flusher.error

    # ---- put, read ---------------------------------------------------------------------------------------

    def put(self, message: NewMessage) -> PutResult:
        """Append one message and enter it in queue and index."""
        result = self.putter.append(message)
        self.enter_appended()
        return result

    def append(self, message: NewMessage) -> PutResult:
        """Append one message to the log only; `enter_appended` must follow."""
        return self.putter.append(message)

    def append_batch(self, message: NewMessage, batch: Batch | ReceivedBatch) -> PutResult:
        """Append all of several messages or none; `message` has shared fields."""
        return self.putter.append_batch(message, batch)

    def enter_appended(self) -> None:
        """Enter appended messages in queues and index.

        If the disk has no room, later puts are refused (section 3.9).
        """
        self.putter.catch_up()

    def put_batch(self, message: NewMessage, batch: Batch | ReceivedBatch) -> PutResult:
        """Append and enter all of several messages, or none."""
        result = self.putter.append_batch(message, batch)
        self.enter_appended()
        return result

    def write_refused(self) -> str | None:
        """Return why puts are refused now; None if they are accepted."""
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
        max_examined: int = MOST_EXAMINED,
    ) -> GetResult:
        """Return messages of a queue, within the limits of one pull (section 6.1)."""
        queue = self.queues.table.get((topic, queue_id))
        return self.puller.get(queue, queue_offset, max_nums, matches, property_filter, max_examined)

    def message_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """Return a whole record, of `size` bytes if given; None without one."""
        return self.log.record(physical_offset) if size is None else self.log.slice(physical_offset, size)

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Return messages by a key's hash, if indexed."""
        return run_to_end(self.search(topic, key, max_num, begin, end))

    def search(self, topic: str, key: str, max_num: int, begin: int, end: int) -> Generator[None, None, QueryResult]:
        """Return the same as `query`, in many steps (`rmqlab.store.keysearch`)."""
        limit = min(max_num, self.config.max_msgs_num_batch)
        return search_by_key(self.index, self.log, f"{topic}#{key}", limit, begin, end)

    def queue_entries(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Entries from one to its file's end: log offset, size, tags code."""
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
        """Offset of the message nearest to a store time, 0 for an empty queue."""
        queue = self.queues.table.get((topic, queue_id))
        return offset_by_time(queue, self.log, timestamp) if queue is not None else 0

    def message_store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """-1 if there is no such message."""
        entry = self._entry(topic, queue_id, queue_offset)
        return self.log.stored_at(entry[0]) if entry is not None else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        return self.message_store_time(topic, queue_id, self.min_queue_offset(topic, queue_id))

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """True near the log's end by RocketMQ's measure, or without an entry."""
        entry = self._entry(topic, queue_id, queue_offset)
        return entry is None or self.log.max_offset - entry[0] <= self.config.near_bytes

    def _entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        queue = self.queues.table.get((topic, queue_id))
        return queue.entry(queue_offset) if queue is not None else None

    # ---- replication -------------------------------------------------------------------------------------

    def read_log(self, offset: int, limit: int) -> memoryview:
        """Readable log bytes from `offset`, never across the end of a file, possibly none."""
        recent = self.putter.recent.read(offset, limit, self.log.max_offset)
        return self.log.read(offset, limit) if recent is None else recent

    def append_raw(self, offset: int, data: bytes | memoryview) -> bool:
        """Append a piece of the master's log, without dispatch.

        Creates files as RocketMQ does (section 4.5), also for an empty piece. False if it does not fit into the file:
        RocketMQ drops it. The caller checks that `offset` is the log's end. Errors as `CommitLog.append_stream`.
        """
        return self.log.append_stream(offset, data)

    def dispatch(self, max_bytes: int | None = None, *, may_index: bool = True) -> int:
        """Enter received records in queues and index; return the bytes done.

        With `max_bytes`, call it until it returns 0: of a bulk, the index is entered last (see `Dispatcher.step`), and
        only if it `may`. OSError: no room.
        """
        done = self.dispatcher.run() if max_bytes is None else self.dispatcher.step(max_bytes, may_index=may_index)
        if done and self.is_slave:
            self.checkpoint.physic_msg_timestamp = self.dispatcher.last_stored_at
        return done

    # ---- flush -------------------------------------------------------------------------------------------

    def flush_job(self) -> FlushJob | None:
        """Return a job (any thread) to sync the log, or None; then call `flushed`."""
        return self.flusher.log_job(self.putter.last_stored_at or self.dispatcher.last_stored_at)

    def flush_queues_job(self, *, least_pages: int = 0, at_stop: bool = False) -> FlushJob | None:
        """Return a job that makes the queues durable, then the checkpoint.

        None if they are. `least_pages`: only of queues that have grown by so many, and no checkpoint (section 3.6).
        """
        dispatched, stored_at = self.dispatcher.offset, self.dispatcher.last_stored_at
        held_from = self.queues.write_held()
        if held_from is not None:  # after a crash, the start must not believe that the queues have more
            dispatched, stored_at = min(dispatched, held_from), 0
        return self.flusher.queues_job(dispatched, stored_at, least_pages=least_pages, at_stop=at_stop)

    def flushed(self, job: FlushJob) -> None:
        """Note a job that succeeded: its range is durable now."""
        self.flusher.done(job)

    # ---- cleaning ----------------------------------------------------------------------------------------

    def check_disk(self) -> None:
        """Refuse puts on a full disk, or accept them again; due every 10 s (store-ha#31)."""
        if not self._closed:
            self.cleaner.check_disk()

    def deletion_of_expired(self, hour: int) -> DiskCalls[list[str]]:
        """Yield the calls of `Cleaner.deletion_of_expired`; due every 10 s."""
        return [] if self._closed else (yield from self.cleaner.deletion_of_expired(hour))

    def delete_topic(self, topic: str) -> None:
        """Drop a topic's queues; its messages stay in the log until they expire."""
        self.queues.delete(topic)
        self.dispatcher.forget_queues()
