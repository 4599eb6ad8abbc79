"""The command that marks a moment in all logs."""

from typing import Annotated

import typer

from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, command, console, print_json


def mark(
    text: Annotated[list[str], typer.Argument(help="Up to 200 characters.", metavar="TEXT")],
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Write a line into the log of every node, and an event, to line them up."""
    marked = command(name, "mark", text=" ".join(text))
    print_json(marked) if as_json else console.print(f"marked: {', '.join(marked)}")
