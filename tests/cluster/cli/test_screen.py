"""Lines of events in narrow terminals and in files."""

import io

import pytest
from rich.console import Console

from rmqlab.cluster.checks.view import render_decision
from rmqlab.cluster.cli.output.event_lines import event_line
from rmqlab.verdict.decision import Decision
from rmqlab.verdict.verdict import Verdict

EVENT = {
    "at": 0, "node": "namesrv-1", "kind": "broker_registered", "cluster": "DefaultCluster", "broker_name": "broker-a",
    "address": "127.77.251.21:10911", "reason": "replaces 127.77.251.24:10911",
}  # fmt: skip


@pytest.mark.parametrize(("is_terminal", "rows"), [(True, 3), (False, 1)])
def test_a_long_event_is_broken_between_words_in_terminals_only(*, is_terminal: bool, rows: int) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=is_terminal, soft_wrap=True, color_system=None)
    console.print(event_line(EVENT))
    assert isinstance(console.file, io.StringIO)
    first, *later = console.file.getvalue().splitlines()
    assert len(later) == rows - 1
    assert all(len(line) <= 80 and line.startswith(" " * 27) for line in later), later
    assert "  ".join([first, *(line.strip() for line in later)]).endswith("reason=replaces 127.77.251.24:10911")


def test_a_word_that_is_longer_than_a_row_stays_whole() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, soft_wrap=True, color_system=None)
    console.print(event_line({"at": 0, "node": "a", "kind": "k", "error": "x" * 70}))
    assert isinstance(console.file, io.StringIO)
    assert "x" * 70 in console.file.getvalue()


def test_a_verdict_is_broken_between_words() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, soft_wrap=True, color_system=None)
    console.print(render_decision(Decision(verdict=Verdict.UNKNOWN, why=("no store was given",) * 6, warnings=("w",))))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines) == f"unknown: {'; '.join(['no store was given'] * 6)} warning: w"
