"""Build the page: story and verdict, charts, location of messages, findings.

One file that needs no network, for light and dark mode, small screens and print.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from rmqlab.pipeline.report.data import NoAuditError, RunData, read_run
from rmqlab.pipeline.report.findings import is_violating, render_findings, value_of
from rmqlab.pipeline.report.plots import figures
from rmqlab.pipeline.report.story import Link, Sentence, anchor_of, write_story
from rmqlab.verdict.html.document import render_document, render_figure
from rmqlab.verdict.outcomes import OUTCOMES
from rmqlab.verdict.runs import name_of

_SECONDS = re.compile(r"(\d) s\b")
"""A time, which should not be broken between its number and its unit."""
_CARDS = (
    ("sent", "sends"),
    ("lost", "acknowledged messages lost"),
    ("stored_twice", "messages stored twice"),
    ("duplicates", "duplicate deliveries"),
    ("offset_rollbacks", "offset rollbacks"),
)
_LONGEST = (
    ("write_unavailable ", "longest write outage"),
    ("read_unavailable ", "longest read outage"),
    ("detection namesrv", "longest failure detection by a nameserver"),
)


def write_report(directory: Path, out: Path) -> Path:
    """Write the page of an audited run and return its path. Raises NoAuditError."""
    out.write_text(render_page(read_run(directory)), encoding="utf-8")
    return out


def render_page(data: RunData) -> str:
    """Return the page as text."""
    parts = [
        _head(data),
        _key_figures(data),
        *map(render_figure, figures(data)),
        _presence(data),
        render_findings(data),
        _footer(data),
    ]
    return render_document(f"{name_of(data.directory)}: {data.summary['verdict']}", "".join(parts))


# ---- verdict and story -----------------------------------------------------------------------------------


def _head(data: RunData) -> str:
    verdict = str(data.summary["verdict"])
    claim = f'<p class="claim">{escape(data.claim)}</p>' if data.claim else ""
    return (
        f'<header><p class="badge"><span class="verdict {verdict}">{verdict}</span>{_scenario_verdict(data)}</p>'
        f"<h1>{escape(name_of(data.directory))}</h1>{claim}"
        f'<ul class="why">{_items(map(_capital, data.summary["why"]))}</ul>'
        f"{_warnings(data)}{_story(data)}{_facts(data)}"
        "</header>"
    )


def _scenario_verdict(data: RunData) -> str:
    said = data.verdict_document.get("verdict")
    return f' <span class="sub">The scenario\'s own verdict: {escape(str(said))}.</span>' if said else ""


def _warnings(data: RunData) -> str:
    warnings: Sequence[str] = data.summary.get("warnings", ())
    if not warnings:
        return ""
    many = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}, not part of the verdict"
    return f'<details class="warnings"><summary>{many}</summary><ul>{_items(warnings)}</ul></details>'


def _capital(line: str) -> str:
    return line[:1].upper() + line[1:]


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _story(data: RunData) -> str:
    return f'<ol class="story">{"".join(f"<li>{_sentence(one)}</li>" for one in write_story(data))}</ol>'


def _sentence(parts: Sentence) -> str:
    shown = (
        f'<a href="#{escape(part.anchor)}">{escape(part.text)}</a>' if isinstance(part, Link) else escape(part)
        for part in parts
    )
    return _SECONDS.sub(r"\1&nbsp;s", "".join(shown))


def _facts(data: RunData) -> str:
    facts = data.facts
    began = datetime.fromtimestamp(data.began_at / 1000, UTC)
    pairs = [
        ("began", f"{began:%Y-%m-%d %H:%M:%S} UTC{', simulated time' if facts.is_simulated else ''}"),
        ("role", " ".join(filter(None, (facts.role, facts.flush)))),
        ("profile", facts.profile),
        ("rate", "" if facts.rate is None else f"{facts.rate:g}"),
        ("version", facts.version),
        ("seed", facts.seed),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs if value)
    replay = f"<div><dt>replay</dt><dd><code>{escape(facts.command)}</code></dd></div>" if facts.command else ""
    return f'<dl class="facts">{shown}{replay}</dl>'


def _key_figures(data: RunData) -> str:
    cards = [(metric, words, data.findings.get(metric)) for metric, words in _CARDS]
    for prefix, words in _LONGEST:
        longest = data.longest(prefix)
        cards.append((longest[0], words, longest[1]) if longest else (prefix.strip(), words, None))
    shown = [_card(*card, is_bad=is_violating(data, card[0])) for card in cards]
    return f'<section class="cards">{"".join(shown)}</section>'


def _card(metric: str, words: str, finding: Mapping[str, Any] | None, *, is_bad: bool) -> str:
    inner = f"<b>{escape(value_of(finding)).replace(' ', '&nbsp;')}</b><span>{escape(words)}</span>"
    bad = ' class="bad"' if is_bad else ""
    return f'<a{bad} href="#{escape(anchor_of(metric))}">{inner}</a>' if finding is not None else f"<div>{inner}</div>"


# ---- charts and messages ---------------------------------------------------------------------------------


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
        body.append(f"<tr><th>{outcome}</th><td>{total:,}</td>{cells}<td>{_count(consumed)}</td></tr>")
    return (
        '<section id="presence"><h2>Messages by outcome and store</h2><p class="sub">'
        "Number of messages with each outcome of their send, by the nodes that store them.</p>"
        f'<div class="scroll"><table class="numbers"><thead><tr><th>outcome</th><th>sent</th>{head}'
        f"<th>consumed</th></tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _place(row: Mapping[str, Any]) -> str:
    return " + ".join(row["nodes"]) or "no store"


def _count(count: int) -> str:
    return f"{count:,}" if count else "·"


def _footer(data: RunData) -> str:
    return (
        f'<footer><p class="sub">Run: <code>{escape(str(data.directory))}</code>. Tables (parquet):'
        f" <code>{escape(str(data.tables))}</code>.</p></footer>"
    )


__all__ = ["NoAuditError", "render_page", "write_report"]
