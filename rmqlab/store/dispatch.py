"""Dispatch: writes queue and index entries for records of the log (section 3.4).

Used for a master's puts, for a slave's received log, and at a start for records that a crash left undispatched. Batches
are the exception: `Putter` writes their entries. `rmqlab.store.queueentries` makes the queue entries of records.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from rmqlab.store.batches.keyreader import KeyReader
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexkeys import KeyCollector
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queueentries import QueueEntries


class DispatchObserver(Protocol):
    """Receives the messages that have been entered in their queues."""

    def messages_dispatched(
        self, topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int], store_timestamp: int, /
    ) -> None:
        """Receive consecutive messages of a queue, the first at `queue_offset`.

        `tags_codes` has a code per message. In the schedule topic, these are times of delivery, in ms, as
        `store_timestamp` is.
        """


_CHUNK: Final = 1 << 20  # bytes between two writes of the collected entries
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
    entries: QueueEntries
    index: Index | None
    observer: DispatchObserver | None = None
    is_observed: bool = attrs.field(default=False, init=False)
    """False during recovery, because no client waits for old messages, and on slaves without a waiting client."""
    offset: int = attrs.field(default=0, init=False)  # everything before is in the queues
    indexed: int = attrs.field(default=0, init=False)  # everything before is in the index, too
    index_wanted: int = attrs.field(default=0, init=False)  # a query waits for the index to reach this offset
    _unindexed: int = attrs.field(default=0, init=False)  # approximate number of queue entries that the index lacks
    last_stored_at: int = attrs.field(default=0, init=False)
    _keys: KeyReader = attrs.field(factory=KeyReader, init=False)

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
        limit, entered = min(self.log.max_offset, start + max_bytes), self.entries.count
        while self.offset < limit:
            file = self.log.file_from(self.offset)
            if file is None:
                break
            self.offset = max(self.offset, file.first_offset)
            keys = KeyCollector() if may_index and self.index and self.indexed == self.offset else None
            until = min(limit, self.offset + _CHUNK)
            reached, stored_at, arrivals = self.entries.enter(
                file, self.offset, until, keys, is_observed=self.is_observed
            )
            self.last_stored_at = stored_at or self.last_stored_at
            if reached == self.offset:
                break
            self.offset = reached
            if self.index is None:
                self.indexed = reached
            if self.observer is not None:
                for arrival in arrivals:
                    self.observer.messages_dispatched(*arrival)
            if self.index is not None and keys is not None:
                if entries := keys.entries():
                    self.index.put(entries)
                self.indexed = reached
        self._unindexed = self._unindexed + self.entries.count - entered if self.is_index_behind else 0
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
        self.entries.forget_queues()
