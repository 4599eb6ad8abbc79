"""Repeated batch writes: equal SPARK_IDs if the writer names the write."""

import pathlib
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.pipeline.test_topicsource import read
from tests.pipeline.test_topicwriter import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.pipeline.conftest import Lab


def ids(spark: "SparkSession", lab: "Lab", topic: str) -> list[tuple[str, str]]:
    found = read(spark, lab, topic).selectExpr("properties['SPARK_ID'] id", "cast(body as string) body").collect()
    return sorted((row.id, row.body) for row in found)


def test_a_write_of_the_same_version_repeats_the_ids_of_its_rows(spark: "SparkSession", lab: "Lab") -> None:
    lab.create_topic("versions", 2)
    rows = spark.range(0, 40, 1, 2).selectExpr("cast(id as string) body")
    for version in ("7", "7", "8"):
        write(lab, rows, topic="versions", txnAppId="billing", txnVersion=version)
    found = ids(spark, lab, "versions")
    assert len(found) == 120
    wanted = {(f"billing-{version}-{n // 20}-{n % 20}", str(n)) for version in (7, 8) for n in range(40)}
    assert set(found) == wanted
    assert read(spark, lab, "versions").selectExpr("properties['SPARK_ID'] id").distinct().count() == 80


def test_a_write_without_a_version_has_ids_of_its_own(spark: "SparkSession", lab: "Lab") -> None:
    lab.create_topic("unversioned", 1)
    rows = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) body")
    for _ in range(2):
        write(lab, rows, topic="unversioned")
    assert len({spark_id for spark_id, _ in ids(spark, lab, "unversioned")}) == 20


def test_a_batch_of_a_stream_that_is_repeated_is_dropped_by_its_ids(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    """The batch is written, then fails, so the restarted query writes it again."""
    lab.create_topic("replayed", 2)
    source = tmp_path / "source"
    spark.range(0, 60, 1, 2).selectExpr("cast(id as string) body").write.json(str(source))
    failures = ["injected"]

    def write_and_fail(frame: "DataFrame", version: int) -> None:
        write(lab, frame, topic="replayed", txnAppId="replayed", txnVersion=str(version))
        if failures:
            raise RuntimeError(failures.pop())

    stream = (
        spark.readStream.schema("body string").json(str(source)).writeStream.foreachBatch(write_and_fail)
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    )  # fmt: skip
    with pytest.raises(PySparkException, match="injected"):
        stream.start().awaitTermination()
    stream.start().awaitTermination()
    found = ids(spark, lab, "replayed")
    assert len(found) == 120
    assert sorted(body for _, body in set(found)) == sorted(map(str, range(60)))
