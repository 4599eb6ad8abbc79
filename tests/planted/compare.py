"""Compares a judge's findings in a planted run with the declared and clean ones."""

import fnmatch
from collections.abc import Iterator

import attrs

from rmqlab.cluster.plant.model import Planted, Report
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.findings import EVIDENCE_LIMIT
from rmqlab.verdict.verdict import Verdict
from tests.planted.judges import Judged

_MEASUREMENTS = ("sent", "expired", "replication_lag", "replication_lag_duration")
"""Metrics whose value says nothing against a run."""
_NAMES = frozenset(metric.name for metric in METRICS)


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of one judge for one planted run."""

    missed: tuple[str, ...]
    """Missing reports."""
    misnamed: tuple[str, ...]
    """Findings that name other messages than they should."""
    extra: tuple[str, ...]
    """Reports that the kind does not explain."""

    @property
    def is_right(self) -> bool:
        return not (self.missed or self.misnamed or self.extra)


def compare(planted: Planted, judged: Judged, clean: Judged) -> Outcome:
    """Compare one judge's findings with the declaration of the violation."""
    missed = [report for report in planted.reports if not _is_reported(report, judged, clean)]
    misnamed = [one for one in planted.reports if one not in missed and not _names_the_right(one, judged, clean)]
    return Outcome(
        missed=tuple(report.metric for report in missed),
        misnamed=tuple(f"{one.metric}: {_difference(one, judged, clean)}" for one in misnamed),
        extra=tuple(_extra(planted, judged, clean)),
    )


def faults_of(clean: Judged) -> list[str]:
    """Return a judge's findings in the unplanted run: there should be none."""
    faults = [] if clean.verdict is Verdict.HOLDS else [f"verdict {clean.verdict}"]
    faults += [line for line in clean.lines if _metric_of(line)]
    return faults + [
        f"{name}: {finding.value:g} {finding.unit}"
        for name, finding in clean.findings.items()
        if finding.value and not _is_measurement(name)
    ]


def _is_reported(report: Report, judged: Judged, clean: Judged) -> bool:
    name, _, target = report.metric.partition(" ")
    if name == "gap":
        return judged.verdict is not Verdict.HOLDS and len(judged.lines_about(target)) > len(clean.lines_about(target))
    if name == "warning":
        return len(judged.lines_about(target)) > len(clean.lines_about(target))
    if report.is_unknown:
        return judged.is_unknown(report.metric) and not clean.is_unknown(report.metric)
    return _rose(report.metric, judged, clean)


def _rose(metric: str, judged: Judged, clean: Judged) -> bool:
    return (judged.value(metric) or 0) > (clean.value(metric) or 0)


def _names_the_right(report: Report, judged: Judged, clean: Judged) -> bool:
    return not report.message_ids or not _difference(report, judged, clean)


def _difference(report: Report, judged: Judged, clean: Judged) -> str:
    named = judged.ids(report.metric)
    unnamed = set(report.message_ids) - named if len(named) < EVIDENCE_LIMIT else set()
    wrong = named - clean.ids(report.metric) - {*report.message_ids, *report.also_allowed}
    parts = [f"{len(unnamed)} of {len(report.message_ids)} not named"] if unnamed else []
    return ", ".join(parts + ([f"{len(wrong)} others named"] if wrong else []))


def _extra(planted: Planted, judged: Judged, clean: Judged) -> Iterator[str]:
    allowed = (*(_base(report.metric) for report in planted.reports), *planted.kind.consequences)
    for name in sorted(judged.findings.keys() | clean.findings.keys()):
        if _is_measurement(name) or any(fnmatch.fnmatchcase(_base(name), pattern) for pattern in allowed):
            continue
        if _rose(name, judged, clean):
            yield f"{name} {judged.value(name):g}"
        elif judged.is_unknown(name) and not clean.is_unknown(name) and "gap" not in allowed:
            yield f"{name} unknown"
    if not {"gap", "warning"} & set(allowed):
        yield from (line for line in judged.lines if line not in clean.lines and not _metric_of(line))


def _is_measurement(name: str) -> bool:
    return _base(name).split(".")[0] in _MEASUREMENTS


def _base(metric: str) -> str:
    return metric.partition(" ")[0]


def _metric_of(line: str) -> str:
    """The metric that a line of the verdict begins with.

    Empty for one that names a gap.
    """
    name = line.partition(":")[0].partition(" ")[0]
    return name if name in _NAMES else ""
