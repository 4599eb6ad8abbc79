"""Fixed scripts of a master and a slave, played by a sweep on a failing disk."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.remoting.message import decode_message
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.configfile import keep_config_file, on_disk, save_config_file
from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutResult
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import deletion_of_all, save_from, truncate

_HOURS: Final = 3_600_000


def sweep_config(root: Path) -> StoreConfig:
    """Files so small that each life rolls all of them."""
    return small_config(
        root,
        mapped_file_size_commit_log=8192,
        mapped_file_size_consume_queue=10 * 20,
        max_hash_slot_num=20,
        max_index_num=30,
    )


@attrs.define(eq=False)
class Workload:
    """A master's life: puts, batches, roll-over, flush, dispatch, index, recovery.

    It also cleans, stops in order and is killed. Where the store may raise OSError by its contract, the caller goes on
    as a broker does; anywhere else it is a bug.
    """

    root: Path
    disk: Disk
    clock: ManualClock = attrs.field(factory=lambda: ManualClock(step=7))
    acknowledged: dict[bytes, PutResult] = attrs.field(factory=dict)
    """What a put said PUT_OK to, by body."""
    saved: int = 0
    """The last version of `saved.json` whose save succeeded."""
    kept: int = 0
    """The last version of `kept.json` that a table in memory has."""
    _sent: int = 0

    @property
    def config_dir(self) -> Path:
        return self.root / "config"

    def run(self) -> None:
        with on_disk(self.disk):
            self._life(self._busy, MessageStore.close)
            self._life(self._busy, kill)
            self._life(self._idle, MessageStore.close)

    def _life(self, work: Callable[[MessageStore], None], end: Callable[[MessageStore], None]) -> None:
        self._save_tables()
        try:
            store = self.open()
        except (StoreError, OSError):
            return
        try:
            work(store)
        finally:
            end(store)

    def open(self) -> MessageStore:
        return MessageStore.open(sweep_config(self.root), now_millis=self.clock, disk=self.disk)

    def _busy(self, store: MessageStore) -> None:
        for part in range(3):
            for _ in range(8):
                self._put(store)
            self._put_batch(store)
            attempt_flush(store)
            attempt_queue_flush(store, 0 if part else 1)
            store.check_disk()
            self._save_tables()
        self._query(store)
        self.clock.now += 100 * _HOURS
        store.cleaner.delete_by_hand()
        run_calls(store.deletion_of_expired(4))
        store.check_disk()
        self._put(store)
        store.delete_topic("gone")

    def _idle(self, store: MessageStore) -> None:
        self._query(store)
        self._put(store)

    def _put(self, store: MessageStore) -> None:
        self._sent += 1
        body = b"%06d" % self._sent * 60
        topic = "gone" if self._sent % 9 == 0 else "orders"
        message = new_message(body, topic, self._sent % 2, keys=f"k{self._sent}", tags="a")
        self._note(body, store.put(message), topic)

    def _put_batch(self, store: MessageStore) -> None:
        first = self._sent + 1
        self._sent += 3
        bodies = [b"%06d" % number * 50 for number in range(first, self._sent + 1)]
        result = store.put_batch(new_message(), Batch.of([BatchItem(body, b"KEYS\x01b", 0) for body in bodies]))
        if result.is_stored:
            for body, physical in zip(bodies, result.physical_offsets or [], strict=True):
                self.acknowledged[body] = PutResult(result.status, physical, result.end_offset, result.queue_offset)
                result.queue_offset += 1

    def _note(self, body: bytes, result: PutResult, topic: str) -> None:
        if result.is_stored and topic != "gone":
            self.acknowledged[body] = result

    def _query(self, store: MessageStore) -> None:
        for number in range(1, self._sent, 5):
            for buffer in store.query("orders", f"k{number}", 32, 0, 2**62).buffers:
                assert decode_message(buffer).properties["KEYS"] == f"k{number}"

    def _save_tables(self) -> None:
        version = max(self.saved, self.kept) + 1
        try:
            save_config_file(self.config_dir / "saved.json", b"%020d" % version)
        except OSError:
            pass
        else:
            self.saved = version
        keep_config_file(self.config_dir / "kept.json", b"%020d" % version)
        self.kept = version


def kill(store: MessageStore) -> None:
    """What the kernel does for a killed process: close all, flush nothing."""
    store._closed = True
    store._release()


def attempt_flush(store: MessageStore) -> None:
    """As a broker's loop: a job that fails is dropped."""
    job = store.flush_job()
    if job is not None:
        _attempt(job.run, lambda: store.flushed(job))


def attempt_queue_flush(store: MessageStore, least_pages: int) -> None:
    job = store.flush_queues_job(least_pages=least_pages)
    if job is not None:
        _attempt(job.run, lambda: store.flushed(job))


def _attempt(action: Callable[[], object], then: Callable[[], object] = lambda: None) -> None:
    try:
        action()
    except OSError:
        return
    then()


@attrs.define(eq=False)
class SlaveWorkload:
    """A hardened slave's life: it follows, is truncated, is reset, and follows again."""

    root: Path
    disk: Disk
    master: MessageStore
    clock: ManualClock = attrs.field(factory=lambda: ManualClock(step=7))

    def run(self) -> None:
        try:
            slave = self.open()
        except (StoreError, OSError):
            return
        try:
            end = self.master.max_commit_log_offset
            self._follow(slave, end)
            common = self.master.queues.record_before(end * 2 // 3)
            assert common is not None
            _attempt(partial(self._diverge, slave, sum(common)))
            self._follow(slave, end)
            _attempt(lambda: run_calls(deletion_of_all(slave)))
            self._follow(slave, end // 2)
        finally:
            slave.close()

    def open(self) -> MessageStore:
        return MessageStore.open(sweep_config(self.root), now_millis=self.clock, disk=self.disk, is_slave=True)

    def _follow(self, slave: MessageStore, end: int) -> None:
        """Take the master's bytes in frames, as the stream brings them.

        One that fails ends the connection.
        """
        for _ in range(2):
            _attempt(partial(self._receive, slave, end))
            attempt_flush(slave)
            attempt_queue_flush(slave, 0)

    def _receive(self, slave: MessageStore, end: int) -> None:
        while (at := slave.max_commit_log_offset) < end:
            assert slave.append_raw(at, self.master.read_log(at, 1000))
            slave.dispatch()

    def _diverge(self, slave: MessageStore, common: int) -> None:
        if common < slave.max_commit_log_offset:
            save_from(slave, common)
            truncate(slave, common)
