"""Both judges count the same messages in spite of a gap at other brokers."""

import pathlib
from typing import TYPE_CHECKING

from rmqlab.runtime.journals.journalfiles import journal_path
from tests.cluster.checks.twogroups import OF_BROKERS, PLANTED, two_groups
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_lost_journal_of_one_group_excuses_nothing_at_another(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    write_run(two_groups(["broker-a", "broker-b"]), tmp_path)
    whole = compare(spark, tmp_path)
    assert {metric: whole.findings[metric].value for metric in PLANTED} == {
        metric: value if metric == "rolled_back shop" else 2 * value for metric, value in PLANTED.items()
    }
    journal_path(tmp_path / "journal", "broker-a-s").unlink()
    found = compare(spark, tmp_path).findings
    excused = {metric: found[metric].value for metric in OF_BROKERS if not metric.startswith("order.delivered")}
    assert excused == {metric: PLANTED[metric] for metric in excused}
    assert "broker-b:2" in found["order.stored"].evidence[0].text


def test_an_absent_store_of_one_group_hides_no_loss_at_another(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = two_groups(["broker-a", "broker-b"])
    run.unread.update(("broker-a", "broker-a-s"))
    found = compare(spark, write_run(run, tmp_path)).findings["lost"]
    assert (found.value, found.is_at_least) == (PLANTED["lost"], True)
    assert ["broker-b" in piece.text for piece in found.evidence] == [True, True]
