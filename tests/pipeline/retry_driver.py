"""The program of a driver whose tasks or executors end in the middle of writes.

Prints as JSON the partition and the executor's directory of each task that wrote. Arguments: the master, a nameserver,
the topic to copy, and a directory that driver and executors share. The topics that it writes are `CASES`.
"""

import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from rmqlab.pipeline.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 600
CASES: Final = ("failed", "killed", "shuffled", "foreach", "sink")
"""A topic for each kind of write, and what happens in the middle of it."""
_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.excludeOnFailure.enabled": "true",  # a task is not repeated by the executor where it failed
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "9",
    "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "9",
    "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "9",
    "spark.excludeOnFailure.application.enabled": "false",
}


def main(master: str, name_server: str, source: str, scratch: str) -> None:
    os.environ.pop("PYTHONPATH", None)
    place = pathlib.Path(scratch)
    server = {"nameServer": name_server}
    with open_session(master, settings=_SETTINGS, ship=True) as spark:
        numbers = spark.range(0, ROWS, 1, 2).selectExpr("format_string('%05d', id) body")
        write(interrupted(numbers, name_server, "failed", place), server | {"topic": "failed"})
        named = {"txnAppId": "retried", "txnVersion": "1"}
        write(interrupted(numbers, name_server, "killed", place), server | named | {"topic": "killed"})
        sorted_rows = numbers.repartition(2, "body").sortWithinPartitions("body")
        write(interrupted(sorted_rows, name_server, "shuffled", place), server | named | {"topic": "shuffled"})
        copy(spark, server | {"topic": source}, place)
    print(json.dumps({case: sorted(path.read_text() for path in place.glob(f"{case}.*.ran")) for case in CASES}))


def write(frame: "DataFrame", options: Mapping[str, str]) -> None:
    frame.write.format("rocketmq").mode("append").options(**options).save()


def copy(spark: "SparkSession", options: Mapping[str, str], place: pathlib.Path) -> None:
    """Copy a topic twice, by foreachBatch and by a stream's sink."""
    server = options["nameServer"]
    source = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest")
    bodies = source.load().selectExpr("cast(body as string) body")

    def write_batch(frame: "DataFrame", version: int) -> None:
        named = {"topic": "foreach", "txnAppId": "retried", "txnVersion": str(version)}
        write(interrupted(frame, server, "foreach", place), {"nameServer": server} | named)

    sinks = (
        bodies.writeStream.foreachBatch(write_batch),
        interrupted(bodies, server, "sink", place)
        .writeStream.format("rocketmq")
        .options(nameServer=server, topic="sink"),
    )
    for number, sink in enumerate(sinks):
        checkpoint = str(place / f"checkpoint-{number}")
        sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def interrupted(frame: "DataFrame", name_server: str, case: str, place: pathlib.Path) -> "DataFrame":
    """Return the rows of a frame; one task ends before its last rows.

    By then some of its rows are in the topic `case`. The task fails in the case `failed`; otherwise its executor is
    killed.
    """
    from pyspark.sql.functions import udf

    row_of_task = udf(_interrupted_task(name_server, case, place), useArrow=False)
    return frame.select(row_of_task("body").alias("body"))


def _interrupted_task(name_server: str, case: str, place: pathlib.Path) -> Callable[[str], str]:
    rows: dict[int, int] = {}

    def is_first() -> bool:
        try:
            (place / f"{case}.interrupted").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def executor() -> int:
        process = os.getpid()
        while "java" not in pathlib.Path(f"/proc/{process}/comm").read_text():
            process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        return process

    def wait_for_a_message() -> None:
        from rmqlab.pipeline.topics.topicbounds import Bounds
        from rmqlab.pipeline.topics.topicoffsets import LATEST
        from rmqlab.pipeline.topics.topicoptions import TopicOptions

        bounds = Bounds(TopicOptions(name_server=name_server, topic=case))
        bounds.look()
        deadline = time.monotonic() + 120
        while not any(bounds.resolve(dict.fromkeys(bounds.queues, LATEST)).values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def run(body: str) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = context.taskAttemptId()
        rows[task] = rows.get(task, 0) + 1
        if rows[task] == 1:
            (place / f"{case}.{task}.ran").write_text(f"{context.partitionId()} {pathlib.Path.cwd()}")
        if rows[task] > ROWS // 3 and is_first():
            wait_for_a_message()
            if case == "failed":
                raise RuntimeError("injected")
            os.kill(executor(), signal.SIGKILL)
            time.sleep(60)
        return body + "." * 2000  # so that no buffer on the way holds all rows back

    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
