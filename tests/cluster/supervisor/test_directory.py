"""The record of a cluster, as damage or another version of rmqlab leaves it."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.cluster.supervisor.files.directory import LATEST_MILLIS, ClusterDirectory, Record, RecordError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement
from rmqlab.cluster.supervisor.starting import last_time
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalwriter import JournalWriter

RECORD = Record(spec=ClusterSpec(rate=10), placement=Placement(subnet=9))


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    place = ClusterDirectory.at(tmp_path)
    place.write_record(RECORD)
    return place


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2, "later": 1}, "cluster.json has version 2: expected 1; use the version of rmqlab that wrote it"),
        ({"version": "x" * 500}, "cluster.json has version 'xxx"),
        ({"clock_millis": 10**30}, "cluster.json is damaged: expected the record that `rmqlab up` writes"),
        ({"clock_millis": -1}, "is damaged"),
        ({"roles": {"broker-a": -5}}, "is damaged"),
        ({"roles": []}, "is damaged"),
        ({"spec": {"name": "../x"}}, "is damaged"),
    ],
)
def test_a_record_that_no_start_can_use(directory: ClusterDirectory, changes: dict[str, Any], message: str) -> None:
    assert directory.read_record() == RECORD
    plain = json.loads(directory.record_path.read_text())
    directory.record_path.write_text(json.dumps(plain | changes))
    with pytest.raises(RecordError) as caught:
        directory.read_record()
    assert message in str(caught.value)
    assert len(str(caught.value)) < len(str(directory.path)) + 300


def test_a_damaged_time_in_a_journal_does_not_set_the_clock(directory: ClusterDirectory) -> None:
    directory.begin_journal()
    writer = JournalWriter(directory.journal_path("broker-a"))
    for millis in (5_000, LATEST_MILLIS + 1, 2**62):
        writer.append(JournalEntry(millis, "broker-a", "registered", {}))
    writer.close()
    assert last_time(directory, RECORD) == 5
    assert last_time(directory, attrs.evolve(RECORD, clock_millis=7_000)) == 7


def test_a_start_whose_supervisor_is_killed_keeps_the_journals_of_the_last_run(directory: ClusterDirectory) -> None:
    for content in ("older", "last"):
        directory.begin_journal()
        directory.journal_path("broker-a").write_text(content)
        directory.complete_journal()
    for _ in range(2):
        directory.begin_journal()
        directory.journal_path("broker-a").write_text("of a killed start")
    directory.begin_journal()
    assert [*directory.journal_dir.iterdir()] == []
    assert (directory.path / "journal.old" / "broker-a.msgpack").read_text() == "older"
    directory.complete_journal()
    assert (directory.path / "journal.old" / "broker-a.msgpack").read_text() == "last"
    assert not (directory.path / "journal.failed").exists()
