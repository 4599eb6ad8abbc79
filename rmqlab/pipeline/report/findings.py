"""The findings of the page: non-zero ones first, then the others, folded.

The others are zero or unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rmqlab.pipeline.report.data import RunData
from rmqlab.pipeline.report.story import anchor_of
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.findings import EVIDENCE_LIMIT
from rmqlab.verdict.metrics import Metric, UnknownMetricError, find_metric

_MOST_EVIDENCE = 12
Finding = Mapping[str, Any]


def render_findings(data: RunData) -> str:
    """Return the section with all metrics except those of single queues."""
    rows = [(metric, one) for metric, one in data.findings.items() if "@" not in metric]
    found = [(metric, one) for metric, one in rows if one["value"]]
    unknown = [(metric, one) for metric, one in rows if one["value"] is None]
    zero = [(metric, one) for metric, one in rows if one["value"] == 0]
    queues = len(data.findings) - len(rows)
    more = f'<p class="sub">{queues} metrics of single queues are only in the tables.</p>' if queues else ""
    return (
        '<section id="findings"><h2>Findings</h2><p class="sub">Click a metric to read its definition and its'
        f" limits.</p>{_table(data, found)}"
        f"{_folded(data, unknown, 'unknown: evidence is missing')}{_folded(data, zero, 'zero')}{more}</section>"
    )


def value_of(finding: Finding | None) -> str:
    """Format a value for the page."""
    if finding is None or finding["value"] is None:
        return "unknown"
    value = finding["value"]
    text = f"{value:,.2f} s" if finding["unit"] == "s" else f"{value:,}"
    return f"≥ {text}" if finding["at_least"] else text


def is_violating(data: RunData, metric: str) -> bool:
    """True if the verdict is `violated` because of this metric or its parent.

    Its parent is the metric that it is a class of.
    """
    violating: Sequence[str] = data.summary.get("violating", ())
    return metric in violating or metric.partition(".")[0] in violating


def _folded(data: RunData, rows: Sequence[tuple[str, Finding]], text: str) -> str:
    if not rows:
        return ""
    count = f"{len(rows)} metric{'' if len(rows) == 1 else 's'}"
    return f'<details class="folded"><summary>{count} {text}</summary>{_table(data, rows)}</details>'


def _table(data: RunData, rows: Iterable[tuple[str, Finding]]) -> str:
    body = "".join(_row(metric, one, is_bad=is_violating(data, metric)) for metric, one in rows)
    if not body:
        return ""
    return (
        '<table class="findings"><thead><tr><th>metric</th><th>value</th><th>evidence</th></tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _row(metric: str, one: Finding, *, is_bad: bool) -> str:
    unit = "" if one["unit"] == "s" or one["value"] is None else f" {one['unit']}"
    bad = ' class="bad"' if is_bad and one["value"] else ""
    return (
        f'<tr id="{escape(anchor_of(metric))}"{bad}><th>{_name(metric)}</th>'
        f"<td>{escape(value_of(one))}{escape(unit)}</td><td>{_evidence(one)}</td></tr>"
    )


def _name(metric: str) -> str:
    declared = _declared(metric)
    if declared is None:
        return escape(metric)
    parts = [f"<p>{escape(declared.text[:1].upper() + declared.text[1:])}.</p>"]
    parts += [f"<p>{escape(declared.definition)}</p>"] if declared.definition else []
    parts += [f"<p>It does not detect {escape(declared.blind_to)}.</p>"] if declared.blind_to else []
    return f"<details><summary>{escape(metric)}</summary>{''.join(parts)}</details>"


def _declared(metric: str) -> Metric | None:
    try:
        return find_metric(metric, METRICS)
    except UnknownMetricError:
        return None


def _evidence(one: Finding) -> str:
    if one["missing"]:
        return escape(one["missing"])
    if not one["value"]:
        return ""
    pieces = [str(piece["says"]) for piece in one["evidence"]]
    first = _items(pieces[:1])
    if len(pieces) < 2:
        return first
    rest = pieces[1:_MOST_EVIDENCE]
    more = f"<li>and {len(pieces) - _MOST_EVIDENCE} more in the tables</li>" if len(pieces) > _MOST_EVIDENCE else ""
    limit = f" (a finding keeps at most {EVIDENCE_LIMIT})" if len(pieces) >= EVIDENCE_LIMIT else ""
    return f"{first}<details><summary>{len(pieces) - 1} more{limit}</summary>{_items(rest, more)}</details>"


def _items(pieces: Iterable[str], more: str = "") -> str:
    return f"<ul>{''.join(f'<li>{escape(piece)}</li>' for piece in pieces)}{more}</ul>"
