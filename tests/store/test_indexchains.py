"""Entries of index files that queries do not reach are found, and no others."""

import struct
from pathlib import Path

import pytest

from rmqlab.store.files.disk import Disk
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.offline import indexchains
from rmqlab.store.offline.indexchains import broken_chains
from rmqlab.store.offline.indexfiles import foreign_indexes
from tests.store.test_sidefiles import index_of, make_store

SLOTS, MOST = 100, 400
ENTRIES_AT = 40 + 4 * SLOTS


def count_of(path: Path) -> int:
    count: int = struct.unpack_from(">i", path.read_bytes(), 36)[0]
    return count


def put(path: Path, at: int, content: bytes) -> None:
    """Overwrite bytes of a file."""
    old = path.read_bytes()
    path.write_bytes(old[:at] + content + old[at + len(content) :])


def test_each_empty_entry_is_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    path = index_of(root)
    intact, count = path.read_bytes(), count_of(path)
    for number in range(1, count):
        path.write_bytes(intact)
        put(path, ENTRIES_AT + 20 * number, bytes(20))
        (line,) = foreign_indexes(root)
        assert "empty" in line or number in (1, count - 1)  # the head has their messages and times


def test_empty_entries_name_the_messages_beside_them(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    path = index_of(root)
    offsets = [struct.unpack_from(">q", path.read_bytes(), ENTRIES_AT + 20 * number + 4)[0] for number in (4, 6)]
    for number in (5, 9):
        put(path, ENTRIES_AT + 20 * number, bytes(20))
    (line,) = foreign_indexes(root)
    beside = " and ".join(f"that of the message at {offset}" for offset in offsets)
    assert f"its entry 5 is empty, as are others, beside {beside}: " in line


def test_each_slot_and_each_link_is_followed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    path = index_of(root)
    intact, count = path.read_bytes(), count_of(path)
    slots = [nth for nth in range(SLOTS) if any(intact[40 + 4 * nth : 44 + 4 * nth])]
    for slot in slots:
        path.write_bytes(intact)
        put(path, 40 + 4 * slot, bytes(4))
        (line,) = foreign_indexes(root)
        assert f"its hash slot {slot} leads to entry 0" in line
    for number in range(1, count):
        path.write_bytes(intact)
        put(path, ENTRIES_AT + 20 * number + 16, struct.pack(">i", 399))
        (line,) = foreign_indexes(root)
        assert f"its entry {number}, of the message at" in line


def test_messages_out_of_order_are_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    path = index_of(root)
    put(path, ENTRIES_AT + 20 * 7 + 4, struct.pack(">q", 1))
    (line,) = foreign_indexes(root)
    assert "its entry 7 is of a message at 1, and the entry before it of one at" in line


def test_an_index_that_a_broker_cut_has_whole_chains(tmp_path: Path) -> None:
    path = index_of(make_store(tmp_path / "a", "A"))
    for kept in range(count_of(path) - 1, 1, -3):
        file = IndexFile.open(path, SLOTS, MOST, Disk(), create=False)
        file.cut(struct.unpack_from(">q", path.read_bytes(), ENTRIES_AT + 20 * kept + 4)[0])
        file.file.close()
        assert list(broken_chains(path, SLOTS, count_of(path))) == []


def test_of_a_long_file_only_empty_entries_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexchains, "_MOST_FOLLOWED", 10)
    monkeypatch.setattr(indexchains, "_CHUNK", 60)
    path = index_of(make_store(tmp_path / "a", "A"))
    put(path, 40, bytes(4 * SLOTS))
    assert list(broken_chains(path, SLOTS, count_of(path))) == []
    put(path, ENTRIES_AT + 20 * 7, bytes(20))
    (line,) = broken_chains(path, SLOTS, count_of(path))
    assert "its entry 7 is empty" in line
