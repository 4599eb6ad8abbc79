"""Truncations of a process that ends at each call of its disk.

It is killed, or its machine loses power.
"""

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.stores import fastest_place, truncate
from tests.store.forgetfuldisk import ForgetfulDisk, Forgets, Killed, forgets_all, forgets_odd

DATA_FILE = 2048
INDEX_FILE = 16 * 32
BODY = bytes(80)
OLD, NEW = 1, 2
"""Terms of the leaders before and after the cut."""
Loss = tuple[Forgets, bool] | None
"""What a power loss forgets, and whether it keeps names of files; None: the process is killed."""


@attrs.define(eq=False)
class RenamingDisk(ForgetfulDisk):
    """A file that was synced before it is renamed keeps its content."""

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if (content := self._synced.pop(source, None)) is not None:
            self._synced[target] = content


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """Return a directory in memory if possible: hundreds of stores are made."""
    with tempfile.TemporaryDirectory(dir=fastest_place()) as name:
        yield Path(name)


@pytest.mark.parametrize("loss", [None, (forgets_all, True), (forgets_all, False), (forgets_odd, False)])
@pytest.mark.parametrize(("index", "is_own"), [(5, True), (15, True), (0, False), (15, False)])
def test_entries_that_were_cut_never_follow_new_ones(quick_path: Path, index: int, loss: Loss, *, is_own: bool) -> None:
    """Synced entries stay, and none of the new leader counts as committed."""
    for number in itertools.count():
        root = quick_path / str(number)
        disk, store = filled(root)
        entry = store.get(index) if is_own else attrs.evolve(store.get(index), term=NEW, body=b"other")
        disk.fails_at = len(disk.names) + number
        synced: list[Entry] = []
        with contextlib.suppress(Killed):
            store.lower_commit(index if is_own else -1)
            truncate(store, entry)
            for _ in range(2):
                added = [store.append(NEW, BODY) for _ in range(5)]
                store.flush()
                synced += added
        is_killed, disk.fails_at = len(disk.names) > disk.fails_at, -1
        store.unmap()
        if loss is not None:
            disk.lose_power(loss[0], keeps_names=loss[1])
        check(root, synced)
        shutil.rmtree(root)
        if not is_killed:
            break
    assert number > 20


def filled(root: Path) -> tuple[ForgetfulDisk, EntryStore]:
    """Return a store whose 20 entries are committed and on disk."""
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE)
    for _ in range(20):
        store.append(OLD, BODY)
    store.commit(19)
    store.close()
    disk = RenamingDisk(root=root)
    return disk, EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)


def check(root: Path, synced: list[Entry]) -> None:
    """Check the log that a start finds."""
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE)
    terms = [store.get(index).term for index in range(max(0, store.begin_index), store.end_index + 1)]
    assert terms == sorted(terms)
    assert [store.get(entry.index) for entry in synced] == synced
    if NEW in terms:
        assert store.committed_index < store.begin_index + terms.index(NEW)
    run_calls(store.completion_of_cut())
    store.unmap()
