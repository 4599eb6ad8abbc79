"""Deletes expired files, and refuses puts while the disk is too full.

Sources: sections 3.7 and 3.9.
"""

import logging
from collections.abc import Callable

import attrs

from rmqlab.store import retention as cleaning
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.keyindex.index import Index
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.put import Putter
from rmqlab.store.queue.queues import Queues

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Cleaner:
    """Checks the disk and deletes files for one store; a loop of the broker calls it."""

    config: StoreConfig
    log: CommitLog
    queues: Queues
    index: Index | None
    putter: Putter
    disk: Disk
    now_millis: Callable[[], int]
    is_slave: bool
    is_disk_full: bool = attrs.field(default=False, init=False)
    """RocketMQ's flag of this name. Used in both roles; while it is set, a stop keeps `abort`."""
    _rounds_by_hand: int = attrs.field(default=0, init=False)
    _cleaned_below: int = attrs.field(default=0, init=False)
    _is_refused: bool = attrs.field(default=False, init=False)
    _seen_at: dict[int, int] | None = attrs.field(default=None, init=False)
    """By first offset of a file: when a check first found it, in ms; 0 for files of the first check."""

    def used_percent(self) -> int:
        """Used percent of the fuller disk of commit log and queues."""
        root, log = self.config.store_path_root_dir, self.config.store_path_commit_log
        return max(self.disk.used_percent(root), self.disk.used_percent(log))  # -1 for one that is missing

    def check_disk(self) -> None:
        """Refuse puts while disk use is above the warning level (store-ha#31)."""
        self._note_files()
        used = self.used_percent()
        self.log.note_used(used)
        was_full, self.is_disk_full = self.is_disk_full, used > self.config.disk_space_warning_level_ratio
        if self.is_disk_full != was_full:
            what = "no more puts" if self.is_disk_full else "puts are taken again"
            logger.warning(
                "the disk of %s is %d %% full: %s (disk_space_warning_level_ratio = %d)",
                self.config.store_path_root_dir, used, what, self.config.disk_space_warning_level_ratio,
            )  # fmt: skip
        if self.is_slave:
            return
        if self.is_disk_full:
            self.putter.refusal = f"the disk of {self.config.store_path_root_dir} is {used} % full"
        elif self.putter.refusal is not None:
            self.putter.refusal = None
            self.putter.catch_up()  # refuses again if the disk has no room for pending entries
            self.queues.recover_counters()  # a start on a full disk could not recover all of them

    def delete_by_hand(self) -> None:
        """Let the next rounds delete expired files at any hour (request of an operator)."""
        self._rounds_by_hand = cleaning.ROUNDS_BY_HAND

    def deletion_of_expired(self, hour: int) -> DiskCalls[list[str]]:
        """Delete expired files once; `hour` is the local hour.

        Return the names of the commit log files deleted. The store may be used between two calls.

        Never raises OSError: if the disk refuses to delete a file, the next round tries again, as in RocketMQ.
        """
        self._note_files()
        files, now = self.log.all_files, self.now_millis()
        count = cleaning.expired_count(
            [self._begun_at(following, now) for following in files[1:]],
            self.config,
            now=now,
            hour=hour,
            used_percent=self.used_percent(),
            by_hand=self._rounds_by_hand > 0,
            extra_hours=self.log.extra_hours,
        )
        count = min(count, self.log.droppable)
        self._rounds_by_hand = max(0, self._rounds_by_hand - 1)
        deleted, refusals, missed = list[str](), list[OSError](), list[OSError]()
        for _ in range(count):
            if not self.log.droppable:  # a slave was reset meanwhile
                break
            name = self.log.all_files[0].path.name
            if (yield from _attempt(self.log.deletion_of_first(), refusals)):
                deleted.append(name)
        log_min = self.log.min_offset
        if log_min > self._cleaned_below:
            pointing_there = [queue.deletion_of_expired(log_min) for queue in self.queues]
            if self.index is not None:
                pointing_there.append(self.index.deletion_of_expired(log_min))
            for deletion in pointing_there:
                yield from _attempt(deletion, missed)
            self._cleaned_below = self._cleaned_below if missed else log_min
            refusals += missed
        if refusals and not self._is_refused:  # once, not each 10 s
            logger.warning("%d files are not deleted, tried again and again: %s", len(refusals), refusals[0])
        self._is_refused = bool(refusals)
        return deleted

    def _note_files(self) -> None:
        seen, now = self._seen_at, self.now_millis()
        self._seen_at = {
            file.first_offset: 0 if seen is None else seen.get(file.first_offset, now) for file in self.log.all_files
        }

    def _begun_at(self, file: LogFile, now: int) -> int:
        """Return when a file got its first record, and the one before it its last.

        RocketMQ uses the modification time of the latter. Our clock may be rated, so the store time of the first record
        is used: one put writes both. Without such a record, the file has just been created. A slave uses the time at
        which it found the file, unless that was at its start: its master's clock may be wrong, or its log old.
        """
        if self.is_slave and self._seen_at is not None and (seen_at := self._seen_at.get(file.first_offset)):
            return seen_at
        stored_at = self.log.stored_at(file.first_offset + self.log.entry_header_size(file))
        return stored_at if stored_at >= 0 else now


def _attempt(deletion: DiskCalls[object], refusals: list[OSError]) -> DiskCalls[bool]:
    """Yield the calls of a deletion; True if the disk made all of them.

    Add its error to `refusals`.
    """
    try:
        yield from deletion
    except OSError as exc:
        refusals.append(exc)
        return False
    return True
