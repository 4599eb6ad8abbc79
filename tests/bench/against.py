"""Compares a run of benchmarks with a kept one: what became worse.

Only ratios to real RocketMQ, and figures of CPU and memory, are compared: rates move with the machine.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.tables import Better, Cell, Table

TOLERANCE = 0.10
"""A figure that is worse by more than this share of the kept one is reported."""


class KeptResultError(Exception):
    """The file is no `bench.json`. The message names it."""


def read_kept(path: Path) -> list[dict[str, Any]]:
    """Return the tables of a `bench.json`. KeptResultError for any other file."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        complete = all(isinstance(table[key], kind) for table in kept for key, kind in _MEMBERS.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise KeptResultError(f"{path}: not readable as a bench.json of an earlier run: {exc!r}") from None
    if not isinstance(kept, list) or not complete:
        raise KeptResultError(f"{path}: expected the list of tables of an earlier run's bench.json")
    return kept


def compare(kept: Sequence[dict[str, Any]], found: Sequence[Table]) -> Table:
    """Return a table of the figures that are worse than the kept ones.

    Tables are matched by title, rows by their first cell. Its notes say how many figures were compared.
    """
    rows: list[list[Cell]] = []
    count = 0
    before = {table["title"]: {row[0]: row for row in table["rows"] if row} for table in kept}
    for table in found:
        for row, column, better in _compared(table):
            former = before.get(table.title, {}).get(row[0], [])
            old, new = former[column] if column < len(former) else None, row[column]
            if not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
                continue
            count += 1
            change = worsening(old, new, better)
            if change > TOLERANCE:
                name = f"{row[0]}: {table.columns[column]}" if row[0] else table.columns[column]
                rows.append([f"{table.title}: {name}", old, new, f"{change:.0%}"])
    notes = f"{count} figures compared, {len(rows)} of them worse by more than {TOLERANCE:.0%}."
    return Table("Worse than the kept result", ["", "kept", "now", "worse by"], rows, notes)


def worsening(old: float, new: float, better: Better) -> float:
    """Return the share of the old figure by which the new one is worse.

    Negative if it is better.
    """
    if old == new:
        return 0.0
    change = (new - old) / abs(old) if old else float("inf") if new > old else float("-inf")
    return change if better == "less" else -change


def _compared(table: Table) -> Iterator[tuple[Sequence[Cell], int, Better]]:
    for row in table.rows:
        for column, better in table.better.items():
            yield row, column, table.better_in_row.get(str(row[0]), better)


_MEMBERS = {"title": str, "columns": list, "rows": list}
