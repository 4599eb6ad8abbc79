"""Audit a run: read facts, compute each question's metrics, write a summary.

    audit_run(spark, Path("~/.rmqlab/demo").expanduser())

Tables are parquet below `<run>/audit/`, the summary is `audit.json` in the same directory. `rmqlab.verdict.grounds`
describes the evidence behind the verdict.
"""

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rmqlab.pipeline.audit import (
    beliefs,
    clocks,
    fates,
    queues,
    records,
    replication,
    storefiles,
    tablefiles,
    timelines,
    unstored,
)
from rmqlab.pipeline.audit.facts import Run, read_facts
from rmqlab.pipeline.audit.size import SMALL_BYTES, bytes_to_read
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.doubts import withdraw_doubtful
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement, conclude
from rmqlab.verdict.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "audit"
_AT_ONCE = 3
_PARTITION_BYTES = 128 * 2**20
"""Bytes of journals and logs per shuffle partition, which is about a fifth as large: rows have fewer columns."""
SUMMARY = "audit.json"
QUESTIONS: tuple[tuple[str, Callable[[Run], Iterator[Finding]]], ...] = (
    ("the fate of every message", fates.judge),
    ("order", queues.judge_order),
    ("outages", queues.judge_outages),
    ("consumer offsets and duplicates", queues.judge_consumers),
    ("replication", replication.judge),
    ("records and queues", records.judge),
    ("files of stores", storefiles.judge),
    ("deliveries", unstored.judge),
    ("tables of brokers", tablefiles.judge),
    ("clocks", clocks.judge),
    ("who was believed to serve", beliefs.judge),
    ("timelines", timelines.judge),
)
"""The questions, in the order of their findings. They are independent of each other."""


@attrs.frozen(kw_only=True)
class Summary:
    """The result of an audit."""

    judgement: Judgement
    run: str
    began_at: int
    """Milliseconds of the cluster's clock, as `ended_at`."""
    ended_at: int
    presence: list[dict[str, Any]]
    """Number of messages by outcome, the nodes that have a copy, and whether they were consumed."""
    tables: str

    @property
    def findings(self) -> Mapping[str, Finding]:
        return self.judgement.by_metric

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    def as_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("run", "began_at", "ended_at", "presence", "tables")}
        return {**self.judgement.summary(), **own}


def audit_run(
    spark: "SparkSession",
    directory: Path,
    out: Path | None = None,
    *,
    is_small: bool | None = None,
    given: Collection[str] = (),
    tell: Callable[[str], object] = lambda _: None,
) -> Summary:
    """Audit the run or cluster in a directory. Raises the errors of `read_facts`.

    `tell` is called with progress messages. `is_small` selects the mode: one partition and reads in this process, or
    all of Spark's parallelism; by default the size of the run decides. The results are equal. `given` contains the
    settings that the user set: the audit does not override them.
    """
    out = out or directory / FOLDER
    byte_count = bytes_to_read(directory)
    is_small = byte_count < SMALL_BYTES if is_small is None else is_small
    _fit(spark, byte_count, is_small=is_small, given=given)
    tell("reading journals and stores")
    run = read_facts(spark, directory, out, is_small=is_small)
    judgement = conclude(withdraw_doubtful(_ask(run, tell), _groups(run)), METRICS, run.conditions)
    summary = Summary(
        judgement=judgement,
        run=str(directory),
        began_at=run.began_at,
        ended_at=run.ended_at,
        presence=[row.asDict() for row in run.rows("select * from presence order by outcome, messages desc", 200)],
        tables=str(out),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).write_text(json.dumps(summary.as_json(), indent=1))
    return summary


def _groups(run: Run) -> dict[str, str]:
    """Return the consumer group of each node that consumed or committed anything."""
    rows = run.rows("select node, `group` from deliveries union select node, `group` from commits")
    return {row.node: row["group"] for row in rows}


def _ask(run: Run, tell: Callable[[str], object]) -> list[Finding]:
    """Return all findings, in the order of the questions.

    The questions of a small run are computed concurrently: their queries take longer to plan than to execute, and
    planning uses one processor. In a large run each question uses all processors.
    """

    def answer(question: tuple[str, Callable[[Run], Iterator[Finding]]]) -> list[Finding]:
        title, judge = question
        tell(title)
        return list(judge(run))

    with ThreadPoolExecutor(_AT_ONCE if run.is_small else 1) as threads:
        return list(itertools.chain.from_iterable(threads.map(answer, QUESTIONS)))


def _fit(spark: "SparkSession", byte_count: int, *, is_small: bool, given: Collection[str]) -> None:
    """Configure Spark for the run's size.

    In a small run adaptive plans and compilation cost more than they save.
    """
    partitions = max(spark.sparkContext.defaultParallelism, byte_count // _PARTITION_BYTES)
    settings = {
        "spark.sql.adaptive.enabled": str(not is_small).lower(),
        "spark.sql.shuffle.partitions": "1" if is_small else str(partitions),
        "spark.sql.codegen.wholeStage": str(not is_small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if is_small else "FALLBACK",
    }
    for key, value in settings.items():
        if key not in given:
            spark.conf.set(key, value)
