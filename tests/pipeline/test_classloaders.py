"""Threads that start queries compile for tasks, too."""

from typing import TYPE_CHECKING

from rmqlab.pipeline.audit.classloaders import class_loader, find_task_loader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compiled(spark: "SparkSession", divisor: int) -> int:
    """Return how many programs Spark compiles for a query with this number."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
    before = int(metrics.METRIC_COMPILATION_TIME().getCount())
    assert spark.sql(f"select id % {divisor} from range(100)").toArrow().num_rows == 100
    return int(metrics.METRIC_COMPILATION_TIME().getCount()) - before


def test_the_code_of_a_stage_is_compiled_once(spark: "SparkSession") -> None:
    loader = find_task_loader(spark)
    assert loader is not None
    compiled(spark, 1_000_001)  # and what such queries share
    assert compiled(spark, 1_000_002) == 2
    with class_loader(spark, loader):
        assert compiled(spark, 1_000_003) == 1
    assert compiled(spark, 1_000_004) == 2


def test_a_thread_keeps_its_own_loader_without_tasks_in_this_process(spark: "SparkSession") -> None:
    with class_loader(spark, None):
        assert compiled(spark, 1_000_005) >= 2
