"""Written journals: order, torn tails, full disks."""

import errno
import os
import pathlib

import pytest

from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalreader import read_journal, scan_journal
from rmqlab.runtime.journals.journalwriter import JournalWriter
from tests.runtime.journalentries import SENT, entry, write


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
