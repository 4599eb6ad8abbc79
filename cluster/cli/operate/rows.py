"""Tables and times of the operators' commands, for 80 columns."""

import datetime as dt
from collections.abc import Iterable, Mapping

from rich.text import Text

from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.runtime.text.printable import printable


def table_of(columns: str, rows: Iterable[Iterable[object]]) -> UncutTable:
    """Return a table with these columns, separated by `|`.

    A column whose title begins with `>` is right-aligned.
    """
    table = UncutTable()
    for title in columns.split("|"):
        table.add_column(title.lstrip(">"), justify="right" if title.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))
    return table


def time_text(millis: int) -> str:
    """Return a time in this machine's zone; `-` for 0.

    A time that no calendar has is returned as a number.
    """
    if millis <= 0:
        return "-"
    try:
        return dt.datetime.fromtimestamp(millis / 1000).astimezone().isoformat(" ", "milliseconds")[:23]
    except (ValueError, OverflowError, OSError):
        return str(millis)


def missing_lines(unreachable: Mapping[str, str]) -> Iterable[Text]:
    """Return a line for each broker that did not reply.

    Most reasons begin with its address.
    """
    named = (why if why.startswith(f"{name}:") else f"{name}: {why}" for name, why in unreachable.items())
    return [Text(printable(f"not included: {line}"), "red") for line in named]


def without_master_lines(names: Iterable[str]) -> Iterable[Text]:
    """Return a line about broker names that were left out."""
    return [Text(printable(f"not changed: {name} has no master now"), "yellow") for name in names]
