"""Queues cut into chunks are judged as whole ones."""

import pathlib
import random
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.pipeline.audit import order
from rmqlab.pipeline.audit.order import DELIVERED, STORED, Ordered
from rmqlab.pipeline.audit.relations import Query, Relations
from rmqlab.pipeline.audit.size import Scale
from tests.pipeline.violations import compare, planted_run, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    STORED: {
        "node": "string", "broker": "string", "topic": "string", "queue": "int", "offset": "bigint",
        "message_id": "string", "began_at": "bigint", "ended_at": "bigint",
    },
    DELIVERED: {
        "group": "string", "topic": "string", "broker": "string", "queue": "int", "offset": "bigint", "at": "bigint",
        "seq": "struct<at:bigint,place:bigint>",
    },
}  # fmt: skip


def _row(ordered: Ordered, place: int, chance: random.Random) -> dict[str, object]:
    """Return a row of one of two queues; its value is random, its place is not."""
    queue = {"node": "n", "broker": "b", "topic": "t", "group": "g", "queue": chance.randrange(2)}
    value = chance.randrange(40)
    if ordered is STORED:
        row = {**queue, "offset": place, "message_id": f"m{place}", "began_at": value, "ended_at": value + 1}
    else:
        row = {**queue, "offset": value, "at": place // 3, "seq": {"at": place // 3, "place": place}}
    return {column: row[column] for column in COLUMNS[ordered]}


@pytest.mark.parametrize("ordered", [STORED, DELIVERED], ids=lambda ordered: ordered.table)
def test_chunks_find_the_highest_value_before_each_row(
    spark: "SparkSession", tmp_path: pathlib.Path, ordered: Ordered
) -> None:
    chance = random.Random(15)
    relations = Relations(spark, tmp_path, Scale.SMALL)
    rows = [_row(ordered, place, chance) for place in range(60)]
    relations.define_rows(ordered.table, rows, **COLUMNS[ordered])
    whole = attrs.evolve(ordered, rows=f"select * from {ordered.table}").with_preceding_maximum("highest")
    key = f"{ordered.order} key, `queue`, highest"
    queries = [whole, *(ordered.with_preceding_maximum("highest", width, 3) for width in (1, 7, 1000))]
    found = relations.execute([Query(f"select {key} from ({query})") for query in queries])
    expected, *cut = [{(str(row.key), row.queue, str(row.highest)) for row in part} for part in found]
    assert len(expected) == len(rows)
    assert cut == [expected] * 3


def test_chunks_of_one_queue_are_shared_by_tasks(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """issue 15: Spark joined 16 chunks to two tasks, one with 74% of the rows."""
    relations = Relations(spark, tmp_path, Scale.SMALL)
    rows = [_row(STORED, place, random.Random(place)) | {"queue": 0} for place in range(60)]
    relations.define_rows(STORED.table, rows, **COLUMNS[STORED])
    ranked = STORED.with_preceding_maximum("ahead", 2, 4)
    query = f"select spark_partition_id() part, count(*) found from ({ranked}) group by 1"
    [found] = relations.execute([Query(query)])
    assert len(found) == 4
    assert sum(row.found for row in found) == len(rows)


@pytest.mark.long
def test_both_judges_agree_on_cut_queues(
    spark: "SparkSession", tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "CHUNK_ROWS", 2)
    directory = write_run(planted_run(), tmp_path)
    summary = compare(spark, directory, scale=Scale.LARGE)
    assert summary.findings["order.stored"].value
    assert summary.findings["order.delivered shop"].value
    assert not list((directory / "audit").glob("placed_records"))
