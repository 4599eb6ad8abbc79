"""Costs of the data sources and of the audit, next to Spark's own scan.

The scan is of the same rows. Run it: `python -m tests.bench.spark`. Needs the extra `spark`. Absolute figures move with
the machine and its load; the ratios are what to look at.
"""

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.pipeline.session import open_session
from rmqlab.pipeline.spark.spark_home import Machine
from tests.bench import audits
from tests.bench.bigstore import write_log
from tests.bench.process import cpu_seconds
from tests.bench.spark_order import measure_order
from tests.bench.spark_topics import fill, live_master, measure_stream, topic_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUBJECTS = ("read", "stream", "order", "audit")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark", description=__doc__)
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="this subject; repeatable")
    parser.add_argument("--messages", type=int, action="append", help="sizes of the audited runs; repeatable")
    parser.add_argument("--rows", type=int, default=500_000, help="rows that are read")
    parser.add_argument("--turns", type=int, default=7, help="how often the rows are read; the best counts")
    parser.add_argument("--queue", type=int, default=10_000_000, help="messages of the queue whose order is judged")
    parser.add_argument("--memory", default="4g", help="heap of the JVM")
    arguments = parser.parse_args()
    wanted = arguments.only or SUBJECTS
    machine = Machine(heap=arguments.memory, is_short=False)
    with tempfile.TemporaryDirectory(prefix="rmqlab-bench-") as directory:
        if "read" in wanted:
            with open_session(machine=machine) as spark:
                for size in (100, 1000):
                    measure_read(spark, Path(directory) / f"read-{size}", arguments.rows, size, turns=arguments.turns)
        if "stream" in wanted:
            with open_session(machine=machine) as spark, live_master(Path(directory) / "stream") as server:
                measure_stream(spark, server, Path(directory) / "stream", _spark_cpu, rows=200, batches=60)
        if "order" in wanted:
            with open_session(machine=machine, settings={"spark.sql.shuffle.partitions": "16"}) as spark:
                measure_order(spark, Path(directory) / "order", arguments.queue, _spark_cpu)
        if "audit" in wanted:
            audits.measure(Path(directory), arguments.messages or [100_000, 1_000_000], arguments.memory)


def measure_read(spark: "SparkSession", place: Path, rows: int, size: int, *, turns: int) -> None:
    """Measure reads of store files, a live master, and the same rows from parquet.

    The first two are read with and without bodies. Bodies of the files differ: parquet stores equal ones once.
    """
    byte_count = write_log(place / "broker-a", rows, size, seed=1)
    load = spark.read.format("rocketmq-store")
    slim = "topic string, queueId int, queueOffset bigint, uniqKey string, storeTimestamp timestamp, bodyCrc int"
    columns = f"{slim}, body binary"
    parquet = str(place / "parquet")
    load.schema(columns).load(str(place)).write.parquet(parquet)
    frames: dict[str, Callable[[], DataFrame]] = {
        "store, without bodies": lambda: spark.read.format("rocketmq-store").schema(slim).load(str(place)),
        "store, with bodies": lambda: spark.read.format("rocketmq-store").schema(columns).load(str(place)),
        "parquet": lambda: spark.read.parquet(parquet),
    }
    with live_master(place.with_name(place.name + "-live")) as server:
        fill(server, "orders", rows, size)
        frames |= topic_frames(spark, server, "orders", slim, columns)
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in frames}
        for _ in range(turns):  # by turns, so that the JVM has compiled as much for each of them
            for name, make in frames.items():
                costs[name].append(_cost(functools.partial(_drain, make)))
        for name, measured in costs.items():
            seconds, cpu = min(wall for wall, _ in measured), min(cpu for _, cpu in measured)
            print(
                f"{size:5} B  {name:24} {rows / seconds:12,.0f} rows/s {byte_count / seconds / 1e6:8,.0f} MB/s of log"
                f" {cpu / rows * 1e6:6.2f} us of CPU a row",
                flush=True,
            )


def _drain(make: "Callable[[], DataFrame]") -> None:
    make().write.format("noop").mode("overwrite").save()


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds by the clock and of CPU; the latter vary less on a busy machine."""
    began, before = time.perf_counter(), _spark_cpu()
    work()
    return time.perf_counter() - began, _spark_cpu() - before


def _spark_cpu() -> float:
    """Return the CPU seconds of the JVM and of the Python workers below it."""
    (jvm,) = (pid for pid, kind in audits.family(os.getpid()) if kind == "jvm")
    return sum(cpu_seconds(pid) for pid, _ in audits.family(jvm))


if __name__ == "__main__":
    main()
