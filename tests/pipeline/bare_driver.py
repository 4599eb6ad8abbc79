"""The program of a driver whose workers lack this package.

Prints what it found as JSON. Arguments: the master, a store, a nameserver, a run, and a directory for checkpoints.
"""

import contextlib
import io
import json
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

import rmqlab
from rmqlab.pipeline import commands
from rmqlab.pipeline.audit import size
from rmqlab.pipeline.errors import NoSparkError
from rmqlab.pipeline.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""The last five save time: these jobs take longer to plan than to execute."""


def main(master: str, store: str, name_server: str, run: str, scratch: str) -> None:
    os.environ.pop("PYTHONPATH", None)  # with it the planning processes would find this package
    found: dict[str, Any] = {"unshipped": refusal(master), "audit": audit(master, run)}
    session = open_session(master, settings=_SETTINGS, ship=True)
    spark = session.__enter__()  # still open at the exit of this program, which must stay silent
    found["shipped"] = shipped_packages(spark, executors=2)
    found["batch"] = spark.read.format("rocketmq-store").load(store).count()
    options = {"nameServer": name_server, "topic": "shipped"}
    rows = spark.createDataFrame([(f"row {number}",) for number in range(20)], "body string").repartition(2)
    found["streams"] = []
    for _ in range(2):
        rows.write.format("rocketmq").mode("append").options(**options).save()
        found["streams"].append(stream(spark, options, pathlib.Path(scratch)))
    print(json.dumps(found))


def shipped_packages(spark: "SparkSession", executors: int) -> list[str]:
    """Return from where executors import this package, once so many have started."""

    def import_path(_: int) -> str:
        assert rmqlab.__file__ is not None
        return str(pathlib.Path(rmqlab.__file__).resolve().parents[1])

    found: set[str] = set()
    deadline = time.monotonic() + 120
    while len(found) < executors and time.monotonic() < deadline:
        found.update(spark.sparkContext.parallelize(range(4), 4).map(import_path).collect())
    return sorted(found)


def refusal(master: str) -> str:
    try:
        with open_session(master, settings=_SETTINGS):
            return ""
    except NoSparkError as exc:
        return str(exc)


def audit(master: str, run: str) -> dict[str, Any]:
    """Return the document of an audit that leaves all reading and writing to workers."""
    size.SMALL_BYTES = size.MEDIUM_BYTES = 0
    printed = io.StringIO()
    conf = [word for key, value in _SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    with contextlib.redirect_stdout(printed):
        commands.audit.main([run, "--master", master, *conf, "--ship", "--json"], standalone_mode=False)
    content: dict[str, Any] = json.loads(printed.getvalue())
    return content


def stream(spark: "SparkSession", options: dict[str, str], scratch: pathlib.Path) -> list[int]:
    """Copy new messages to a topic, and return how many were in each micro-batch."""
    sizes: list[int] = []

    def copy(frame: "DataFrame", _: int) -> None:
        frame.select("body").write.format("rocketmq").mode("append").options(
            **options | {"topic": "shipped-copies"}
        ).save()
        sizes.append(frame.count())

    source = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load()
    sink = source.writeStream.foreachBatch(copy).option("checkpointLocation", str(scratch / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()
    return sizes


if __name__ == "__main__":
    main(*sys.argv[1:])
