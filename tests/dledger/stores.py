"""Entry stores that a test leaves open, as a killed member does."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.diskcalls import run_calls


def truncate(store: EntryStore, entry: Entry) -> None:
    """Make a leader's entry the last one, as a follower does. OSError."""
    is_own = store.cut_at(entry)
    run_calls(store.completion_of_cut())
    if not is_own:
        store.place(entry)


def fastest_place() -> Path | None:
    """Return a directory in memory, if there is one.

    On a busy disk, the syncs of a group take minutes.
    """
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


@contextlib.contextmanager
def unmapped_at_end() -> Iterator[None]:
    """Unmap all stores that are opened inside, without a last write.

    Each mapped file holds a descriptor of the process, and the tests that follow need some of their own.
    """
    opened: list[EntryStore] = []
    open_store = EntryStore.open

    def open_noted(*args: Any, **kwargs: Any) -> EntryStore:
        store = open_store(*args, **kwargs)
        opened.append(store)
        return store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntryStore, "open", open_noted)
        try:
            yield
        finally:
            for store in opened:
                store.data.close()
                store.index.close()
