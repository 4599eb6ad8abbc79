"""Both judges judge what followed the deletion of a topic or a group."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deleted_and_used_again() -> MadeUpRun:
    """Delete a topic and its group; what is from before, and comes later, goes back."""
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
    run.add("broker-a", "topic_deleted", topic="orders")
    run.add("broker-a", "group_deleted", group="shop", drops_offsets=True)
    run.wait(2)
    for number in (1, 0):
        run.deliver(number, number)
    for offset in (500, 400):
        run.commit(offset)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=400, offered=0)
    return run


@pytest.mark.long
@pytest.mark.parametrize("is_wrong", [False, True])
def test_both_judges_judge_what_followed_a_deletion(
    spark: "SparkSession",
    tmp_path: pathlib.Path,
    is_wrong: bool,  # noqa: FBT001
) -> None:
    run = deleted_and_used_again()
    for number in range(4, 8):
        run.send(number)
    for number in (5, 4) if is_wrong else (4, 5):
        run.deliver(number, number)
    for offset in (6, 5) if is_wrong else (5, 6):
        run.commit(offset)
    run.wait(60)
    run.send(8)
    run.offset_files["broker-a"] = {} if is_wrong else {"orders@shop": {0: 6}}
    found = compare(spark, write_run(run, tmp_path)).findings
    expected = {
        "order.delivered shop": 1,
        "offset_rollbacks shop": 1,
        "rolled_back shop": 1,
        "offset_file_behind broker-a": 5,
    }
    assert {name: found[name].value for name in expected} == (expected if is_wrong else dict.fromkeys(expected, 0))
