"""Scenarios and verdicts as text for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rmqlab.cluster.cli.output.screen import HangingLine
from rmqlab.cluster.scenario.catalogue import Listed, large_dir
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Run
from rmqlab.runtime.text.printable import printable, printable_values

_STYLES = {"holds": "bold green", "violated": "bold red", "unknown": "bold yellow"}
_MARKS = {"holds": "✓", "violated": "✗", "unknown": "?"}
_IDS = 10
_EVIDENCE = 3


def render_head(scenario: Scenario, profile: str, rate: float | None) -> RenderableType:
    """Return the head of a run: name, claim and reason. A simulated run has no rate."""
    text = Text.assemble((scenario.name, "bold"), f": {scenario.claim}")
    if rate is None:
        time = "simulated, in virtual time"
    else:
        time = "in real time" if rate == 1 else f"time runs {rate:g} times as fast"
    note = Text("; ".join(filter(None, (f"profile {profile}, {time}", ", ".join(scenario.sources)))), "dim")
    why = Text("" if profile == "4.9" else "In 4.9: ", "italic").append(" ".join(scenario.why.split()))
    return Group(*(HangingLine(line) for line in (text, note, why) if line))


def render_run(run: Run) -> RenderableType:
    """Return each expectation, the verdict, the evidence and the replay command."""
    parts: list[RenderableType] = []
    for judged in run.judged:
        line = Text(f" {_MARKS[judged.verdict]} ", _STYLES[judged.verdict])
        line.append(judged.expectation.title, "bold").append(printable(f": {judged.found}")).append(
            f"  ({judged.bound})", "dim"
        )
        parts.append(HangingLine(line, 3))
        if judged.verdict != "holds":
            parts += _evidence(judged.as_json(), run.began_at)
    parts += [
        HangingLine(Text(printable(f" {_MARKS[run.verdict]} {text}"), _STYLES[run.verdict]), 3)
        for text in run.default_reasons
    ]
    parts += [Text(printable(f" ? {text}"), _STYLES["unknown"]) for text in run.missing]
    parts.append(HangingLine(Text.assemble((str(run.verdict), _STYLES[run.verdict]), f": {run.scenario.claim}")))
    warnings = (Text("warning", "yellow").append(printable(f": {text}"), "default") for text in run.warnings)
    parts += [HangingLine(warning) for warning in warnings]
    if run.is_disturbed and run.verdict != "holds":
        parts.append(HangingLine(Text(_disturbance(run), "yellow")))
    parts.append(Text(_cost(run), "dim"))
    parts.append(Text(f"replay: {run.command}", "dim"))
    parts.append(Text(f"{run.directory.path}", "dim"))
    return Group(*parts)


def _disturbance(run: Run) -> str:
    rate = run.scenario.cluster.rate
    return (
        f"this machine stood still for {run.stood_still:.2f} s, {run.stood_still * rate:.1f} s of the cluster's:"
        " time-outs may"
        f" have passed for that alone. Play it at less than --rate {rate:g}, or when the machine has less to do"
    )


def _cost(run: Run) -> str:
    """Return the duration and the resources."""
    cost = run.resources
    parts = [f"{run.seconds:.1f} s of virtual time" if run.is_simulated else f"{run.seconds:.1f} s"]
    parts += [] if cost.start_seconds is None else [f"ready after {cost.start_seconds:.1f} s"]
    parts += [] if cost.memory_bytes is None else [f"{cost.memory_bytes / 1e6:.0f} MB of memory"]
    return ", ".join([*parts, f"{cost.cpu_seconds:.1f} s of processor time"])


def _evidence(document: Mapping[str, Any], began_at: int) -> list[RenderableType]:
    """Return the evidence, with times relative to the start."""
    lines: list[RenderableType] = []
    ids: Sequence[str] = printable_values(document["message_ids"])
    if ids:
        more = f" and {len(ids) - _IDS} more" if len(ids) > _IDS else ""
        lines.append(Text(f"     messages {', '.join(ids[:_IDS])}{more}", "dim"))
    for piece in printable_values(document["evidence"][:_EVIDENCE]):
        at = f"{_seconds(piece['at'], began_at)}: " if "at" in piece else ""
        lines.append(Text(f"     {at}{piece['says']}"))
        lines += [
            Text(f"       {_seconds(entry['at'], began_at)}  {entry['node'] or 'cluster':12} {entry['kind']}", "dim")
            for entry in piece.get("entries", [])[:_IDS]
        ]
    return lines


def _seconds(at_millis: int, began_at: int) -> str:
    return f"{(at_millis - began_at) / 1000:+9.3f} s"


def render_catalogue(listed: Iterable[Listed]) -> Group:
    """Render each scenario: name and issues, then its claims, indented.

    A table would leave 20 of 80 columns for the claims.
    """
    parts: list[RenderableType] = []
    for it in listed:
        scenario = it.scenario
        claim = Text(scenario.claim, no_wrap=False, overflow="fold")
        if scenario.differs_hardened and scenario.hardened:
            claim.append(f"\nhardened: {scenario.hardened.claim}", "dim")
        if it.path.parent.name == large_dir().name:
            claim.append("\nlarge: played by its name only", "dim")
        head = Text(scenario.name, "bold").append("  " + " ".join(scenario.sources), "not bold dim")
        parts += [head, Padding(claim, (0, 0, 0, 4), expand=False)]
    return Group(*parts)


def render_summary(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return one row for each scenario with its verdicts under each profile."""
    rows = [printable_values(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in ("scenario", "4.9", "hardened", "what was found"):
        table.add_column(column, no_wrap=column in ("4.9", "hardened"), overflow="fold")
    for row in rows:
        table.add_row(row["scenario"], _verdict(row.get("4.9")), _verdict(row.get("hardened")), _found(row))
    return table


def _verdict(document: Mapping[str, Any] | None) -> Text:
    if document is None:
        return Text("as 4.9", "dim")
    return Text(f"{document['verdict']} {document['seconds']:.0f} s", _STYLES[document["verdict"]])


def _found(row: Mapping[str, Any]) -> Text:
    """Return differences between the profiles, and why a run does not hold."""
    text = Text()
    for profile in ("4.9", "hardened"):
        document = row.get(profile)
        if document is None:
            continue
        bad = [it for it in document["expectations"] if it["verdict"] != "holds"]
        for it in bad:
            text.append(f"{profile}: {it['expectation']}: {it['found']}\n", _STYLES[it["verdict"]])
        for missing in document["missing"]:
            text.append(f"{profile}: {missing}\n", _STYLES["unknown"])
    plain, hardened = row.get("4.9"), row.get("hardened")
    if plain is not None and hardened is not None:
        before = {it["expectation"]: it["found"] for it in plain["expectations"]}
        for it in hardened["expectations"]:
            if it["expectation"] in before and it["found"] != before[it["expectation"]] and it["bound"]:
                old = next(e for e in plain["expectations"] if e["expectation"] == it["expectation"])
                if old["bound"].partition(" (")[0] != it["bound"].partition(" (")[0]:
                    text.append(f"{it['expectation']}: {old['found']} → {it['found']}\n")
    text.rstrip()
    return text
