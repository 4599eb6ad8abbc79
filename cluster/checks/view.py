"""Findings as text for people. Only functions named `render_*` use rich."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rmqlab.cluster.cli.output.event_lines import event_line
from rmqlab.cluster.cli.output.screen import HangingLine
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable
from rmqlab.verdict.decision import Decision
from rmqlab.verdict.findings import Evidence, Finding
from rmqlab.verdict.metrics import Metric
from rmqlab.verdict.verdict import Verdict

_STYLES = {Verdict.HOLDS: "green", Verdict.VIOLATED: "red", Verdict.UNKNOWN: "yellow"}
_IDS_SHOWN = 8
_EVIDENCE_SHOWN = 5


def render_findings(findings: Iterable[Finding]) -> UncutTable:
    """Return a table with one row for each finding."""
    table = UncutTable()
    table.add_column("METRIC", is_one_line=True)
    table.add_column("VALUE", justify="right", is_one_line=True)
    table.add_column("")
    for finding in findings:
        text, missing = printable(str(finding.text)), printable(f"unknown: {finding.missing}")
        note = Text(text, "dim") if finding.is_known else Text(missing, "yellow")
        table.add_row(Text(printable(finding.metric)), _value(finding), note)
    return table


def render_evidence(finding: Finding) -> RenderableType:
    """Return one finding with its first pieces of evidence and the events around each."""
    head = Text(printable(f"{finding.metric}  "), "bold").append(_value(finding))
    head.append(printable(f"  {finding.text or finding.missing}"), "dim")
    parts: list[RenderableType] = [head]
    for piece in finding.evidence[:_EVIDENCE_SHOWN]:
        parts += ["", Text(printable(f"  {piece.text}"), "cyan"), *_ids(piece)]
        parts += [Padding(event_line(entry.as_json()), (0, 0, 0, 4)) for entry in piece.entries]
    more = len(finding.evidence) - _EVIDENCE_SHOWN
    if more > 0:
        parts.append(Text(f"\n  and {more} more; --json has them", "dim"))
    return Group(*parts)


def render_decision(decision: Decision) -> RenderableType:
    """Return the verdict with its reasons, then one line for each warning."""
    text = Text(f"{decision.verdict}", f"{_STYLES[decision.verdict]} bold")
    text.append(printable(f": {'; '.join(decision.why)}"), "not bold default")
    warnings = (Text("warning", "yellow").append(printable(f": {one}"), "default") for one in decision.warnings)
    return Group(*(HangingLine(line) for line in (text, *warnings)))


def render_metrics(metrics: Iterable[Metric]) -> UncutTable:
    """Return the table of all metrics."""
    table = UncutTable()
    table.add_column("METRIC", is_one_line=True)
    table.add_column("UNIT", is_one_line=True)
    table.add_column("MEANING")
    for metric in metrics:
        table.add_row(metric.title, metric.unit, metric.text)
    return table


def _value(finding: Finding) -> Text:
    if finding.value is None:
        return Text("?", "yellow")
    number = f"{finding.value:.2f}" if isinstance(finding.value, float) else str(finding.value)
    return Text(
        f"{'>= ' if finding.is_at_least else ''}{counted(number, finding.unit)}", "" if finding.value else "dim"
    )


def _ids(piece: Evidence) -> list[Text]:
    if not piece.message_ids:
        return []
    shown = ", ".join(piece.message_ids[:_IDS_SHOWN])
    more = len(piece.message_ids) - _IDS_SHOWN
    return [Text(f"    {printable(shown)}" + (f" and {more} more" if more > 0 else ""))]
