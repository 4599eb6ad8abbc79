"""Cost of judging the order of one long queue, whole and cut into chunks.

See tests.bench.spark.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from rmqlab.pipeline.audit.order import CHUNK_ROWS, STORED
from rmqlab.pipeline.audit.relations import Query, Relations
from rmqlab.pipeline.audit.size import Scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_ROWS = """
select 'broker-a' node, 'broker-a' broker, 'orders' topic, 0 queue, printf('%032X', id) message_id, id offset,
    id div 10 began_at, id div 10 + 1 ended_at from range({count})
"""


def measure_order(spark: "SparkSession", directory: Path, count: int, cpu: "Callable[[], float]") -> None:
    """Print seconds, CPU, tasks, and the share of the longest task, for each way."""
    parquet = str(directory / STORED.table)
    spark.sql(_ROWS.format(count=count)).write.parquet(parquet)
    relations = Relations(spark, directory, Scale.LARGE)
    relations.define(STORED.table, f"select * from parquet.`{parquet}`")
    whole = attrs.evolve(STORED, rows=f"select * from {STORED.table}")
    for name, query in (
        ("whole", whole.with_preceding_maximum("ahead")),
        ("in chunks", whole.with_preceding_maximum("ahead", CHUNK_ROWS, relations.tasks)),
    ):
        late = "count_if(ahead.began_at > ended_at) late"
        counting = f"select spark_partition_id() part, count(*) found, {late} from ({query}) group by 1"
        began, before = time.perf_counter(), cpu()
        (rows,) = relations.execute([Query(counting)])
        seconds, used = time.perf_counter() - began, cpu() - before
        assert sum(row.found for row in rows) == count
        longest = max(row.found for row in rows) / count
        print(
            f"one queue of {count:,}, {name:9} {seconds:6.1f} s {used:6.1f} s of CPU {len(rows):3} tasks,"
            f" the longest has {longest:.0%} of the rows; {sum(row.late for row in rows)} out of order",
            flush=True,
        )
