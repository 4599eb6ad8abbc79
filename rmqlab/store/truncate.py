"""Truncates or empties a store: for a slave whose log contradicts its master's.

RocketMQ 4.9 never does (section 4.9).
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.messagestore import MessageStore

_SAVE_STEP: Final = 1 << 20


def truncate(store: MessageStore, log_end: int) -> None:
    """Truncate the log at `log_end`, which must be the start of a record.

    The cut bytes are zeroed, so that a restart finds the log's end there. A file that the disk does not delete counts
    as empty. OSError if a queue's file cannot be opened: the log is not truncated then, and dispatch enters the dropped
    entries again.
    """
    forget_from(store, log_end)
    store.log.cut(log_end)


def forget_from(store: MessageStore, log_end: int) -> None:
    """Drop queue and index entries from `log_end` on. OSError as `truncate`."""
    last = store.queues.record_before(log_end)
    _lower_checkpoint(store, max(0, store.log.stored_at(last[0])) if last is not None else 0)
    store.putter.recent.clear()
    store.dispatcher.cut(log_end)
    try:
        store.queues.trim_to_log(log_end)
    finally:
        store.flusher.cut(log_end)
    store.queues.recover_counters()
    if store.index is not None:
        store.index.cut(log_end)


def _lower_checkpoint(store: MessageStore, stored_at: int) -> None:
    """Lower the times known to be on disk to that of the last message left.

    `stored_at` is its store time, in ms. The file is written at once: the log may grow by
    messages with earlier times than it had, and after a power loss, a start would not look for their entries.
    """
    store.dispatcher.last_stored_at = min(store.dispatcher.last_stored_at, stored_at)
    store.checkpoint.lower(stored_at)
    store.flusher.save_checkpoint()


def save_from(store: MessageStore, offset: int) -> Path | None:
    """Save the log's bytes from `offset` on to a file; None if there are none.

    `truncate` erases them next, so the file is on disk when this returns. It is in `diverged/` below the root, which
    RocketMQ ignores, and its name has offset and time. Raises OSError, which leaves no file.
    """
    if offset >= store.log.max_offset:
        return None
    directory = store.config.store_path_root_dir / "diverged"
    store.disk.make_directory(directory)
    path = directory / f"{offset:020d}.{store.now_millis()}"
    try:
        with store.disk.opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
            _copy_log(store, max(offset, store.log.min_offset), descriptor)
            store.disk.sync(descriptor)
        for changed in (directory, directory.parent):
            store.disk.sync_directory(changed)
    except OSError:
        with contextlib.suppress(OSError):
            store.disk.unlink(path)  # a partial file uses space and would mislead operators
        raise
    return path


def _copy_log(store: MessageStore, start: int, descriptor: int) -> None:
    at = start
    while block := store.log.read(at, _SAVE_STEP):
        store.disk.allocate(descriptor, at - start, len(block))
        at += store.disk.write(descriptor, block, at - start)


def deletion_of_all(store: MessageStore, on_emptied: Callable[[], object] = lambda: None) -> DiskCalls[None]:
    """Yield the calls that empty the log, the oldest file first.

    Queues and index are dropped with the last one. For a slave whose master no longer has the bytes that follow its
    log. The store may be read between two calls, as one whose files expire. `on_emptied` is called when the log has
    lost its last file. OSError if the disk does not delete a file of the log: the store is left with a log that begins
    later.
    """

    index_files: list[LogFile] = []

    def forget_if_empty() -> None:
        if not store.log.files.files:
            on_emptied()
            index_files.extend(forget_all(store))

    if not store.log.files.files:
        forget_if_empty()
    while store.log.files.files:
        yield from store.log.files.deletion_of_first(forget_if_empty)
    for file in index_files:
        yield file.discard


def forget_all(store: MessageStore) -> list[LogFile]:
    """Drop queues and index, because the log is empty and begins again.

    Return the files of the index, for the caller to discard: deleting one of 400 MB takes long.
    """
    store.putter.recent.clear()
    store.queues.delete_all()
    index_files = store.index.detach_all() if store.index is not None else []
    store.dispatcher.reset_store()
    store.flusher.cut(0)
    _lower_checkpoint(store, 0)
    return index_files
