"""Entries at the end of a log whose header is whole and whose body is not."""

from pathlib import Path

import pytest

from rmqlab.dledger.entry import HEADER
from rmqlab.dledger.entrystore import EntryStore

DATA_FILE = 1024
INDEX_FILE = 16 * 32
ENTRIES = 12
"""Three files of four."""


def body_of(number: int) -> bytes:
    return b"whole %03d" % number + b"x" * 180


def open_small(directory: Path) -> EntryStore:
    return EntryStore.open(directory, DATA_FILE, INDEX_FILE, is_whole=lambda body: bytes(body[:5]) == b"whole")


def lose_bodies(directory: Path, numbers: range) -> None:
    """As a power loss does that keeps the headers' blocks."""
    store = open_small(directory)
    for number in range(ENTRIES):
        store.append(1 + number // 5, body_of(number))
    store.commit(ENTRIES - 1)
    places = [store.get(number).pos for number in numbers]
    store.close()
    for place in places:
        path = directory / "data" / f"{place - place % DATA_FILE:020d}"
        raw = bytearray(path.read_bytes())
        at = place % DATA_FILE + HEADER.size
        raw[at : at + len(body_of(0))] = bytes(len(body_of(0)))
        path.write_bytes(raw)


@pytest.mark.parametrize("lost", [1, 2, 3, 4, 5, 9, ENTRIES])
def test_the_last_entries_without_a_whole_body_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    """With them a member could lead, and replace the right entries of the others."""
    lose_bodies(tmp_path, range(ENTRIES - lost, ENTRIES))
    kept = ENTRIES - lost
    for _ in range(2):
        store = open_small(tmp_path)
        assert store.end_index == kept - 1
        assert store.end_term == (1 + (kept - 1) // 5 if kept else -1)
        assert [store.get(number).body for number in range(kept)] == [body_of(number) for number in range(kept)]
        assert store.committed_index == kept - 1
        store.close()
    assert f"entry {ENTRIES - 1} has no whole body: it is dropped" in caplog.text
    store = open_small(tmp_path)
    for number in range(kept, ENTRIES):
        assert store.append(9, body_of(number)).index == number
    store.close()
    store = open_small(tmp_path)
    assert [store.get(number).body for number in range(ENTRIES)] == [body_of(number) for number in range(ENTRIES)]
    store.close()


def test_an_entry_in_the_middle_is_kept_as_it_is(tmp_path: Path) -> None:
    """Bodies are not read: a start would take as long as reading three files of 1 GB."""
    lose_bodies(tmp_path, range(4, 6))
    store = open_small(tmp_path)
    assert store.end_index == ENTRIES - 1
    store.close()
