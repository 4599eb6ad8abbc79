"""An audit that tests of several files share, and how Spark executed it."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from rmqlab.pipeline.audit.audit import Summary, audit_run
from rmqlab.pipeline.audit.size import Scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class Audited:
    """A run's audit. Tests do not change its files, but may add some."""

    directory: pathlib.Path
    summary: Summary
    stages: Sequence[int]
    """The number of stages of each of Spark's SQL executions with jobs."""


def audited(spark: "SparkSession", directory: pathlib.Path, scale: Scale) -> Audited:
    """Audit a run."""
    before = _executions(spark)
    summary = audit_run(spark, directory, scale=scale)
    return Audited(directory, summary, [count for nth, count in _executions(spark).items() if nth not in before])


def _executions(spark: "SparkSession") -> dict[int, int]:
    """Return the number of stages of each of Spark's SQL executions with jobs, by id.

    Others only name a view: 5 ms each.
    """
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    listed = [found.apply(nth) for nth in range(found.size())]
    return {
        int(execution.executionId()): int(execution.stages().size())
        for execution in listed
        if not execution.jobs().isEmpty()
    }
