"""How the words of a judge are held against what was planted."""

from collections.abc import Mapping

import attrs

from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.model import Change, Planted, Report
from rmqlab.verdict.findings import Evidence, Finding
from rmqlab.verdict.verdict import Verdict
from tests.planted.compare import compare, faults_of
from tests.planted.judges import Judged

GOOD = "nothing acknowledged was lost"


def judged(
    findings: Mapping[str, float | None], *lines: str, ids: Mapping[str, tuple[str, ...]] | None = None
) -> Judged:
    found = {
        metric: Finding(metric=metric, unit="messages", value=value, message_ids=(ids or {}).get(metric, ()))
        for metric, value in findings.items()
    }
    return Judged(Verdict.UNKNOWN if lines else Verdict.HOLDS, lines or (GOOD,), found)


def planted(*reports: Report, kind: str = "crc-wrong-both") -> Planted:
    return Planted(kind=KINDS[kind], seed=1, directory="run", change=Change(edits=()), reports=reports)


CLEAN = judged({"lost": 0, "stored_unsent": 0, "divergence broker-a-s": 0})
LOST = Report(metric="lost", message_ids=("A",), also_allowed=("A", "B"))


def test_a_finding_that_names_the_messages_is_right() -> None:
    assert compare(planted(LOST), judged({"lost": 1}, ids={"lost": ("A",)}), CLEAN).is_right
    assert compare(planted(LOST), judged({"lost": 2}, ids={"lost": ("A", "B")}), CLEAN).is_right


def test_a_metric_that_did_not_rise_is_missed() -> None:
    assert compare(planted(LOST), CLEAN, CLEAN).missed == ("lost",)
    assert compare(planted(LOST), judged({"lost": None}, "lost: no store"), CLEAN).missed == ("lost",)


def test_messages_that_are_not_named_or_not_concerned_are_seen() -> None:
    assert compare(planted(LOST), judged({"lost": 1}), CLEAN).misnamed == ("lost: 1 of 1 not named",)
    named = judged({"lost": 2}, ids={"lost": ("A", "C")})
    assert compare(planted(LOST), named, CLEAN).misnamed == ("lost: 1 others named",)


def test_messages_of_the_evidence_count_if_the_finding_has_no_ids() -> None:
    piece = Evidence(text="differs", message_ids=("A",))
    finding = Finding(metric="lost", unit="messages", value=1, evidence=(piece,))
    assert compare(planted(LOST), attrs.evolve(CLEAN, findings={"lost": finding}), CLEAN).is_right


def test_a_metric_that_the_kind_does_not_explain_is_extra() -> None:
    report = judged({"lost": 1, "stored_unsent": 2, "missing broker-a": 1, "lost.SEND_OK": 1}, ids={"lost": ("A",)})
    assert compare(planted(LOST), report, CLEAN).extra == ("missing broker-a 1", "stored_unsent 2")


def test_a_metric_that_became_unknown_is_extra_unless_evidence_is_missing() -> None:
    report = judged({"lost": 1, "stored_unsent": None}, ids={"lost": ("A",)})
    assert compare(planted(LOST), report, CLEAN).extra == ("stored_unsent unknown",)
    gap = Report(metric="gap produce-1")
    silent = judged({"lost": None, "stored_unsent": None}, "the journal of produce-1 is torn")
    assert compare(planted(gap, kind="journal-torn"), silent, CLEAN).is_right


def test_a_gap_names_the_very_process_in_the_reasons_of_the_verdict() -> None:
    gap = planted(Report(metric="gap broker-a"), kind="journal-torn")
    assert compare(gap, judged({}, "journal/broker-a.msgpack is missing"), CLEAN).missed == ()
    assert compare(gap, judged({}, "journal/broker-a-s.msgpack is missing"), CLEAN).missed == ("gap broker-a",)
    holds = attrs.evolve(judged({}, "broker-a is odd"), verdict=Verdict.HOLDS)
    assert compare(gap, holds, CLEAN).missed == ("gap broker-a",)


def test_a_gap_that_the_kind_does_not_explain_is_extra() -> None:
    report = judged({"lost": 1}, "lost: 1 messages", "journal/produce-1.msgpack is missing", ids={"lost": ("A",)})
    assert compare(planted(LOST), report, CLEAN).extra == ("journal/produce-1.msgpack is missing",)


def test_a_metric_that_must_become_unknown_must_have_been_known() -> None:
    report = Report(metric="lost", is_unknown=True)
    assert compare(planted(report), judged({"lost": None}), CLEAN).missed == ()
    assert compare(planted(report), judged({"lost": None}), judged({"lost": None})).missed == ("lost",)


def test_a_clean_run_is_one_that_holds_with_nothing_above_zero_but_measurements() -> None:
    assert faults_of(judged({"sent": 9, "sent.SEND_OK": 9, "replication_lag broker-a-s": 5, "lost": 0})) == []
    assert faults_of(judged({"lost": 1}, "lost: 1 messages")) == [
        "verdict unknown", "lost: 1 messages", "lost: 1 messages"
    ]  # fmt: skip
