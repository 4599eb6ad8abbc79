"""What a benchmark found, as rows; printed, and written as Markdown and JSON.

Nothing is judged here.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

Cell = str | int | float | None
Better = Literal["less", "more"]


@attrs.frozen
class Table:
    """One benchmark's outcome.

    `samples` holds every single measurement, to check the medians.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: str = ""
    samples: Any = None
    better: Mapping[int, Better] = attrs.field(factory=dict)
    """What is better in which column, for those that `--against` compares."""
    better_in_row: Mapping[str, Better] = attrs.field(factory=dict)
    """Rows where it is the other way round."""

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", _row(self.columns), _row(["---", *("---:" for _ in self.columns[1:])])]
        lines += [_row([_text(cell) for cell in row]) for row in self.rows]
        return "\n".join([*lines, "", self.notes]).rstrip() + "\n"


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def ratio(ours: float, real: float) -> float | None:
    return round(ours / real, 2) if real else None


RATIO = 3
"""Column of the ratio in tables of both systems."""
OURS_US = 5
"""Column of our master's CPU a message, in tables that have it."""


def write(tables: Sequence[Table], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench.md").write_text("\n".join(table.markdown() for table in tables))
    (directory / "bench.json").write_text(json.dumps([attrs.asdict(table) for table in tables], indent=1) + "\n")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
