"""The index after a power loss."""

import random
from pathlib import Path

from rmqlab.dledger.entrystore import EntryStore
from tests.dledger.volatiledisk import VolatileDisk

DATA_FILE = 1024
"""It has four entries. A start reads three such files, and what is wrong in their units it makes again."""
INDEX_FILE = 16 * 32
COUNT = 24
"""Entries in six data files and in one and a half of the index."""


def body_of(number: int) -> bytes:
    return b"%03d" % number + bytes(187)


def check_after_power_loss(root: Path, disk: VolatileDisk, store: EntryStore) -> None:
    store.unmap()
    disk.lose_power(root)
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)
    assert [store.get(number).body for number in range(2 * COUNT)] == [body_of(number) for number in range(2 * COUNT)]
    store.unmap()


def test_a_flush_syncs_all_files_with_new_units(tmp_path: Path) -> None:
    """After its disk had failed, a member has more than two."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    store.append(1, body_of(0))
    store.flush()
    for number in range(1, 2 * COUNT):
        store.append(1, body_of(number))
    store.flush()
    check_after_power_loss(tmp_path, disk, store)


def test_a_flush_syncs_no_files_without_new_units(tmp_path: Path) -> None:
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    for number in range(COUNT - 1):
        store.append(1, body_of(number))
    store.flush()
    store.append(1, body_of(COUNT - 1))
    assert store.grown_files(store.synced_end) == [store.data.files[-1], store.index.files[-1]]
    store.close()


def test_an_index_that_a_start_makes_again_is_synced(tmp_path: Path) -> None:
    """A broker's next flush begins behind the data that it knows to be synced."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    for number in range(COUNT):
        store.append(1, body_of(number))
    store.flush()
    store.unmap()
    for path in (tmp_path / "index").iterdir():
        disk.unlink(path)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    store.synced_end = store.data.max_offset
    for number in range(COUNT, 2 * COUNT):
        store.append(1, body_of(number))
    store.flush()
    check_after_power_loss(tmp_path, disk, store)
