"""Both judges, reduced to values of metrics, named messages, and verdict lines."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNIQUE_ID = re.compile(r"\b[0-9A-F]{32}\b")


@attrs.frozen
class Judged:
    """What one judge says of one run."""

    verdict: Verdict
    lines: tuple[str, ...]
    """Reasons of the verdict, and warnings."""
    findings: Mapping[str, Finding]

    def value(self, metric: str) -> float | None:
        """The value of a metric; 0 for one that was not measured, None for an unknown one."""
        finding = self.findings.get(metric)
        return 0 if finding is None else finding.value

    def is_unknown(self, metric: str) -> bool:
        return self.value(metric) is None

    def ids(self, metric: str) -> frozenset[str]:
        """Return the messages named by a metric's finding, its evidence, or its text."""
        finding = self.findings.get(metric)
        if finding is None:
            return frozenset()
        in_evidence = [message_id for piece in finding.evidence for message_id in piece.message_ids]
        in_words = [found for piece in finding.evidence for found in _UNIQUE_ID.findall(piece.text)]
        return frozenset(finding.message_ids or in_evidence or in_words)

    def lines_about(self, process: str) -> list[str]:
        """The lines of the verdict that name a process."""
        named = re.compile(rf"(?<![\w-]){re.escape(process)}(?![\w-])")
        return [line for line in self.lines if named.search(line)]


def _judged(judgement: Judgement) -> Judged:
    decision = judgement.decision
    return Judged(decision.verdict, (*decision.why, *decision.warnings), judgement.by_metric)


Judge = Callable[[Path], Judged]


def check(directory: Path) -> Judged:
    """Judge a run in plain Python."""
    return _judged(judge_directory(directory))


def auditor(spark: "SparkSession") -> Judge:
    """Return a judge on Spark."""
    from rmqlab.pipeline.audit.audit import audit_run

    def audit(directory: Path) -> Judged:
        return _judged(audit_run(spark, directory).judgement)

    return audit
