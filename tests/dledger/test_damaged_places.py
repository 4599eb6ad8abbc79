"""Damage in parts of a log that recovery does not read.

The first files, and the index units of their entries.
"""

from pathlib import Path

import pytest

from rmqlab.dledger.codes import DLedgerError
from rmqlab.dledger.entry import UNIT
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.files.diskcalls import run_calls

DATA_FILE = 1024
INDEX_FILE = 16 * 32
INDEX_AT = 8
"""Position of the index in an entry's header."""
SIZE_AT = 12
"""Position of the size in an index unit."""
DAMAGES = [2**40, 2**62, -1]


def six_files(root: Path) -> tuple[list[Path], list[Path]]:
    """Return the data files and the index files of a log that was closed."""
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE)
    while len(store.data.files) < 6:
        store.append(1, bytes(100))
    paths = [file.path for file in store.data.files], [file.path for file in store.index.files]
    store.close()
    return paths


def overwrite(path: Path, at: int, raw: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(raw)] = raw
    path.write_bytes(content)


@pytest.mark.parametrize("number", DAMAGES)
def test_a_start_names_a_first_file_with_a_wrong_index(tmp_path: Path, number: int) -> None:
    """Index files before the begin are deleted, so the damage would cost all of them."""
    (first, *_), index = six_files(tmp_path)
    overwrite(first, INDEX_AT, number.to_bytes(8, "big", signed=True))
    with pytest.raises(StoreCorrupt, match=f"{first} begins with entry {number} of a log that ends with 30: restore"):
        EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert all(path.exists() for path in index)


@pytest.mark.parametrize("number", [*DAMAGES, 0])
def test_a_file_is_not_deleted_if_the_next_one_has_a_wrong_index(tmp_path: Path, number: int) -> None:
    (first, second, *_), _ = six_files(tmp_path)
    overwrite(second, INDEX_AT, number.to_bytes(8, "big", signed=True))
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    with pytest.raises(OSError, match=f"begins with entry {number}, expected a later one: '{second}'"):
        run_calls(store.deletion_of_first_file())
    assert first.exists()
    assert (store.begin_index, store.get(0).index) == (0, 0)


@pytest.mark.parametrize("size", [0, 3, 47, 2**31 - 1, -1])
def test_an_index_unit_with_a_wrong_size_has_no_entry(tmp_path: Path, size: int) -> None:
    """Any other error would stop the elector of a leader, too."""
    _, (first, *_) = six_files(tmp_path)
    overwrite(first, 2 * UNIT.size + SIZE_AT, size.to_bytes(4, "big", signed=True))
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    with pytest.raises(DLedgerError, match="DISK_ERROR"):
        store.get(2)
