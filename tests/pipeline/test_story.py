"""The five sentences on top of a report."""

import pathlib
from typing import Any

import attrs
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from rmqlab.pipeline.report.data import Facts, RunData
from rmqlab.pipeline.report.page import _facts
from rmqlab.pipeline.report.story import Link, Sentence, anchor_of, write_story

READY = {
    "namesrv-1": {"address": "127.0.0.1:9876"},
    "broker-a": {"address": "127.0.0.2:10911", "broker_name": "broker-a", "broker_id": 0},
    "broker-a-s": {"address": "127.0.0.3:10911", "broker_name": "broker-a", "broker_id": 1},
    "produce-1": {},
}


def finding(value: float | None, unit: str = "messages", **more: Any) -> dict[str, Any]:
    return {"value": value, "unit": unit, "at_least": False, "missing": "", "evidence": []} | more


def run_data(directory: pathlib.Path, absences: list[dict[str, Any]], findings: dict[str, dict[str, Any]]) -> RunData:
    """A run of one group, as the audit describes it."""
    (directory / "absences").mkdir()
    columns = {name: [row[name] for row in absences] for name in ("node", "how", "at", "until")}
    pq.write_table(pa.table(columns), directory / "absences" / "all.parquet")
    return RunData(
        directory=directory,
        summary={"verdict": "holds", "began_at": 0, "ended_at": 60_000, "findings": findings},
        claim="",
        verdict_document={},
        facts=Facts(role="SYNC_MASTER", groups=1, slaves=1, nameservers=1),
        events=[{"at": 0, "node": node, "kind": "node_ready", "fields": fields} for node, fields in READY.items()],
        tables=directory,
    )


def text_of(sentence: Sentence) -> str:
    return "".join(part.text if isinstance(part, Link) else part for part in sentence)


def test_a_quiet_run_needs_nothing(tmp_path: pathlib.Path) -> None:
    quiet = {"lost": finding(0), "write_unavailable broker-a": finding(0.0, "s")}
    quiet["read_unavailable broker-a"] = finding(0.0, "s")
    sentences = [text_of(one) for one in write_story(run_data(tmp_path, [], quiet))]
    assert sentences == [
        "1 SYNC_MASTER group with 1 slave, 1 nameserver and 1 workload ran for 60.0 s of the cluster's time.",
        "No node was down, and no fault was applied.",
        "No write outage was long enough to be counted; reads were available throughout.",
        "No acknowledged message was lost.",
        "What to do: nothing.",
    ]


def test_a_killed_master_is_named_with_what_it_cost(tmp_path: pathlib.Path) -> None:
    killed = [{"node": "broker-a", "how": "killed", "at": 10_000, "until": 21_000}]
    found = {
        "lost": finding(0),
        "write_unavailable broker-a": finding(11.0, "s"),
        "read_unavailable broker-a": finding(1.0, "s", at_least=True),
        "sent.refused": finding(120),
        "duplicates": finding(1, "deliveries"),
    }
    sentences = [text_of(one) for one in write_story(run_data(tmp_path, killed, found))]
    assert sentences[1:4] == [
        "At 10.0 s broker-a (the master) was killed and came back 11.0 s later.",
        "No workload could write to broker-a for 11.0 s; 120 sends were refused; reads were unavailable for at least 1.0 s.",
        "No acknowledged message was lost; 1 delivery was a duplicate.",
    ]
    assert "does not promote slaves" in sentences[4]
    assert "idempotent" in sentences[4]


def test_numbers_lead_to_the_rows_of_their_metrics(tmp_path: pathlib.Path) -> None:
    data = run_data(tmp_path, [], {"lost": finding(3), "write_unavailable broker-a": finding(2.5, "s")})
    links = {part.anchor for sentence in write_story(data) for part in sentence if isinstance(part, Link)}
    assert links == {"nodes", anchor_of("lost"), anchor_of("write_unavailable broker-a")}


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 acknowledged message was lost."), (1200, "1,200 acknowledged messages were lost.")],
)
def test_lost_messages_are_counted_in_the_grammatical_number(tmp_path: pathlib.Path, count: int, text: str) -> None:
    assert text_of(write_story(run_data(tmp_path, [], {"lost": finding(count)}))[3]) == text


def test_missing_evidence_is_reported_and_is_the_first_remedy(tmp_path: pathlib.Path) -> None:
    data = run_data(tmp_path, [], {"lost": finding(None, missing="the journal of produce-1 is cut")})
    data = attrs.evolve(data, summary={**data.summary, "verdict": "unknown"})
    sentences = [text_of(one) for one in write_story(data)]
    assert "the journal of produce-1 is cut" in sentences[3]
    assert sentences[4].startswith("What to do: Provide the missing evidence first")


def test_a_run_that_kept_no_stores_is_to_be_played_again(tmp_path: pathlib.Path) -> None:
    data = run_data(tmp_path, [], {"lost": finding(None, missing="no store was given")})
    data = attrs.evolve(data, summary={**data.summary, "verdict": "unknown"})
    assert text_of(write_story(data)[4]).startswith("What to do: Play the run again with `--keep-stores`")


def test_the_beginning_of_a_simulated_run_is_named_as_simulated_time(tmp_path: pathlib.Path) -> None:
    data = run_data(tmp_path, [], {})
    simulated = attrs.evolve(data, facts=attrs.evolve(data.facts, is_simulated=True))
    assert "UTC, simulated time</dd>" in _facts(simulated)
    assert "simulated" not in _facts(data)
