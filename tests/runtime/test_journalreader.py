"""Journals that are read: merged, garbled, with columns of other types."""

import pathlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalreader import merge_entries, read_journal, read_journals
from tests.runtime.journalentries import SENT, entry, write


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
