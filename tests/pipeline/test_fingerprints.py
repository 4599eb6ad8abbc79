"""Rows that are equal as a whole are not compared one by one."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.pipeline.audit.fingerprints import differing_groups, fingerprint
from rmqlab.pipeline.audit.relations import ONLY_FILE, Query, Relations
from rmqlab.pipeline.audit.size import Scale
from tests.bench.bigrun import write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [(1, 7, "a"), (2, 8, "b"), (3, 9, "c")]
OTHERS = {
    "an altered value": [(1, 7, "a"), (2, 8, "B"), (3, 9, "c")],
    "values of two rows exchanged": [(1, 8, "a"), (2, 7, "b"), (3, 9, "c")],
    "a row less": ROWS[:2],
    "a row twice": [*ROWS, ROWS[0]],
    "one twice instead of another": [*ROWS[:2], ROWS[0]],
    "none": [],
}
RARE = {"unqueued_records", "dangling_entries", "divergences", "inversions", "unstored", "altered_origins"}


def rows_sql(rows: Sequence[tuple[int, int, str]]) -> str:
    values = ", ".join(f"({at}, {size}, '{text}')" for at, size, text in rows)
    return f"select * from values {values} t(at, size, text)" if rows else f"{rows_sql(ROWS)} where false"


@pytest.fixture
def relations(spark: "SparkSession", tmp_path: pathlib.Path) -> Relations:
    return Relations(spark, tmp_path, Scale.SMALL)


def differ(relations: Relations, one: Sequence[tuple[int, int, str]], other: Sequence[tuple[int, int, str]]) -> bool:
    sides = (
        f"select {fingerprint('at', 'size', 'text')} rows_of_side from ({rows_sql(rows)}) group by true"
        for rows in (one, other)
    )
    (found,) = relations.execute([Query(differing_groups(" union all ".join(sides)))])
    return bool(found)


def test_the_same_rows_in_another_order_are_equal(relations: Relations) -> None:
    assert not differ(relations, ROWS, ROWS[::-1])
    assert not differ(relations, [], [])


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_other_rows_differ(relations: Relations, other: Sequence[tuple[int, int, str]]) -> None:
    assert differ(relations, ROWS, other)
    assert differ(relations, other, ROWS)


def test_each_group_is_compared_alone(relations: Relations) -> None:
    sides = " union all ".join(
        f"select '{group}' slave, {fingerprint('at', 'text')} rows_of_side from ({rows_sql(rows)})"
        for group, rows in (("same", ROWS), ("same", ROWS), ("other", ROWS), ("other", ROWS[1:]), ("alone", ROWS))
    )
    (found,) = relations.execute([Query(differing_groups(sides, "slave"))])
    assert sorted(row.sides for row in found) == [1, 2]


def test_an_audit_of_equal_logs_joins_no_rows_for_violations(
    spark: "SparkSession", tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: set[str] = set()
    execute = Relations.execute

    def recorded(self: Relations, queries: Sequence[Query]) -> object:
        names.update(query.name for query in queries)
        return execute(self, queries)

    monkeypatch.setattr(Relations, "execute", recorded)
    write_run(tmp_path, 1000)
    audit_run(spark, tmp_path, scale=Scale.SMALL)
    assert "fates" in names
    assert names & RARE == set()
    assert {pq.read_table(tmp_path / "audit" / name / ONLY_FILE).num_rows for name in RARE} == {0}
