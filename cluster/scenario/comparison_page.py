"""The page of a comparison: table and timelines. Pure."""

import collections
from collections.abc import Iterator, Sequence
from html import escape

import attrs

from rmqlab.cluster.checks.history import History
from rmqlab.cluster.scenario.comparison import Number, as_rows
from rmqlab.verdict.html.document import Figure, render_document, render_figure
from rmqlab.verdict.html.svg import TOP, Plot, since, stacked
from rmqlab.verdict.outcomes import OUTCOMES

_HEIGHT = 190
_LEFT = 60
"""Left of the frame: room for numbers, without names of rows."""
_BINS = 120
"""Bars of a timeline, at most."""
_NOTE_ROWS = 3
"""Names of masters that follow each other are written one below the other, so that they do not overlap."""
_SHORTEST_BIN = 1.0
"""Seconds."""


@attrs.frozen(kw_only=True)
class PlayedVariant:
    """One run of a comparison."""

    name: str
    figures: dict[str, Number | None]
    history: History
    directory: str


def render_comparison(scenario: str, claim: str, runs: Sequence[PlayedVariant]) -> str:
    """Return the page as text. All timelines have one scale of time."""
    seconds = max((run.history.ended_at - run.history.began_at) / 1000 for run in runs)
    text = "The same scenario with the same clients on real processes, once for each remedy."
    parts = [
        f'<header><h1>{escape(scenario)}</h1><p class="claim">{escape(claim)}</p><p>{text}</p></header>',
        _table(runs),
        *(render_figure(_timeline(run, seconds)) for run in runs),
        _footer(runs),
    ]
    return render_document(f"{scenario}: comparison of remedies", "".join(parts))


def _table(runs: Sequence[PlayedVariant]) -> str:
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    body = "".join(
        f"<tr><th>{escape(text)}</th>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for text, values in as_rows([run.figures for run in runs])
    )
    return (
        '<section id="figures"><h2>Costs of each remedy</h2><div class="scroll"><table class="numbers">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _timeline(run: PlayedVariant, seconds: float) -> Figure:
    """Draw the sends of a run, the absences of its servers, and its new masters."""
    history, plot = run.history, Plot(f"sends per second: {run.name}", seconds, _HEIGHT, _LEFT)
    at, width = since(history.began_at), max(_SHORTEST_BIN, seconds / _BINS)
    counts: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for send in history.sends:
        counts[int(at(send.ended_at) / width)][send.outcome] += len(send.ids) or 1
    bins = [
        (index * width, [count[outcome] / width for outcome in OUTCOMES]) for index, count in sorted(counts.items())
    ]
    stacked(plot, bins, [f"outcome-{outcome}" for outcome in OUTCOMES], width)
    for absence in history.absences:
        until = seconds if absence.until is None else at(absence.until)
        plot.shade(at(absence.at), until, f"{absence.node} {absence.how}")
    for number, (millis, node) in enumerate(_masters(history)):
        plot.rule(at(millis), "fault", f"{node} becomes master")
        plot.note(at(millis), TOP + 14 * (1 + number % _NOTE_ROWS), node, "note mark")
    seen = {send.outcome for send in history.sends}
    legend = tuple((f"outcome-{outcome}", outcome) for outcome in OUTCOMES if outcome in seen)
    text = (
        "Completed sends per second, by outcome. Shaded: a server was down; darker: several, as after the run's end."
        " Dashed: a node becomes master."
    )
    return Figure(run.name, text, plot.text(), legend)


def _masters(history: History) -> Iterator[tuple[int, str]]:
    """Yield the nodes that became master after the start, and when."""
    for entry in history.of_kind("role_changed", "member_role_changed"):
        if entry.fields["broker_id"] == 0 and entry.at_millis >= history.began_at:
            yield entry.at_millis, entry.node


def _footer(runs: Sequence[PlayedVariant]) -> str:
    lines = "".join(f"<li>{escape(run.name)}: <code>{escape(run.directory)}</code></li>" for run in runs)
    return f'<footer><p class="sub">Runs:</p><ul class="sub">{lines}</ul></footer>'
