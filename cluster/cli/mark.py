"""The command that marks a moment in all logs."""

import click

from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.terms import command, json_option, name_option, print_json


@click.command()
@click.argument("text", metavar="TEXT...", nargs=-1, required=True, help="Up to 200 characters.")
@name_option
@json_option
def mark(text: tuple[str, ...], name: str, *, as_json: bool) -> None:
    """Write a line into every node's log, and an event, to align them in time."""
    marked = command(name, "mark", text=" ".join(text))
    print_json(marked) if as_json else console.print(f"marked: {', '.join(marked)}")
