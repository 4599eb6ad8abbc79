"""Play a power loss on a store whose process was killed: what was never synced is gone.

A killed process loses nothing, for the page cache outlives it. Its machine would. The marks in
`config/rmqlab.flushed` (see flush.py) say what was synced; all beyond is zeroed, as files that never reached
the disk read after a crash. Index files are left alone: an abnormal start drops the young one anyway.
"""

from pathlib import Path
from typing import Final

import attrs

from store.config import QUEUE_ENTRY_SIZE, StoreConfig
from store.consumequeue import ENTRY
from store.flush import FlushedMarks
from store.lock import AbortFile, StoreLock

_BLOCK: Final = 1 << 20


@attrs.frozen
class Lost:
    """What the power loss took."""

    log_bytes: int  # of the commit log, counted to the last byte that was not zero
    queue_entries: int


def lose_unsynced(config: StoreConfig) -> Lost:
    """Erase what was not synced. StoreLocked while a process still has the store."""
    root = config.store_path_root_dir
    lock = StoreLock.acquire(root / "lock")
    try:
        marks = FlushedMarks.open(root / "config" / "rmqlab.flushed")
        marks.close()
        log_bytes = 0
        for path in _files(config.store_path_commit_log):
            log_bytes += _zero_from(path, max(0, marks.log - int(path.name)))
        entries = 0
        for queue_dir in (root / "consumequeue").glob("*/*"):
            entries += sum(_zero_entries(path, marks.queues) for path in _files(queue_dir))
        AbortFile(root / "abort").create()
    finally:
        lock.release()
    return Lost(log_bytes, entries)


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.isdigit()) if directory.is_dir() else []


def _zero_from(path: Path, start: int) -> int:
    """Zero a file from a position on; answer how many bytes lay between it and the last that was not zero."""
    lost = 0
    with path.open("r+b") as file:
        file.seek(start)
        at = start
        while block := file.read(_BLOCK):
            kept = len(block.rstrip(b"\0"))
            if kept:
                lost = at + kept - start
                file.seek(at)
                file.write(bytes(kept))
                file.seek(at + len(block))
            at += len(block)
    return lost


def _zero_entries(path: Path, synced: int) -> int:
    """Zero the entries of records from `synced` on; answer how many."""
    raw = path.read_bytes()
    for at in range(0, len(raw), QUEUE_ENTRY_SIZE):
        physical_offset, size, _ = ENTRY.unpack_from(raw, at)
        if size <= 0:
            return 0
        if physical_offset >= synced and size != 0x7FFFFFFF:
            return -(-_zero_from(path, at) // QUEUE_ENTRY_SIZE)
    return 0
