"""Truncations whose disk fails, or loses power after them."""

import contextlib
import itertools
import random
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from tests.dledger.volatiledisk import SECTOR, VolatileDisk
from tests.store.failingdisk import FailingDisk

DATA_FILE = 2048
INDEX_FILE = 16 * 32
BODY = bytes(80)
"""Four entries are a sector."""


def new_store(root: Path, disk: FailingDisk | VolatileDisk) -> EntryStore:
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)
    for _ in range(20):
        store.append(1, BODY)
    return store


@pytest.mark.parametrize("index", [0, 5, 15, 16, 19])
@pytest.mark.parametrize("is_own", [True, False])
def test_a_truncation_that_fails_leaves_a_log_that_goes_on(tmp_path: Path, index: int, *, is_own: bool) -> None:
    """At each call that can fail: the log has no entry that was cut."""
    for number in itertools.count():
        disk = FailingDisk()
        store = new_store(tmp_path / str(number), disk)
        entry = store.get(index) if is_own else attrs.evolve(store.get(index), term=2, body=b"other")
        disk.fails_at = len(disk.names) + number
        with contextlib.suppress(OSError):
            store.truncate(entry)
        is_cut_only = store.end_index == index - 1
        assert store.end_index == index or (is_cut_only and not is_own)
        assert store.end_index == -1 or store.get(store.end_index).end == store.data.max_offset
        if len(disk.names) <= disk.fails_at:
            break
        store.truncate(entry)
        assert store.append(2, BODY) == following(entry)
        store.unmap()
        again = EntryStore.open(tmp_path / str(number), DATA_FILE, INDEX_FILE)
        assert [again.get(at) for at in (index, index + 1)] == [entry, following(entry)]
        again.unmap()


def following(before: Entry) -> Entry:
    """The entry that a leader of term 2 appends behind another one."""
    is_first = before.end % DATA_FILE + 48 + len(BODY) + 8 > DATA_FILE
    pos = before.end + DATA_FILE - before.end % DATA_FILE if is_first else before.end
    return Entry(index=before.index + 1, term=2, pos=pos, body=BODY)


def test_entries_that_were_cut_do_not_return_after_a_power_loss(tmp_path: Path) -> None:
    """One of their size follows. Its sector is written, those behind it are not."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = new_store(tmp_path, disk)
    store.flush()
    store.truncate(store.get(2))
    entry = store.append(1, bytes([1]) * len(BODY))
    assert entry.end == SECTOR
    path = store.data.files[0].path
    written = path.read_bytes()
    store.unmap()
    disk.lose_power(tmp_path)
    path.write_bytes(written[:SECTOR] + path.read_bytes()[SECTOR:])
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert store.end_index == 3
    assert store.get(3) == entry
