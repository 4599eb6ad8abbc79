"""Damaged journals (cut, garbled, thinned, shuffled), and surveys of their bytes."""

import collections
import itertools
import json
import math
import os
import pathlib
import re

import attrs
import pytest

from rmqlab.runtime.journals.journalentry import CLOSED, JournalEntry, opened, pack_entry
from rmqlab.runtime.journals.journalreader import Torn, scan_journal
from rmqlab.runtime.journals.journalsurvey import (
    Break,
    JournalSurvey,
    join_surveys,
    survey_journals,
    survey_of_fields,
    survey_range,
)
from rmqlab.runtime.journals.journalwriter import JournalWriter


def entry(number: int, kind: str = "sent") -> JournalEntry:
    place = {"topic": "orders", "broker": "broker-a", "queue": 0, "offset": number, "max_offset": number}
    return JournalEntry(
        number, "produce-1", kind, {"number": number, "group": "shop", "began_at": 0, "outcome": "refused"} | place
    )


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A journal of 20 entries, of a process that ended in good order."""
    path = tmp_path / "produce-1.msgpack"
    writer = JournalWriter(path)
    for number in range(1, 20):
        writer.append(entry(number))
    writer.close(entry(20, CLOSED))
    return path


def packed(number: int) -> bytes:
    return pack_entry(entry(number, CLOSED if number == 20 else "sent"), number)


def survey(path: pathlib.Path) -> JournalSurvey:
    journals, (found,) = survey_journals(path.parent)
    assert len(journals[0]) == found.entries
    return found


def test_a_whole_journal_has_nothing_to_say(path: pathlib.Path) -> None:
    found = survey(path)
    assert (found.entries, found.breaks, found.torn_bytes, found.tail_bytes) == (20, [], 0, 0)
    assert found.is_numbered
    assert found.is_closed
    assert found.kinds == {"sent": 19, CLOSED: 1}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([*range(3, 21)], [(1, 3)]),
        ([*range(1, 5), *range(8, 21)], [(5, 8)]),
        ([*range(1, 5), 4, *range(5, 21)], [(5, 4)]),
        ([1, 3, 2, *range(4, 21)], [(2, 3), (4, 2), (3, 4)]),
        ([*range(1, 11), *range(6, 21)], [(11, 6)]),
    ],
    ids=["begin cut", "middle removed", "one repeated", "two exchanged", "five repeated"],
)
def test_entries_that_do_not_count_on_are_named(
    path: pathlib.Path, kept: list[int], expected: list[tuple[int, int]]
) -> None:
    path.write_bytes(b"".join(map(packed, kept)))
    found = survey(path)
    assert [(one.expected, one.found) for one in found.breaks] == expected
    assert found.is_closed


def test_a_cut_at_an_entry_leaves_the_journal_open(path: pathlib.Path) -> None:
    path.write_bytes(b"".join(map(packed, range(1, 15))))
    found = survey(path)
    assert found.breaks == []
    assert not found.is_closed


def test_a_torn_tail_is_not_damage_in_the_middle(path: pathlib.Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:-3])
    found = survey(path)
    assert found.tail_bytes == len(raw) - len(b"".join(map(packed, range(1, 20)))) - 3
    assert found.torn_bytes == 0
    assert not found.is_closed


@pytest.mark.parametrize("garbage", [b"\xc1" * 9, b"\0" * 9, b"\xdb\x7f\xff\xff\xff", b"\x85\xa1v\x03\xa2at\xc1"])
def test_reading_continues_behind_garbage(path: pathlib.Path, garbage: bytes) -> None:
    raw = bytearray(path.read_bytes())
    at = len(b"".join(map(packed, range(1, 8))))
    raw[at : at + len(garbage)] = garbage
    path.write_bytes(raw)
    found = survey(path)
    assert found.entries == 19
    assert found.torn == [Torn(at, len(packed(8)))]
    assert found.breaks == [Break(at + len(packed(8)), 8, 9)]
    assert found.is_closed


def test_ranges_say_together_what_the_file_says(path: pathlib.Path) -> None:
    raw = bytearray(b"".join(map(packed, [*range(1, 5), *range(8, 21)])))
    raw[300:420] = b"\xc1" * 120
    path.write_bytes(raw + b"\x85torn")
    whole = survey(path)
    for step in (40, 97, 350, 5000):
        parts = []
        for begin in range(0, len(raw) + 5, step):
            part = JournalSurvey(process="produce-1", size=len(raw) + 5, begin=begin)
            with path.open("rb") as file:
                collections.deque(survey_range(file.fileno(), part, begin + step), maxlen=0)
            parts.append(survey_of_fields(json.loads(json.dumps(part.as_fields()))))
        assert join_surveys(reversed(parts)) == [whole]


def restarted(path: pathlib.Path) -> None:
    """Write a journal of three starts, of which the second was killed."""
    for start in range(3):
        writer = JournalWriter(path)
        writer.begin(opened(start, "produce-1", "a1"))
        for number in range(10):
            writer.append(entry(number))
        writer.close(entry(20, CLOSED) if start != 1 else None)


def ranges(path: pathlib.Path, step: int) -> JournalSurvey:
    """Survey a journal in ranges of `step` bytes."""
    size, parts = path.stat().st_size, []
    for begin in range(0, size, step):
        part = JournalSurvey(process="produce-1", size=size, begin=begin)
        with path.open("rb") as file:
            collections.deque(survey_range(file.fileno(), part, begin + step), maxlen=0)
        parts.append(survey_of_fields(json.loads(json.dumps(part.as_fields()))))
    (joined,) = join_surveys(parts)
    return joined


@pytest.mark.parametrize("step", [40, 97, 350, 5000])
def test_a_survey_finds_an_altered_entry_of_each_start_that_ended_in_order(path: pathlib.Path, step: int) -> None:
    path.unlink()
    restarted(path)
    raw = path.read_bytes()
    assert not survey(path).is_altered
    assert ranges(path, step) == survey(path)
    for start, is_seen in ((1, True), (2, False), (3, True)):
        at = [found.start() for found in re.finditer(rb"\xa6number\x05", raw)][start - 1] + 7
        path.write_bytes(raw[:at] + b"\x04" + raw[at + 1 :])
        assert survey(path).is_altered is is_seen
        assert ranges(path, step).is_altered is is_seen


def _entries(path: pathlib.Path) -> list[tuple[int, int]]:
    """Return begin and size of each entry."""
    with path.open("rb") as file:
        begins = [found[0] for found in scan_journal(file.fileno(), 0, None) if not isinstance(found, Torn)]
    return [(at, after - at) for at, after in itertools.pairwise([*begins, path.stat().st_size])]


@pytest.mark.parametrize("step", [40, 350, 5000])
@pytest.mark.parametrize("how", ["garbled", "removed", "repeated"])
@pytest.mark.parametrize(("damaged", "is_seen"), [(5, True), (15, True), (26, False), (33, False), (None, True)])
def test_damage_in_one_start_hides_no_altered_entry_of_another(
    path: pathlib.Path, *, how: str, damaged: int | None, is_seen: bool, step: int
) -> None:
    """Entries 0 to 11 are of the first start, 12 to 22 of the one that was killed."""
    path.unlink()
    restarted(path)
    raw, entries = bytearray(path.read_bytes()), _entries(path)
    assert len(entries) == 35
    at, size = entries[31]
    raw[at : at + size] = bytes(raw[at : at + size]).replace(b"\xa6number\x07", b"\xa6number\x04")
    if damaged is not None:
        at, size = entries[damaged]
        piece = bytes(raw[at : at + size])
        raw[at : at + size] = {"garbled": b"\xc1" * size, "removed": b"", "repeated": piece * 2}[how]
    path.write_bytes(raw)
    assert survey(path).is_altered is is_seen
    assert ranges(path, step).is_altered is is_seen


def test_a_start_without_its_first_entry_is_not_called_altered(path: pathlib.Path) -> None:
    path.unlink()
    restarted(path)
    raw, entries = path.read_bytes(), _entries(path)
    at, size = entries[23]
    path.write_bytes(raw[:at] + raw[at + size :])
    assert not survey(path).is_altered


def test_unlisted_damage_hides_altered_entries(path: pathlib.Path) -> None:
    """A survey lists a limited number of places."""
    path.unlink()
    restarted(path)
    raw = path.read_bytes()
    path.write_bytes(raw[:-20].replace(b"\xa6number\x07", b"\xa6number\x04") + raw[-20:])
    found = survey(path)
    assert found.is_altered
    assert not attrs.evolve(found, torn_bytes=7).is_altered
    assert not attrs.evolve(found, breaks=[Break(5000, 5, 7)] * 100).is_altered


def test_the_last_entry_of_a_supervisor_seals_its_journal(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cluster.msgpack"
    writer = JournalWriter(path)
    writer.begin(opened(1, "", "a1"))
    writer.close(JournalEntry(2, "", "cluster_stopped", {}))
    raw = path.read_bytes()
    assert not survey(path).is_altered
    path.write_bytes(raw.replace(b"a1", b"a2"))
    assert survey(path).is_altered


def test_a_journal_without_a_checksum_is_not_called_altered(path: pathlib.Path) -> None:
    path.write_bytes(pack_entry(opened(1, "produce-1", "a1"), 1) + b"".join(map(packed, range(2, 21))))
    found = survey(path)
    assert found.is_closed
    assert not found.is_altered


def test_many_starts_of_a_process_are_not_called_altered(path: pathlib.Path) -> None:
    path.unlink()
    for start in range(120):
        writer = JournalWriter(path)
        writer.begin(opened(start, "produce-1", "a1"))
        writer.close(entry(20, CLOSED))
    found = survey(path)
    assert len(found.stretches) == 101
    assert not found.is_altered
    assert not ranges(path, 5000).is_altered


def test_journals_of_old_versions_are_not_expected_to_count(path: pathlib.Path) -> None:
    path.write_bytes(b"".join(pack_entry(entry(number)) for number in (1, 2, 9)))
    found = survey(path)
    assert found.breaks == []
    assert not found.is_numbered


def test_a_writer_counts_on_where_the_file_ends_and_keeps_what_lies_behind_damage(path: pathlib.Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[200:220] = b"\xc1" * 20
    path.write_bytes(raw + b"\x85torn")
    writer = JournalWriter(path)
    writer.append(entry(21))
    writer.close()
    found = survey(path)
    assert found.last_seq == 21
    assert found.tail_bytes == 0
    assert len(found.breaks) == len(found.torn) == 1


def test_entries_that_a_full_disk_cost_are_missing_in_the_count(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JournalWriter, "MAX_PENDING", 1)
    writer = JournalWriter(path)
    for number in range(21, 24):
        writer.append(entry(number))
    writer.flush()
    writer.append(entry(24))
    writer.close()
    assert [(one.expected, one.found) for one in survey(path).breaks] == [(22, 24)]


def test_a_survey_lists_the_runs_that_a_file_names_also_when_it_is_joined() -> None:
    parts = [JournalSurvey(process="produce-1", size=100, begin=begin) for begin in (0, 50)]
    parts[0].add((0, opened(1, "produce-1", "a1")))
    parts[0].add((20, attrs.evolve(opened(2, "produce-1", "a1"), seq=2)))
    parts[1].add((50, attrs.evolve(opened(3, "produce-1", "b2"), seq=3)))
    (joined,) = join_surveys(map(survey_of_fields, [part.as_fields() for part in parts]))
    assert joined.runs == ["a1", "b2"]
    assert joined.has_begin


@pytest.mark.parametrize(
    ("times", "went_back"), [([1, 2, 3, 4], 0), ([1, 9, 3, 4], 6), ([5, 6, 2, 9], 4), ([9, 1, 2, 3], 8)]
)
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_survey_measures_how_far_times_go_back_also_between_ranges(
    times: list[int], went_back: int, cut: int
) -> None:
    parts = [JournalSurvey(process="produce-1", size=100, begin=begin) for begin in (0, 50)]
    for seq, at in enumerate(times, 1):
        parts[seq > cut].add((seq, attrs.evolve(entry(at), seq=seq)))
    (joined,) = join_surveys(parts)
    assert joined.went_back == went_back


GIB = 2**30


def make_sparse(path: pathlib.Path) -> None:
    """Put a hole of 1 GiB between the entries 5 and 6."""
    with path.open("wb") as file:
        file.write(b"".join(map(packed, range(1, 6))))
        file.seek(GIB, os.SEEK_CUR)
        file.write(b"".join(map(packed, range(6, 21))))


def test_holes_of_a_sparse_journal_are_not_read(path: pathlib.Path, read_sizes: list[int]) -> None:
    make_sparse(path)
    hole_at = sum(len(packed(number)) for number in range(1, 6))
    if path.stat().st_blocks * 512 > GIB // 2:
        pytest.skip("this file system has no holes")
    found = survey(path)
    assert (found.entries, found.torn, found.breaks, found.is_closed) == (20, [Torn(hole_at, GIB)], [], True)
    assert sum(read_sizes) < GIB // 64


def test_a_journal_that_is_one_hole_is_a_tail(path: pathlib.Path, read_sizes: list[int]) -> None:
    path.write_bytes(b"")
    os.truncate(path, GIB)
    found = survey(path)
    assert (found.entries, found.tail_bytes, found.is_closed) == (0, GIB, False)
    assert sum(read_sizes) < GIB // 64


def test_a_range_without_entries_is_read_to_its_own_end(path: pathlib.Path, read_sizes: list[int]) -> None:
    """Else each range of a damaged file would be read to the end of the file."""
    step = 2 * 2**20
    with path.open("ab") as file:
        file.write(b"\1" * 10 * step)
    with path.open("rb") as file:
        assert list(scan_journal(file.fileno(), step, 2 * step)) == []
    assert sum(read_sizes) < 2 * step


FALSE_HEAD = b"\x86\xa1v\x04\xa2at\x01\xa4node\xa1a\xa4kind\xa1k\xa6fields\x81\xa1f\xdb\x00\xf0\x00\x00"
"""The begin of an entry with a text of 15 MB."""


@pytest.mark.parametrize("between", [b"", packed(3)], ids=["false heads", "and entries between"])
def test_false_heads_of_long_entries_cost_little(path: pathlib.Path, read_sizes: list[int], between: bytes) -> None:
    """Each cost a read of 16 MB."""
    count = 2000
    path.write_bytes((FALSE_HEAD + between) * count + b"\1" * 20 * 2**20 + packed(20))
    found = survey(path)
    assert found.entries == (count + 1 if between else 1)
    assert found.last_seq == 20
    assert sum(read_sizes) < 500 * 2**20  # not 32 GB


def test_long_entries_behind_damage_are_read(path: pathlib.Path) -> None:
    long = pack_entry(JournalEntry(5, "a", "k", {f"f{number}": "x" * 2000 for number in range(60)}), 1)
    assert len(long) > 100_000
    path.write_bytes(b"\1\2" + long)
    assert survey(path).entries == 1


GOOD = {"outcome": "refused", "topic": "orders", "began_at": 5, "took": None}


@pytest.mark.parametrize(
    ("at", "kind", "fields"),
    [
        (-1, "sent", {**GOOD}),
        (2**62, "sent", {**GOOD}),
        (1, "sent", {**GOOD, "began_at": "y"}),
        (1, "log_sampled", {"max_offset": "x"}),
        (1, "route_believed", {"brokers": "x"}),
        (1, "rebalanced", {"held": 5}),
        (True, "sent", {**GOOD}),
        (1, "sent", {}),
        (1, "sent", {**GOOD, "took": 0.5}),
        (1, "sent", {**GOOD, "took": True}),
        (1, "sent", {**GOOD, "began_at": 2**62}),
        (1, "sent", {**GOOD, "topic": ["orders"]}),
        (1, "journal_closed", {"crc": math.inf}),
        (1, "cluster_starting", {"rate": math.nan}),
        (1, "node_ready", {"orderly": 1}),
        (1, "node_ready", {"address": "127.77.1.20:10911", "broker_name": "broker-a"}),
        (1, "offset_moved_back", {"group": "shop", "topic": "orders", "queue_id": 0, "before": 9}),
    ],
)
def test_an_entry_with_an_invalid_value_is_no_entry(
    tmp_path: pathlib.Path, at: int, kind: str, fields: dict[str, object]
) -> None:
    entries = [JournalEntry(at, "n", kind, fields), JournalEntry(5, "n", "sent", GOOD)]
    (tmp_path / "n.msgpack").write_bytes(b"".join(pack_entry(one, seq) for seq, one in enumerate(entries, 1)))
    (journal,), (survey,) = survey_journals(tmp_path)
    assert [one.at_millis for one in journal] == [5]
    assert survey.torn_bytes > 0
