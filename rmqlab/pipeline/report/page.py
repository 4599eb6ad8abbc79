"""Put the page together: verdict, key figures, plots, tables of evidence. One file, light and dark, fit for print."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from rmqlab.pipeline.report.data import NoAuditError, RunData, read_run
from rmqlab.pipeline.report.plots import Figure, figures
from rmqlab.pipeline.runs import name_of
from rmqlab.verdict.outcomes import OUTCOMES

_STYLE = Path(__file__).with_name("style.css")
_MOST_EVIDENCE = 12
_VERDICTS = {
    "holds": "Nothing that was acknowledged is lost, and no slave's log differs from its master's.",
    "violated": "What must not happen has happened.",
    "unknown": "What would decide it is missing.",
}


def write_report(directory: Path, out: Path) -> Path:
    """Write the page of an audited run; answers where. NoAuditError."""
    out.write_text(render_page(read_run(directory)), encoding="utf-8")
    return out


def render_page(data: RunData) -> str:
    """The page as text."""
    parts = [
        _head(data),
        _key_figures(data),
        *map(_figure, figures(data)),
        _presence(data),
        _findings(data),
        _footer(data),
    ]
    title = escape(f"{name_of(data.directory)}: {data.summary['verdict']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE.read_text()}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(data: RunData) -> str:
    verdict = str(data.summary["verdict"])
    reasons = [] if verdict == "holds" else data.summary["why"]
    why = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    claim = f'<p class="claim">{escape(data.claim)}</p>' if data.claim else ""
    told = ""
    if data.told.get("verdict"):
        told = f'<p class="sub">The scenario\'s own verdict: {escape(str(data.told["verdict"]))}.</p>'
    began = datetime.fromtimestamp(data.began_at / 1000, UTC)
    return (
        f'<header><span class="verdict {verdict}">{verdict}</span><h1>{escape(name_of(data.directory))}</h1>{claim}'
        f'<p class="lead">{_VERDICTS[verdict]}</p><ul class="why">{why}</ul>{told}'
        f'<p class="sub">{began:%Y-%m-%d %H:%M:%S} UTC, {data.seconds:.1f} s of the cluster\'s time.'
        " All times below count from the first event.</p></header>"
    )


def _key_figures(data: RunData) -> str:
    found = data.findings
    longest = _longest(found, "write_unavailable ")
    noticed = _longest(found, "detection namesrv")
    cards = [
        ("sent", _value(found.get("sent"))),
        ("acknowledged, lost", _value(found.get("lost"))),
        ("stored twice", _value(found.get("stored_twice"))),
        ("delivered again", _value(found.get("duplicates"))),
        ("offsets back", _value(found.get("offset_rollbacks"))),
        ("longest without a write", _value(longest)),
        ("until a nameserver knew", _value(noticed)),
    ]
    inner = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in cards)
    return f'<section class="cards">{inner}</section>'


def _longest(found: Mapping[str, Mapping[str, Any]], prefix: str) -> Mapping[str, Any] | None:
    known = [
        one
        for metric, one in found.items()
        if metric.startswith(prefix) and "@" not in metric and one["value"] is not None
    ]
    return max(known, key=lambda one: float(one["value"]), default=None)


def _value(finding: Mapping[str, Any] | None) -> str:
    if finding is None or finding["value"] is None:
        return "unknown"
    value = finding["value"]
    text = f"{value:,.2f} s" if finding["unit"] == "s" else f"{value:,}"
    return f"≥ {text}" if finding["at_least"] else text


def _figure(figure: Figure) -> str:
    legend = "".join(f'<span><i class="{kind}"></i>{escape(word)}</span>' for kind, word in figure.legend)
    return (
        f'<section class="figure"><h2>{escape(figure.title)}</h2><p class="sub">{escape(figure.says)}</p>'
        f'{figure.svg}<p class="legend">{legend}</p></section>'
    )


def _presence(data: RunData) -> str:
    rows: Sequence[Mapping[str, Any]] = data.summary["presence"]
    if not rows:
        return ""
    places = sorted({_place(row) for row in rows})
    head = "".join(f"<th>{escape(place)}</th>" for place in places)
    body = []
    for outcome in OUTCOMES:
        of_it = [row for row in rows if row["outcome"] == outcome]
        if not of_it:
            continue
        cells = "".join(
            f"<td>{_count(sum(row['messages'] for row in of_it if _place(row) == place))}</td>" for place in places
        )
        consumed = sum(row["messages"] for row in of_it if row["is_consumed"])
        total = sum(row["messages"] for row in of_it)
        body.append(f"<tr><th>{outcome}</th><td>{total:,}</td>{cells}<td>{consumed:,}</td></tr>")
    return (
        '<section><h2>What producers were told, and where it lies</h2><p class="sub">Messages by outcome and by the nodes'
        f' whose store has them.</p><div class="scroll"><table class="numbers"><thead><tr><th>outcome</th><th>sent</th>{head}'
        f"<th>consumed</th></tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _place(row: Mapping[str, Any]) -> str:
    return " + ".join(row["nodes"]) or "nowhere"


def _count(count: int) -> str:
    return f"{count:,}" if count else "·"


def _findings(data: RunData) -> str:
    rows = [(metric, one) for metric, one in data.findings.items() if "@" not in metric]
    queues = len(data.findings) - len(rows)
    body = "".join(_finding(metric, one) for metric, one in rows)
    more = f'<p class="sub">{queues} metrics of single queues are in the tables.</p>' if queues else ""
    return (
        "<section><h2>Findings</h2><table class='findings'><thead><tr><th>metric</th><th>value</th>"
        f"<th>evidence, or what is missing</th></tr></thead><tbody>{body}</tbody></table>{more}</section>"
    )


def _finding(metric: str, one: Mapping[str, Any]) -> str:
    unit = "" if one["unit"] == "s" or one["value"] is None else f" {one['unit']}"
    bad = (
        " class='bad'"
        if one["value"] and metric.split(maxsplit=1)[0].split(".", maxsplit=1)[0] in ("lost", "divergence", "stored")
        else ""
    )
    return (
        f"<tr{bad}><th>{escape(metric)}</th><td>{escape(_value(one))}{escape(unit)}</td><td>{_evidence(one)}</td></tr>"
    )


def _evidence(one: Mapping[str, Any]) -> str:
    if one["missing"]:
        return escape(one["missing"])
    if not one["value"]:
        return ""
    pieces = [piece["says"] for piece in one["evidence"]]
    first = _items(pieces[:1])
    if len(pieces) < 2:
        return first
    rest = pieces[1:_MOST_EVIDENCE]
    more = f"<li>and {len(pieces) - _MOST_EVIDENCE} more in the tables</li>" if len(pieces) > _MOST_EVIDENCE else ""
    return f"{first}<details><summary>{len(pieces) - 1} more</summary>{_items(rest, more)}</details>"


def _items(pieces: Iterable[str], more: str = "") -> str:
    return f"<ul>{''.join(f'<li>{escape(piece)}</li>' for piece in pieces)}{more}</ul>"


def _footer(data: RunData) -> str:
    return (
        f'<footer><p class="sub">Run: <code>{escape(str(data.directory))}</code>. Tables (parquet):'
        f" <code>{escape(str(data.tables))}</code>. Definitions of the metrics: <code>rmqlab check --metrics</code>.</p></footer>"
    )


__all__ = ["NoAuditError", "render_page", "write_report"]
