import errno
import os
import pathlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.journals import journaltail
from rmqlab.runtime.journals.journal import (
    JournalEntry,
    JournalWriter,
    merge_entries,
    pack_entry,
    read_journal,
    read_journals,
    scan_journal,
)
from rmqlab.runtime.journals.journaltail import JournalTail

SENT = {"topic": "orders", "outcome": "SEND_OK", "began_at": 0}


def entry(number: int, node: str = "broker-a") -> JournalEntry:
    return JournalEntry(number, node, "sent", {"number": number, **SENT})


def write(path: pathlib.Path, *entries: JournalEntry) -> None:
    writer = JournalWriter(path)
    for it in entries:
        writer.append(it)
    writer.close()


def test_written_entries_are_readable_and_private_to_the_owner(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker-a.msgpack"
    writer = JournalWriter(path)
    writer.append(entry(1))
    assert list(read_journal(path)) == []
    writer.flush()
    assert list(read_journal(path)) == [entry(1)]
    writer.append(entry(2))
    writer.close()
    writer.append(entry(3))
    writer.close(entry(4))
    assert list(read_journal(path)) == [entry(1), entry(2)]
    again = JournalWriter(path)
    again.close(entry(5))
    assert list(read_journal(path)) == [entry(1), entry(2), entry(5)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_tail_is_passed_over_and_cut_off_by_the_next_writer(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker-a.msgpack"
    whole = pack_entry(entry(1)) + pack_entry(entry(2))
    tails = [pack_entry(entry(3))[:cut] for cut in range(len(pack_entry(entry(3))))]
    for tail in (*tails, b"\xc1garbage", b"\0" * 4096, b"\x93\1\2\3"):
        path.write_bytes(whole + tail)
        assert list(read_journal(path)) == [entry(1), entry(2)]
        write(path, entry(4))
        assert list(read_journal(path)) == [entry(1), entry(2), entry(4)]


def test_the_next_writer_keeps_an_entry_with_an_invalid_value(tmp_path: pathlib.Path) -> None:
    """Such as one of an altered journal: it must not vanish."""
    path = tmp_path / "produce-1.msgpack"
    write(path, entry(1), JournalEntry(2, "broker-a", "sent", {**SENT, "offset": 1.5}))
    size = path.stat().st_size
    write(path, entry(3))
    assert path.stat().st_size > size
    with path.open("rb") as file:
        kinds = [type(found).__name__ for found in scan_journal(file.fileno())]
    assert kinds == ["tuple", "Torn", "tuple"]


def test_a_full_disk_delays_entries_and_does_not_tear_the_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer, real, room = JournalWriter(tmp_path / "a.msgpack"), os.write, 10

    def write_some(file: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room = room, 0
        return real(file, bytes(data)[:taken])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        for number in range(3):
            writer.append(entry(number))
            writer.flush()
    writer.close()
    assert list(read_journal(tmp_path / "a.msgpack")) == [entry(0), entry(1), entry(2)]
    assert caplog.text.count("No space left on device") == 1


def test_a_disk_that_stays_full_costs_entries_but_not_memory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JournalWriter, "MAX_PENDING", 100)
    writer = JournalWriter(tmp_path / "a.msgpack")
    for number in range(1000):
        writer.append(entry(number))
    writer.close()
    kept = list(read_journal(tmp_path / "a.msgpack"))
    assert 0 < len(kept) < 10
    assert kept == [entry(number) for number in range(len(kept))]


def test_types_unsupported_by_msgpack_are_written_as_text(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.msgpack", JournalEntry(1, "a", "ready", {"path": pathlib.Path("/x"), "by_id": {3: None}}))
    (read,) = read_journal(tmp_path / "a.msgpack")
    assert read.fields == {"path": "/x", "by_id": {3: None}}


@given(st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=4))
def test_journals_are_merged_by_time_and_each_keeps_its_order(times: list[list[int]]) -> None:
    journals = [
        [JournalEntry(at, f"n{node}", "sent", {"turn": turn}) for turn, at in enumerate(sorted(ats))]
        for node, ats in enumerate(times)
    ]
    merged = merge_entries(*journals)
    assert [it.at_millis for it in merged] == sorted(at for ats in times for at in ats)
    for node, entries in enumerate(journals):
        assert [it for it in merged if it.node == f"n{node}"] == entries


def test_a_directory_is_read_as_one_journal(tmp_path: pathlib.Path) -> None:
    assert read_journals(tmp_path / "none") == []
    write(tmp_path / "a.msgpack", entry(1, "a"), entry(4, "a"))
    write(tmp_path / "cluster.msgpack", entry(2, "a"), entry(4, ""))
    write(tmp_path / "b.msgpack", entry(3, "b"))
    assert read_journals(tmp_path) == [entry(1, "a"), entry(2, "a"), entry(3, "b"), entry(4, "a"), entry(4, "")]


def test_a_tail_returns_new_entries_across_any_chunk_boundaries(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journaltail, "READ_BYTES", 7)
    tail = JournalTail(tmp_path)
    assert tail.read_new() == []
    data = b"".join(pack_entry(entry(number)) for number in range(5))
    got = []
    with (tmp_path / "a.msgpack").open("ab", buffering=0) as file:
        for start in range(0, len(data), 10):
            file.write(data[start : start + 10])
            got += tail.read_new()
    assert got == [entry(number) for number in range(5)]
    write(tmp_path / "b.msgpack", entry(9, "b"))
    assert tail.read_new() == [entry(9, "b")]
    assert tail.read_new() == []
    tail.close()


@pytest.mark.parametrize(
    "garbage", [b"\xdd\xff\xff\xff\xff" * 500, pack_entry(entry(2)).replace(b"sent", b"\xff\xff\xff\xff")]
)
def test_a_garbled_journal_is_read_up_to_there(tmp_path: pathlib.Path, garbage: bytes) -> None:
    path = tmp_path / "broker-a.msgpack"
    path.write_bytes(pack_entry(entry(1)) + garbage)
    assert list(read_journal(path)) == [entry(1)]
    assert read_journals(tmp_path) == [entry(1)]


@pytest.mark.parametrize("columns", [{"at": "now"}, {"kind": 7}, {"node": None}, {"fields": []}])
def test_an_entry_whose_columns_have_other_types_is_not_read(
    tmp_path: pathlib.Path, columns: dict[str, object]
) -> None:
    good = {"v": 1, "at": 1, "node": "broker-a", "kind": "sent", "fields": SENT}
    (tmp_path / "broker-a.msgpack").write_bytes(pack_entry(entry(1)) + msgpack.packb(good | columns))
    assert read_journals(tmp_path) == [entry(1)]
