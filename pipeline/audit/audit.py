"""Audit a run: facts, questions, one summary.

    audit_run(spark, Path("~/.rmqlab/demo").expanduser())

Tables are parquet below `<run>/audit/`, the summary is `audit.json` beside them. `holds`: nothing that was acknowledged
was lost, and no slave's log differs from its master's. `violated`: something was, or does. `unknown`: something that
would decide it is missing, or a journal is torn.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pipeline.audit import detection, fates, queues, replication, timelines
from pipeline.audit.facts import Run, read_facts
from pipeline.audit.findings import Finding
from pipeline.commitlogs import NoStoreError, find_logs, log_files, written_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "unknown"
EXIT_STATUS = {HOLDS: 0, VIOLATED: 1, UNKNOWN: 2}
FOLDER = "audit"
_SMALL_BYTES = 64 * 2**20
SUMMARY = "audit.json"
QUESTIONS: tuple[tuple[str, Callable[[Run], Iterator[Finding]]], ...] = (
    ("the fate of every message", fates.judge),
    ("order", queues.judge_order),
    ("outages", queues.judge_outages),
    ("consumer offsets", queues.judge_rollbacks),
    ("duplicates", queues.judge_duplicates),
    ("replication", replication.judge),
    ("who noticed", detection.judge),
)


@attrs.frozen(kw_only=True)
class Summary:
    """What the audit of a run says."""

    verdict: str
    why: tuple[str, ...]
    run: str
    began_at: int
    ended_at: int
    findings: dict[str, Finding]
    presence: list[dict[str, Any]]
    """How many messages of each outcome are at which nodes, and consumed."""
    tables: str

    def as_json(self) -> dict[str, Any]:
        document = attrs.asdict(self, recurse=False)
        document["findings"] = {metric: finding.as_json() for metric, finding in self.findings.items()}
        return document


def audit_run(
    spark: "SparkSession", directory: Path, out: Path | None = None, tell: Callable[[str], object] = lambda _: None
) -> Summary:
    """Judge a run or a cluster by its directory. `tell` hears what is being done. Errors as read_facts."""
    out = out or directory / FOLDER
    is_small = _bytes_to_read(directory) < _SMALL_BYTES
    _fit(spark, is_small=is_small)
    tell("reading journals and stores")
    run = read_facts(spark, directory, out, is_small=is_small)
    findings: dict[str, Finding] = {}
    for title, judge in QUESTIONS:
        tell(title)
        findings |= {finding.metric: finding for finding in judge(run)}
    tell("timelines")
    timelines.make(run)
    verdict, why = _verdict(findings, run)
    summary = Summary(
        verdict=verdict,
        why=tuple(why),
        run=str(directory),
        began_at=run.began_at,
        ended_at=run.ended_at,
        findings=findings,
        presence=[row.asDict() for row in run.rows("select * from presence order by outcome, messages desc", 200)],
        tables=str(out),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).write_text(json.dumps(summary.as_json(), indent=1))
    return summary


def _bytes_to_read(directory: Path) -> int:
    """Of journals and of what was written to the logs."""
    journals = sum(path.stat().st_size for path in (directory / "journal").glob("*.msgpack"))
    try:
        return journals + sum(written_end(path) for log in find_logs(directory) for path in log_files(log))
    except NoStoreError:
        return journals


def _fit(spark: "SparkSession", *, is_small: bool) -> None:
    """A small run is over before a plan that is made anew half-way, or compiled, has paid for itself."""
    settings = {
        "spark.sql.adaptive.enabled": str(not is_small).lower(),
        "spark.sql.shuffle.partitions": "1" if is_small else "64",
        "spark.sql.codegen.wholeStage": str(not is_small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if is_small else "FALLBACK",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)


def _verdict(findings: dict[str, Finding], run: Run) -> tuple[str, list[str]]:
    deciding = [findings["lost"], *(one for metric, one in findings.items() if metric.startswith("divergence "))]
    broken = [f"{one.metric}: {one.value} {one.unit}" for one in deciding if one.value]
    if broken:
        return VIOLATED, broken
    missing = [f"{one.metric}: {one.missing}" for one in deciding if one.value is None]
    missing += [f"the journal of {process} is torn" for process in run.torn_journals]
    if missing:
        return UNKNOWN, missing
    return HOLDS, ["nothing acknowledged was lost, and no log differs from its master's"]
