"""Entries at the end of a log whose header is whole and whose body is not."""

from pathlib import Path

import pytest

from rmqlab.dledger.entry import HEADER, EntryHeader
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.recovery import BodyChecks

DATA_FILE = 1024
INDEX_FILE = 16 * 32
ENTRIES = 12
"""Three files of four."""


def body_of(number: int) -> bytes:
    return b"whole %03d" % number + b"x" * 180


def is_whole(body: memoryview) -> bool:
    return bytes(body[:5]) == b"whole"


def is_torn(view: memoryview, at: int, header: EntryHeader) -> bool:
    return not is_whole(view[at + HEADER.size : at + header.size])


def open_small(directory: Path, synced_end: int = 2**62) -> EntryStore:
    checks = BodyChecks(is_whole, is_torn, synced_end)
    return EntryStore.open(directory, DATA_FILE, INDEX_FILE, checks=checks)


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


@pytest.mark.parametrize("synced", range(ENTRIES))
def test_a_torn_entry_that_was_not_synced_ends_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, synced: int
) -> None:
    """A disk may write the entries behind it first: with it, the member could lead."""
    lose_bodies(tmp_path, range(8, 9))
    place = open_small(tmp_path).get(synced).pos
    store = open_small(tmp_path, place)
    is_found = synced <= 8
    assert store.end_index == (7 if is_found else ENTRIES - 1)
    assert ("entry 8 is torn: the log ends before it" in caplog.text) is is_found
    store.close()


def test_a_synced_entry_in_the_middle_is_kept_as_it_is(tmp_path: Path) -> None:
    """Its body is not read: a start would take as long as reading three files of 1 GB."""
    lose_bodies(tmp_path, range(4, 6))
    store = open_small(tmp_path)
    assert store.end_index == ENTRIES - 1
    store.close()
