"""Odd values in journals: a judge says what is no entry, and raises no error."""

import json
from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.verdict import Verdict
from tests.cluster.checks.oddfields import MISSING, VALUES, add_entries, odd_entries, replaced, write_entries
from tests.cluster.checks.oddnames import NAMES, named_entries
from tests.cluster.plant.smallrun import made_up_run, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(made_up_run(), tmp_path / "run")


def test_a_run_that_is_written_again_holds(run: Path) -> None:
    for path in (run / "journal").iterdir():
        write_entries(path, list(read_journal(path)))
    assert judge_directory(run).verdict is Verdict.HOLDS


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_any_value_in_any_field_is_judged(run: Path, value: object) -> None:
    add_entries(run, odd_entries(value))
    assert judge_directory(run).verdict is not Verdict.HOLDS


def test_any_name_is_judged(run: Path) -> None:
    add_entries(run, named_entries())
    judged = judge_directory(run)
    assert judged.verdict is not Verdict.HOLDS
    json.dumps(judged.summary())
    groups = {metric.partition(" ")[2] for metric in judged.by_metric if metric.startswith("order.delivered ")}
    assert groups >= {*NAMES} - {""}
    assert "" not in groups, "a consumer without a group is its own group"
    assert "consume-1" in groups


PLACES = [("sent", name) for name in ("broker", "queue", "offset")]
NEEDED = [
    (kind, name) for kind, event in EVENT_TYPES.items() for name, field in event.fields.items() if field.is_needed
]


@pytest.mark.parametrize(("kind", "name"), [*NEEDED, *PLACES, ("node_ready", "broker_id"), ("sent", "crc")])
def test_a_run_does_not_hold_without_a_value_that_is_needed(run: Path, kind: str, name: str) -> None:
    for value in (MISSING, float("inf")):
        for path in (run / "journal").glob(f"*{SUFFIX}"):
            entries = list(read_journal(path))
            nth = next((nth for nth, one in enumerate(entries) if one.kind == kind and name in one.fields), None)
            if nth is None:
                continue
            odd = attrs.evolve(entries[nth], fields=replaced(entries[nth].fields, name, value))
            write_entries(path, [*entries[:nth], odd, *entries[nth + 1 :]])
            assert judge_directory(run).verdict is not Verdict.HOLDS, (path.name, value)
            write_entries(path, entries)


def test_a_truncated_map_is_read_as_far_as_it_goes(run: Path) -> None:
    """A writer truncates large maps and lists."""
    route = {"broker-a": {0: "127.77.1.20:10911"}, "...": 7}
    moved = {0: [9, 3], 1: [9, "...(1 more)"], "...": 7}
    believed = JournalEntry(0, "consume-1", "route_believed", {"topic": "orders", "brokers": route})
    replaced_offsets = {"key": "orders@shop", "queues": moved}
    overwritten = JournalEntry(0, "broker-a-s", "consumer_offsets_overwritten", replaced_offsets)
    add_entries(run, [("consume-1", believed), ("broker-a-s", overwritten)])
    judged = judge_directory(run)
    assert judged.conditions.gaps == ()
    assert judged["rolled_back shop"].value == 6
