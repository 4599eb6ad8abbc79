"""Simulates a power loss on the store of a killed process; empties a store.

A killed process loses no bytes, because the page cache survives it; a power loss also loses all unsynced bytes. The
marks in `config/rmqlab.flushed` (see flush.py) record what was synced; all bytes after them are zeroed, as they read
after a crash in files that never reached the disk. Index files are left alone: an abnormal start drops the young one
anyway. So are the JSON files: they are replaced by renaming, and file systems write renamed files to disk.
"""

import shutil
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.config import QUEUE_ENTRY_SIZE, StoreConfig
from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.files.lock import StoreLock
from rmqlab.store.files.sparse import zero_from
from rmqlab.store.flush import MARKS_FILE, FlushedMarks
from rmqlab.store.log.loglayout import files_in, log_directory
from rmqlab.store.offline.queuefile import count_until, last_end, queue_files, written_count, written_part

_FOLDERS: Final = ("commitlog", "consumequeue", "consumequeue_ext", "index", "config")
_FILES: Final = ("checkpoint", "abort", "lock")


@attrs.frozen
class Lost:
    """The data lost by the power loss."""

    flushed: int = 0
    """Commit log offset up to which everything was on disk, and still is."""
    log_bytes: int = 0
    """Bytes lost after that offset, up to the end of the last queued message or the last byte that was not zero."""
    messages: int = 0
    """Lost messages that had a queue entry. Their record may begin before the flushed offset."""
    queue_entries: int = 0
    """Lost queue entries of any message; a start restores those whose message still exists."""


def lose_unsynced(config: StoreConfig) -> Lost:
    """Erase the unsynced bytes of a store. A missing or wiped store is no error.

    StoreLocked while a process still has the store; StoreError for a store without marks of what was synced, such as a
    real broker's.
    """
    root = config.store_path_root_dir
    if not any(path.exists() for path in _folders(config)):
        return Lost()
    lock, disk = StoreLock.acquire(root / "lock"), Disk()
    try:
        if not (root / MARKS_FILE).exists():
            raise StoreError(f"{root} has no {MARKS_FILE}, which records what was synced")
        marks = FlushedMarks.open(root / MARKS_FILE)
        marks.close()
        end = marks.log
        messages = entries = 0
        for path in queue_files(root):
            raw = written_part(path)
            written = written_count(raw)
            end = max(end, last_end(raw))
            messages += written - count_until(raw, lambda offset, size: offset + size > marks.log)
            kept = count_until(raw, lambda offset, _: offset >= marks.queues)
            entries += written - kept
            if kept < written:
                zero_from(path, kept * QUEUE_ENTRY_SIZE, disk)
        for path in files_in(_log_directory(config)):
            first = int(path.name)
            end = max(end, first + zero_from(path, max(0, marks.log - first), disk))
    finally:
        lock.release()
    return Lost(marks.log, end - marks.log, messages, entries)


def _log_directory(config: StoreConfig) -> Path:
    place = log_directory(config.store_path_root_dir)
    return place if place.name == "data" else config.store_path_commit_log


def has_store(config: StoreConfig) -> bool:
    """Return True if there is something to wipe."""
    return any(path.exists() for path in _folders(config)) or any(
        (config.store_path_root_dir / name).exists() for name in _FILES
    )


def _folders(config: StoreConfig) -> set[Path]:
    """Return the folders of a store, those of a DLedger member included."""
    root = config.store_path_root_dir
    return {config.store_path_commit_log, *(root / name for name in _FOLDERS), *root.glob("dledger-*")}


def wipe_store(config: StoreConfig) -> int:
    """Delete all files of a store, and no others; return their number.

    StoreLocked while a process still has the store.
    """
    root = config.store_path_root_dir
    if not has_store(config):
        return 0
    root.mkdir(parents=True, exist_ok=True)
    lock = StoreLock.acquire(root / "lock")
    try:
        deleted = 0
        for folder in _folders(config):
            if folder.is_dir():
                deleted += sum(path.is_file() for path in folder.rglob("*"))
                shutil.rmtree(folder)
        for name in _FILES:
            deleted += (root / name).exists()
            (root / name).unlink(missing_ok=True)
    finally:
        lock.release()
    return deleted
