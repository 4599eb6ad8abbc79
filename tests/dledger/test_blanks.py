"""Blanks at the end of a data file whose next entry was not written.

A smaller entry may follow, which fits into the file. Members without the blank have it there.
"""

import itertools
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.codes import DLedgerError
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.diskcalls import run_calls
from tests.store.failingdisk import FailingDisk

DATA_FILE = 1024
INDEX_FILE = 16 * 32
BEFORE = 700
"""Bytes of the first body. Behind it, `LARGE` does not fit into the file, and `SMALL` does."""
LARGE, SMALL = 400, 100


def new_store(root: Path, disk: FailingDisk | None = None) -> EntryStore:
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)
    store.append(1, bytes(BEFORE))
    return store


def test_a_blank_whose_entry_fails_is_taken_back(tmp_path: Path) -> None:
    """At each call of the disk that can fail."""
    for number in itertools.count():
        disk = FailingDisk()
        store = new_store(tmp_path / str(number), disk)
        end = store.data.max_offset
        disk.fails_at = len(disk.names) + number
        try:
            store.append(1, bytes(LARGE))
        except OSError:
            assert (store.data.max_offset, store.index.max_offset, store.end_index) == (end, 32, 0)
            run_calls(store.completion_of_cut())
            assert store.append(1, bytes(SMALL)).pos == end
            store.unmap()
            assert EntryStore.open(tmp_path / str(number), DATA_FILE, INDEX_FILE).end_index == 1
        else:
            break
    assert number > 4


def test_a_start_drops_a_blank_at_the_end(tmp_path: Path) -> None:
    """As after a power loss, which costs the next file its first entry."""
    store = new_store(tmp_path)
    end = store.data.max_offset
    store.append(1, bytes(LARGE))
    path = store.data.files[1].path
    store.close()
    path.write_bytes(bytes(DATA_FILE))
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert store.data.max_offset == end
    assert store.append(1, bytes(SMALL)).pos == end


def test_a_follower_leaves_the_room_that_its_leader_left(tmp_path: Path) -> None:
    """DLedger keeps a blank without an entry.

    Its followers then reject all that follows (414).
    """
    store = new_store(tmp_path)
    entry = Entry(index=1, term=1, pos=DATA_FILE, body=bytes(SMALL))
    for pos in (DATA_FILE - 8, 2 * DATA_FILE):
        with pytest.raises(DLedgerError, match="DISK_ERROR"):
            store.append_entry(attrs.evolve(entry, pos=pos))
    store.append_entry(entry)
    store.close()
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert store.get(1) == entry
    store.close()


def test_a_follower_leaves_no_more_room_than_the_largest_entry_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blank is written as a whole, and a file has 1 GB."""
    monkeypatch.setattr("rmqlab.dledger.entrystore.MAX_ENTRY", 200)
    store = new_store(tmp_path)
    with pytest.raises(DLedgerError, match="DISK_ERROR"):
        store.append_entry(Entry(index=1, term=1, pos=DATA_FILE, body=bytes(SMALL)))
