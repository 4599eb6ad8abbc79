"""Journals that are read while they grow."""

import pathlib

import pytest

from rmqlab.runtime.journals import journaltail
from rmqlab.runtime.journals.journalentry import pack_entry
from rmqlab.runtime.journals.journaltail import JournalTail
from tests.runtime.journalentries import entry, write


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
