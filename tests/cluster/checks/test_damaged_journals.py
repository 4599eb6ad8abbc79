"""Issue 14.2: cut, garbled or missing journals make verdict and metrics unknown."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun, write_journals
from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.verdict.verdict import Verdict

Damage = Callable[[Path], object]


def written(directory: Path) -> Path:
    """Write a run without stores: 20 rejected sends and a clean stop of the producer."""
    run = MadeUpRun()
    for number in range(20):
        run.send(number, "refused", crc=number)
    run.add("produce-1", "node_stopped")
    write_journals(run.entries, directory / "journal")
    return directory / "journal" / "produce-1.msgpack"


def rewrite(path: Path, entries: list[JournalEntry]) -> None:
    path.write_bytes(b"".join(pack_entry(entry, entry.seq) for entry in entries))


def keep(choose: Callable[[list[JournalEntry]], list[JournalEntry]]) -> Damage:
    return lambda path: rewrite(path, choose(list(read_journal(path))))


def garble(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[400:500] = b"\xc1" * 100
    path.write_bytes(raw)


def test_a_whole_journal_leaves_no_gap(tmp_path: Path) -> None:
    written(tmp_path)
    judgement = judge_directory(tmp_path)
    assert judgement.conditions.gaps == ()
    assert (judgement["sent"].value, judgement["sent"].is_at_least) == (20, False)
    assert judgement["lost"].value == 0


@pytest.mark.parametrize(
    ("damage", "sent"),
    [
        (keep(lambda entries: entries[:12]), 12),
        (keep(lambda entries: entries[3:]), 17),
        (keep(lambda entries: entries[:8] + entries[10:]), 18),
        (lambda path: path.write_bytes(path.read_bytes()[:-4]), 20),
        (lambda path: path.write_bytes(b""), None),
        (Path.unlink, None),
    ],
    ids=["end cut", "begin cut", "thinned out", "closing entry torn", "emptied", "deleted"],
)
def test_an_incomplete_journal_of_a_producer_is_a_gap(tmp_path: Path, damage: Damage, sent: int | None) -> None:
    path = written(tmp_path)
    damage(path)
    judgement = judge_directory(tmp_path)
    assert judgement.verdict is Verdict.UNKNOWN
    assert "journal/produce-1.msgpack" in judgement.decision.why[0]
    assert judgement["sent"].value == sent
    assert judgement["sent"].is_at_least is (sent is not None)
    assert not judgement["lost"].is_known


def test_entries_behind_garbage_count(tmp_path: Path) -> None:
    garble(written(tmp_path))
    judgement = judge_directory(tmp_path)
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement["sent"].value in (18, 19)
    assert "bytes are no entry" in judgement.decision.why[0]


def test_a_lost_message_is_violated_whatever_else_is_missing(tmp_path: Path) -> None:
    run = MadeUpRun()
    run.send(1, at=())
    run.send(2, at=())
    write_journals(run.entries, tmp_path / "journal")
    for node in ("broker-a", "broker-a-s"):
        (tmp_path / node / "store" / "commitlog").mkdir(parents=True)
    keep(lambda entries: entries[1:])(tmp_path / "journal" / "produce-1.msgpack")
    judgement = judge_directory(tmp_path)
    assert judgement.verdict is Verdict.VIOLATED
    assert (judgement["lost"].value, judgement["lost"].is_at_least) == (1, True)


def test_a_missing_journal_of_the_supervisor_is_a_gap(tmp_path: Path) -> None:
    written(tmp_path).with_name("cluster.msgpack").unlink()
    judgement = judge_directory(tmp_path)
    assert judgement.verdict is Verdict.UNKNOWN
    assert "the supervisor's journal, is missing" in judgement.decision.why[0]


def exchanged(directory: Path, run: str, recorded: str | None = None) -> Path:
    """Write a run with the producer's journal of another run of that time."""
    own, other = MadeUpRun(), MadeUpRun()
    for number in range(20):
        own.send(number, crc=number)
        other.send(number + 100, crc=number)
    for made in (own, other):
        made.add("produce-1", "produced", sent=20, SEND_OK=20)
        made.add("produce-1", "node_stopped")
    write_journals(own.entries, directory / "journal", "a1" * bool(run))
    write_journals(other.entries, directory / "other", run)
    (directory / "other" / "produce-1.msgpack").replace(directory / "journal" / "produce-1.msgpack")
    if recorded is not None:
        (directory / "cluster.json").write_text(recorded)
    return directory


def test_the_journal_of_another_run_in_the_same_time_is_a_gap_and_no_loss(tmp_path: Path) -> None:
    judgement = judge_directory(exchanged(tmp_path, "b2"))
    (gap,) = judgement.conditions.gaps
    assert "journal/produce-1.msgpack: it is of another run, b2; this one is a1" in gap.text
    assert judgement["lost"].value is None
    assert judgement.verdict is Verdict.UNKNOWN


def test_journals_are_held_to_the_record_of_their_cluster(tmp_path: Path) -> None:
    judgement = judge_directory(exchanged(tmp_path, "b2", '{"run": "b2"}'))
    processes = {path.stem for path in (tmp_path / "journal").iterdir()}
    assert {gap.process for gap in judgement.conditions.gaps} == processes - {"produce-1"}
    assert judgement.verdict is Verdict.UNKNOWN


def test_a_journal_without_the_id_that_the_others_have_is_of_another_run(tmp_path: Path) -> None:
    exchanged(tmp_path, "b2")
    own, other = tmp_path / "journal" / "produce-1.msgpack", tmp_path / "without"
    written(other)
    (other / "journal" / "produce-1.msgpack").replace(own)
    (gap,) = judge_directory(tmp_path).conditions.gaps
    assert "begins with no entry that names the run, a1" in gap.text


@pytest.mark.parametrize(
    "record", ["", "[]", '{"run": 7}', "{", "[" * 100_000], ids=["empty", "list", "number", "cut", "deep"]
)
def test_a_damaged_record_leaves_the_journals_to_each_other(tmp_path: Path, record: str) -> None:
    (gap,) = judge_directory(exchanged(tmp_path, "b2", record)).conditions.gaps
    assert gap.process == "produce-1"


@pytest.mark.parametrize("node", ["consume-1", "namesrv-1", "broker-a-s"])
def test_a_clock_that_was_ahead_for_a_while_disagrees_with_itself(tmp_path: Path, node: str) -> None:
    """No other process contradicts times of these nodes that are too late."""
    run = MadeUpRun()
    run.send(1)
    for ahead in (0, 20_000, 0):
        run.wait(1)
        run.add(node, "events_dropped", count=1)
        run.entries[-1] = attrs.evolve(run.entries[-1], at_millis=run.entries[-1].at_millis + ahead)
    run.add("produce-1", "node_stopped")
    write_journals(run.entries, tmp_path / "journal")
    judgement = judge_directory(tmp_path)
    assert judgement[f"clock_disagreement {node}"].value == pytest.approx(19, abs=0.1)
    assert any(f"clock_disagreement {node}" in warning for warning in judgement.decision.warnings)
