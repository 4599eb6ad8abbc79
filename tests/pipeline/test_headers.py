"""The audit finds headers of transactions and retries as the quick checks do."""

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.cluster.plant.logs import NodeLog, write_record
from rmqlab.remoting.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from rmqlab.remoting.names import HALF_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from tests.cluster.plant.smallrun import crc_of, made_up_run, write_run
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRY = "%RETRY%shop"
TIMES = 2
"""Reconsume times of the message that was sent back."""


def run_with_retry_and_commit() -> MadeUpRun:
    """Add a message that was sent back, and one that was committed."""
    run = made_up_run()
    end = next(number for number, entry in enumerate(run.entries) if entry.kind == "produced")
    before, run.entries, run.now = run.entries, [], run.entries[end - 1].at_millis
    run.send(900, sys_flag=0, crc=crc_of("ID000900"))
    offset = run.store("ID000900", Queue(RETRY, "broker-a", 0), run.logs)
    run.deliver(900, offset, times=TIMES)
    run.entries[-1] = attrs.evolve(run.entries[-1], fields={**run.entries[-1].fields, "topic": RETRY})
    run.store("ID000901", Queue(HALF_TOPIC, "broker-a", 0), run.logs)
    run.send(901, sys_flag=TRANSACTION_PREPARED, crc=crc_of("ID000901"))
    added = {"produced": {"sent": 2, "SEND_OK": 2}, "consumed": {"delivered": 1}}
    run.entries = [*before[:end], *run.entries, *(_with_more(one, added.pop(one.kind, {})) for one in before[end:])]
    return run


def _with_more(entry: JournalEntry, more: dict[str, int]) -> JournalEntry:
    """Return the counts of a workload that ended, raised by added messages."""
    return attrs.evolve(
        entry, fields={**entry.fields, **{name: entry.fields[name] + count for name, count in more.items()}}
    )


def rewrite(directory: pathlib.Path, **changes: Callable[[Any], Any]) -> None:
    """Give the records of both messages their headers, but for `changes` by kind."""
    for node in ("broker-a", "broker-a-s"):
        log = NodeLog(node, directory / node / "store" / "commitlog")
        committed = [record for record in log.records() if record.properties.get("UNIQ_KEY") == "ID000901"]
        (half,) = (record for record in committed if record.topic == HALF_TOPIC)
        for record in log.records():
            if record.topic == RETRY:
                kind, right = "retried", attrs.evolve(record, reconsume_times=TIMES)
            elif record == half:
                kind, right = "half", record
            elif record in committed:
                at = half.physical_offset
                kind = "committed"
                right = attrs.evolve(record, sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=at)
            else:
                continue
            write_record([log], changes[kind](right) if kind in changes else right)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, 0),
        pytest.param({"retried": lambda one: attrs.evolve(one, reconsume_times=TIMES + 1)}, 1, marks=pytest.mark.long),
        pytest.param({"retried": lambda one: attrs.evolve(one, reconsume_times=0)}, 1, marks=pytest.mark.long),
        ({"committed": lambda one: attrs.evolve(one, prepared_transaction_offset=77)}, 1),
        pytest.param({"committed": lambda one: attrs.evolve(one, sys_flag=0)}, 1, marks=pytest.mark.long),
        pytest.param({"half": lambda one: attrs.evolve(one, sys_flag=4)}, 1, marks=pytest.mark.long),
    ],
)
def test_both_judges_find_headers_of_retries_and_transactions(
    spark: "SparkSession", tmp_path: pathlib.Path, changes: dict[str, Callable[[Any], Any]], found: int
) -> None:
    directory = write_run(run_with_retry_and_commit(), tmp_path / "run")
    rewrite(directory, **changes)
    summary = compare(spark, directory)
    assert summary.findings["header_disagreement"].value == found


@pytest.mark.long
def test_a_delivery_without_recorded_times_shows_nothing(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = run_with_retry_and_commit()
    for at, entry in enumerate(run.entries):
        if entry.fields.get("topic") == RETRY:
            others = {name: value for name, value in entry.fields.items() if name != "reconsume_times"}
            run.entries[at] = attrs.evolve(entry, fields=others)
    directory = write_run(run, tmp_path / "run")
    rewrite(directory)
    assert compare(spark, directory).findings["header_disagreement"].value == 0
