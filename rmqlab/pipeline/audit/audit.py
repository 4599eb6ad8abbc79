"""Audit a run: read facts, compute each question's metrics, write a summary.

    audit_run(spark, Path("~/.rmqlab/demo").expanduser())

Tables are parquet below `<run>/audit/`, the summary is `audit.json` in the same directory. `rmqlab.verdict.rules`
describes the evidence behind the verdict.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rmqlab.pipeline.audit import (
    beliefs,
    clocks,
    consumers,
    duetimes,
    fates,
    order,
    outages,
    overdue,
    records,
    replication,
    storefiles,
    tablefiles,
    timelines,
    uncommitted,
)
from rmqlab.pipeline.audit.facts import read_facts
from rmqlab.pipeline.audit.relations import Query, Relations
from rmqlab.pipeline.audit.rounds import Rounds
from rmqlab.pipeline.audit.run import Run
from rmqlab.pipeline.audit.size import Scale, bytes_to_read, scale_of
from rmqlab.pipeline.audit.sources import Reading, reading
from rmqlab.pipeline.errors import UserError
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.clocksteps import with_clock_steps
from rmqlab.verdict.doubts import ClockDependencies, withdraw_doubtful
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement, conclude
from rmqlab.verdict.logcover import weaken_by_stores
from rmqlab.verdict.straystores import stray_remarks
from rmqlab.verdict.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

FOLDER = "audit"
_PARTITION_BYTES = 128 * 2**20
"""Bytes of journals and logs per shuffle partition, which is about a fifth as large: rows have fewer columns."""
_CANCEL_SECONDS = 0.5
"""Time between two attempts to cancel what an interrupted audit still computes."""
SUMMARY = "audit.json"
QUESTIONS: tuple[Callable[[Run], Iterator[Finding]], ...] = (
    fates.judge,
    order.judge,
    outages.judge,
    consumers.judge,
    replication.judge,
    records.judge,
    storefiles.judge,
    tablefiles.judge,
    uncommitted.judge,
    duetimes.judge,
    overdue.judge,
    clocks.judge,
    beliefs.judge,
    timelines.judge,
)
"""The questions, in the order of their findings. They are independent of each other."""

_PRESENCE = "select * from presence order by outcome, messages desc, broker, nodes, is_consumed limit 200"
# The consumer groups of each node that consumed or committed anything.
_GROUPS = """
select node, collect_set(`group`) `groups` from (
    select node, `group` from deliveries union all select node, `group` from commits) group by node order by node
"""

_SENDERS = "select distinct node from sends"


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
    scale: Scale | None = None,
    files: Reading | None = None,
    given: Collection[str] = (),
    on_progress: Callable[[str], object] = lambda _: None,
) -> Summary:
    """Audit the run or cluster in a directory. Raises the errors of `read_facts`.

    `on_progress` is called with the current step as text. By default the size of the run decides about `scale`. `files`
    are the tables of a reading that was started before the session. `given` contains the names of settings that the
    user set: the audit does not override them. Raises UserError for a session of Spark Connect.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UserError("an audit cannot use a session of Spark Connect; expected one of open_session")
    out = out or directory / FOLDER
    byte_count = bytes_to_read(directory)
    scale = scale or scale_of(byte_count)
    _configure_spark(spark, byte_count, scale, given=given)
    on_progress("reading journals and stores")
    with contextlib.nullcontext(files) if files else reading(directory, out, scale) as begun:
        run = read_facts(Relations(spark, out, scale), directory, begun)
    findings = _judge_all(run, on_progress)
    presence, groups, senders, commits, far_commits = run.batch(
        *map(Query, (_PRESENCE, _GROUPS, _SENDERS, storefiles.HIGHEST_COMMITS, storefiles.FAR_COMMITS))
    )
    groups_of = {row.node: row.groups for row in groups}
    dependencies = ClockDependencies(
        groups=groups_of,
        senders=[row.node for row in senders],
        masters=run.roles.masters_of_slaves,
    )
    doubtless = withdraw_doubtful(with_clock_steps(findings, run.conditions.went_back), dependencies)
    remarks = [f"{node}: {state.remark}" for node, state in run.log_states.items() if state.remark]
    remarks += [*stray_remarks(run.strays), *storefiles.remarks(run)]
    remarks += storefiles.offset_remarks(run, groups_of, commits)
    remarks += storefiles.commit_remarks(run, far_commits)
    earned = weaken_by_stores(doubtless, run.incomplete, run.misplaced, run.conditions.broker_names)
    judgement = conclude(earned, METRICS, run.conditions, remarks)
    summary = Summary(
        judgement=judgement,
        run=str(directory),
        began_at=run.began_at,
        ended_at=run.ended_at,
        presence=[row.asDict() for row in presence],
        tables=str(out),
    )
    out.mkdir(parents=True, exist_ok=True)
    written = out / f"{SUMMARY}.new"
    written.write_text(json.dumps(summary.as_json(), indent=1))
    written.replace(out / SUMMARY)
    return summary


def _judge_all(run: Run, on_progress: Callable[[str], object]) -> list[Finding]:
    """Return all findings, in the order of the questions.

    Each question has a thread, and queries for which they wait at the same time are executed together.
    """

    def execute(batches: Sequence[Sequence[Query]]) -> "list[list[Sequence[Row]]]":
        queries = list(itertools.chain.from_iterable(batches))
        on_progress(", ".join(query.name for query in queries if query.name) or "findings")
        results = iter(run.relations.execute(queries))
        return [list(itertools.islice(results, len(batch))) for batch in batches]

    def judge_question(judge: Callable[[Run], Iterator[Finding]]) -> list[Finding]:
        try:
            return list(judge(sharing))
        finally:
            rounds.leave()

    rounds = Rounds(execute, len(QUESTIONS))
    sharing = attrs.evolve(run, rounds=rounds)
    with ThreadPoolExecutor(len(QUESTIONS)) as threads:
        judged: list[Future[list[Finding]]] = []
        try:
            judged.extend(threads.submit(judge_question, judge) for judge in QUESTIONS)
            return list(itertools.chain.from_iterable(findings.result() for findings in judged))
        except BaseException:  # also Ctrl-C: the pool waits for its threads
            rounds.end()
            run.relations.cancel()
            while wait(judged, timeout=_CANCEL_SECONDS).not_done:
                run.relations.cancel()
            raise


def _configure_spark(spark: "SparkSession", byte_count: int, scale: Scale, *, given: Collection[str]) -> None:
    """Configure Spark for the run's size.

    Adaptive plans and broadcasts cost more than they save if each table has one partition: a join needs no shuffle
    then, but each broadcast is a job. In a small run compilation costs more than it saves, too.
    """
    is_small, is_large = scale is Scale.SMALL, scale is Scale.LARGE
    partitions = max(spark.sparkContext.defaultParallelism, byte_count // _PARTITION_BYTES)
    settings = {
        "spark.sql.adaptive.enabled": str(is_large).lower(),
        "spark.sql.autoBroadcastJoinThreshold": "10MB" if is_large else "-1",
        "spark.sql.shuffle.partitions": str(partitions) if is_large else "1",
        "spark.sql.constraintPropagation.enabled": str(is_large).lower(),
        "spark.sql.codegen.wholeStage": str(not is_small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if is_small else "FALLBACK",
        # Sorted rows are aggregated in one step, without partial aggregates: see `fates`.
        "spark.sql.execution.replaceHashWithSortAgg": "true",
        # The JVM never compiles a longer method, so Spark must not write one.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # With more groups, Spark sorts all rows to aggregate sets. A medium run has at most half a million messages.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "128" if is_large else str(2**20),
    }
    for key, value in settings.items():
        if key not in given:
            spark.conf.set(key, value)
