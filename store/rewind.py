"""Forget what was stored: for a slave whose log contradicts its master's. RocketMQ 4.9 never does (section 4.9)."""

from pathlib import Path
from typing import Final

from store.messagestore import MessageStore

_SAVE_STEP: Final = 1 << 20


def truncate(store: MessageStore, log_end: int) -> None:
    """Forget the log from here on, which must be where a record begins.

    What is cut is zeroed: a restart would take it for the log's end.
    """
    store.log.cut(log_end)
    store.queues.trim_to_log(log_end)
    store.queues.recover_counters()
    if store.index is not None:
        store.index.cut(log_end)
    store.dispatcher.cut(log_end)
    store.flusher.cut(log_end)


def save_from(store: MessageStore, offset: int) -> Path | None:
    """Keep what `truncate` is about to forget: a file of the log's bytes from `offset` on. None if there are none.

    It lies in `diverged/` below the root, where RocketMQ does not look, and is named by offset and time.
    """
    if offset >= store.log.max_offset:
        return None
    directory = store.config.store_path_root_dir / "diverged"
    directory.mkdir(exist_ok=True)
    path = directory / f"{offset:020d}.{store.now_millis()}"
    with path.open("wb") as file:
        at = max(offset, store.log.min_offset)
        while block := store.log.read(at, _SAVE_STEP):
            file.write(block)
            at += len(block)
    return path


def start_anew(store: MessageStore) -> None:
    """Forget the whole log, its queues and its index: for a slave whose master no longer has what follows it."""
    store.log.files.destroy()
    store.queues.delete_all()
    if store.index is not None:
        store.index.destroy()
    store.dispatcher.start_anew()
    store.flusher.cut(0)
