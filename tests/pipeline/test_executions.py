"""Queries of an audit are executed together, in few Spark executions."""

import pathlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rmqlab.pipeline.audit.relations import _SHORT, Query, Relations
from rmqlab.pipeline.audit.rounds import Rounds
from rmqlab.pipeline.audit.size import Scale
from tests.pipeline.audited import Audited, audited
from tests.pipeline.violations import planted_run, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = {Scale.SMALL: (13, 140), Scale.MEDIUM: (18, 140), Scale.LARGE: (25, 560)}
"""The executions and stages that an audit may take.

Issue 15 permits 25 executions. Smaller runs have needed up to 127 stages since late and early deliveries are suspected
first, which saves more where none is.

Two executions of a small run can compute a stage that both need: the number of stages differs between runs.
"""


def check_few(audit: Audited, scale: Scale) -> None:
    few_executions, few_stages = FEW[scale]
    assert 0 < len(audit.stages) <= few_executions
    assert sum(audit.stages) <= few_stages


def test_a_small_audit_needs_few_executions(planted_audit: Audited) -> None:
    check_few(planted_audit, Scale.SMALL)


@pytest.mark.long
@pytest.mark.parametrize("scale", [Scale.MEDIUM, Scale.LARGE])
def test_an_audit_needs_few_executions(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    check_few(audited(spark, write_run(planted_run(), tmp_path), scale), scale)


@pytest.mark.parametrize("scale", Scale)
def test_queries_of_a_batch_use_each_other(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    relations = Relations(spark, tmp_path, scale)
    relations.define_rows("names", [{"id": 1, "name": "it's"}, {"id": 2, "name": None}], id="int", name="string")
    results = relations.execute(
        [
            Query("select struct(id, name) pair from names", "pairs", is_written=True),
            Query("select pair.id from pairs where false", "empty"),
            Query("select pair from pairs order by pair.id desc"),
            Query("select count(*) found from empty"),
        ]
    )
    assert [len(rows) for rows in results] == [0, 0, 2, 1]
    assert [(row.pair.id, row.pair.name) for row in results[2]] == [(2, None), (1, "it's")]
    assert results[3][0].found == 0
    assert spark.read.parquet(str(tmp_path / "pairs")).count() == 2
    (rows,) = relations.execute([Query("select * from pairs cross join empty")])
    assert list(rows) == []


def test_short_and_long_tables_keep_their_rows(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """An empty table between others must not hide those after it."""
    relations = Relations(spark, tmp_path, Scale.SMALL)
    counts = {"first": 3, "none": 0, "last": _SHORT - 1, "long": _SHORT}
    relations.execute([Query(f"select id from range({count})", name) for name, count in counts.items()])
    found = relations.execute([Query(f"select count(id) found from {name}") for name in counts])
    assert [row.found for (row,) in found] == list(counts.values())


@pytest.mark.parametrize("count", [3, 3 * _SHORT])
def test_rows_that_are_left_out_are_in_no_query(spark: "SparkSession", tmp_path: pathlib.Path, count: int) -> None:
    relations = Relations(spark, tmp_path, Scale.LARGE)
    relations.execute([Query(f"select cast(id % 3 as string) node from range({count})", "rows", is_written=True)])
    relations.leave_out("rows", "node", ["1", "other"])
    (found,) = relations.execute([Query("select node, count(*) found from rows group by node order by node")])
    assert [(row.node, row.found) for row in found] == [("0", count // 3), ("2", count // 3)]


@pytest.mark.parametrize("scale", Scale)
def test_a_rare_table_is_whole_however_long_it_is(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    relations = Relations(spark, tmp_path, scale)
    counts = {"none": 0, "short": _SHORT - 1, "long": _SHORT, "longer": 2 * _SHORT}
    for name, count in counts.items():
        relations.execute([Query(f"select id from range({count})", name, is_written=True, is_rare=True)])
    found = relations.execute([Query(f"select count(id) found from {name}") for name in counts])
    assert [row.found for (row,) in found] == list(counts.values())
    assert [spark.read.parquet(str(tmp_path / name)).count() for name in counts] == list(counts.values())


@pytest.mark.parametrize("scale", Scale)
def test_rare_tables_of_one_batch_are_whole_for_each_other(
    spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale
) -> None:
    counts = {"short": 3, "long": 2 * _SHORT, "alike": 2 * _SHORT}
    rare = [
        Query(f"select id from range({count})", name, is_written=True, is_rare=True) for name, count in counts.items()
    ]
    odd = Query("select id from long where id % 2 = 1", "odd", is_written=True, is_rare=True)
    *_, found = Relations(spark, tmp_path, scale).execute([*rare, odd, Query("select count(*) found from long")])
    assert [row.found for row in found] == [counts["long"]]
    written = {name: spark.read.parquet(str(tmp_path / name)).count() for name in (*counts, "odd")}
    assert written == {**counts, "odd": _SHORT}


@pytest.mark.parametrize(("scale", "join"), [(Scale.MEDIUM, "ShuffledHashJoin"), (Scale.LARGE, "SortMergeJoin")])
def test_only_a_small_enough_run_holds_a_side_of_a_join(
    spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale, join: str
) -> None:
    relations = Relations(spark, tmp_path, scale)
    relations.define("twice", "select /*+ shuffle_hash(b) */ a.id from range(9) a join range(9) b on a.id = b.id")
    threshold = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(threshold)
    spark.conf.set(threshold, "-1")
    try:
        plan = relations._sql("select * from twice")._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.set(threshold, before)
    assert join in plan


def test_a_round_waits_for_all_pending_requests() -> None:
    batches: list[list[int]] = []

    def square(numbers: Sequence[int]) -> list[int]:
        batches.append(sorted(numbers))
        return [number**2 for number in numbers]

    rounds: Rounds[int, int] = Rounds(square, 3)

    def ask(number: int) -> list[int]:
        try:
            return [rounds.ask(number + nth) for nth in range(number)]
        finally:
            rounds.leave()

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(ask, [1, 2, 0])) == [[1], [4, 9], []]
    assert batches == [[1, 2], [3]]


def test_all_threads_of_a_round_raise_its_error() -> None:
    def fail(_: object) -> list[int]:
        raise ArithmeticError

    rounds: Rounds[int, int] = Rounds(fail, 2)

    def ask(number: int) -> int:
        try:
            return rounds.ask(number)
        finally:
            rounds.leave()

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(ask, number) for number in range(2)]
    assert [type(one.exception()) for one in asked] == [ArithmeticError] * 2
