"""Prints the demo to a terminal or a file."""

from typing import Any

from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rmqlab.cluster.cli.output.screen import HangingLine
from rmqlab.cluster.cli.output.tables import render_nodes
from rmqlab.cluster.demo.account import MEANING, Row
from rmqlab.cluster.demo.narrator import Line
from rmqlab.cluster.demo.story import Ending, Stage, Story
from rmqlab.runtime.text.printable import printable

_TIME = 16
"""Columns of the time in front of a line."""
_HEAD = _TIME + 13
"""Columns of the time and the node."""
_STYLES = {"good": "green", "bad": "red", "news": "bold cyan", "plain": ""}


class Terminal(Stage):
    """Prints line by line, so that the output is the same in a terminal and in a file."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.story: Story | None = None
        self._acts = 0
        self._began_at: int | None = None

    def act(self, title: str, explanation: str) -> None:
        self._acts += 1
        self.console.print()
        self.console.print(Rule(f"{self._acts}. {title}", align="left", style="bold"))
        self.console.print(Text(explanation, "italic"))

    def line(self, line: Line) -> None:
        self._began_at = self._began_at or line.at_millis
        killed_at = self.story.killed_at if self.story else 0
        if killed_at and line.at_millis >= killed_at:
            time = f"kill {(line.at_millis - killed_at) / 1000:+7.2f} s"
        else:
            time = f"     {(line.at_millis - self._began_at) / 1000:7.2f} s"
        text = Text(f"{time}  ", "dim")
        text.append(f"{line.who or 'cluster':12} ", "bold")
        text.append(printable(line.text), _STYLES[line.style])
        self.console.print(HangingLine(text, _HEAD))

    def say(self, text: str) -> None:
        self.console.print(HangingLine(Text(f"{'':16}{text}", "bold"), _TIME))

    def nodes(self, document: dict[str, Any]) -> None:
        self.console.print(render_nodes(document))

    def ending(self, ending: Ending, directory: str) -> None:
        """Print the table of outcomes, the meaning of each outcome, and the verdict."""
        rows = ending.reckoning.rows
        table = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column("outcome", overflow="fold")
        for column in ("sent", "on master", "on slave", "consumed", "lost", "duplicated"):
            table.add_column(column, justify="right", overflow="fold")
        for row in rows:
            table.add_row(row.outcome, *map(str, _counts(row)))
        table.add_section()
        table.add_row("all", *(str(sum(column)) for column in zip(*map(_counts, rows), strict=True)), style="bold")
        self.console.print(table)
        for row in rows:
            self.console.print(Text(f"  {row.outcome:20} {MEANING[row.outcome]}", "dim"))
        if ending.reckoning.duplicated:
            duplicated = "stored twice: a retried send whose first attempt had been stored, too"
            self.console.print(Text(f"  {'duplicated':20} {duplicated}", "dim"))
        self.console.print()
        self._verdict(ending)
        self.console.print(f"Stores, logs and the journal of every event: {directory}")

    def _verdict(self, ending: Ending) -> None:
        lost, refused = ending.reckoning.lost, sum(r.sent for r in ending.reckoning.rows if r.outcome == "refused")
        if ending.holds:
            outcome = Text("holds", "bold green").append(
                f": nothing acknowledged was lost. But {refused} sends were refused while the master was down:"
                " without a master there are no writes, and RocketMQ 4.9 promotes no slave.",
                "default not bold",
            )
            self.console.print(HangingLine(outcome))
        else:
            why = f"{lost} acknowledged messages are on no disk" if lost else "a slave became a master"
            self.console.print(HangingLine(Text("violated", "bold red").append(f": {why}.", "default not bold")))
        for row in ending.reckoning.rows:
            if row.lost:
                self.console.print(f"lost ({row.outcome}): {', '.join(map(str, row.lost[:20]))}")


def _counts(row: Row) -> tuple[int, ...]:
    return row.sent, row.on_master, row.on_slave, row.consumed, len(row.lost), len(row.duplicated)
