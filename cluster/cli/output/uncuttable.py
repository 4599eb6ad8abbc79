"""A table that shows all of every cell at any width."""

from collections.abc import Iterator
from typing import Literal

import attrs
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Columns of the terminal between two columns of the table."""
_FOLDED = 30
"""Longer words, such as paths, may be folded; shorter ones stay whole."""


@attrs.frozen
class _Column:
    header: str
    justify: Literal["left", "right"]
    is_one_line: bool


@attrs.define(eq=False)
class UncutTable:
    """A table without lines, or a list where the terminal is too narrow for the table.

    Files and pipes get each row on one line, for grep.

    rich cuts words that are longer than their column, and cells that must not wrap. The list has the first cell of a
    row as a line, and the others below it, indented and with their headers.
    """

    _columns: list[_Column] = attrs.field(factory=list, init=False)
    _rows: list[list[Text]] = attrs.field(factory=list, init=False)

    def add_column(self, header: str, *, justify: Literal["left", "right"] = "left", is_one_line: bool = False) -> None:
        self._columns.append(_Column(header, justify, is_one_line))

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; it may have fewer cells than the table has columns."""
        self._rows.append([Text(cell) if isinstance(cell, str) else cell for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table or the list."""
        if not console.is_terminal:
            widest = [max(map(cell_len, self._texts(number))) for number in range(len(self._columns))]
            whole = sum(widest) + _GAP * len(widest)
            yield from console.render(self._as_table(widest, 0), options.update(max_width=whole))
            return
        least = [self._least_width(number) for number in range(len(self._columns))]
        spare = options.max_width - sum(least) - _GAP * (len(least) - 1)
        if spare >= 0:
            yield self._as_table(least, spare)
        else:
            yield from self._as_list()

    def _texts(self, number: int) -> Iterator[str]:
        yield self._columns[number].header
        yield from (row[number].plain for row in self._rows if number < len(row))

    def _least_width(self, number: int) -> int:
        """Return the width of a column below which a word or a line would be folded."""
        if self._columns[number].is_one_line:
            return max(map(cell_len, self._texts(number)))
        words = (word for text in self._texts(number) for word in text.split())
        return min(_FOLDED, max(map(cell_len, words), default=0))

    def _as_table(self, least: list[int], spare: int) -> Table:
        """Return the table; columns on the left get the spare width first."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for number, column in enumerate(self._columns):
            more = min(spare, max(map(cell_len, self._texts(number))) - least[number])
            spare -= more
            table.add_column(column.header, justify=column.justify, overflow="fold", width=least[number] + more)
        for row in self._rows:
            table.add_row(*row)
        return table

    def _as_list(self) -> Iterator[Text]:
        indent = max(cell_len(column.header) for column in self._columns[1:]) if len(self._columns) > 1 else 0
        for row in self._rows:
            yield Text.assemble(row[0], style="bold")
            for column, cell in zip(self._columns[1:], row[1:], strict=False):
                if cell.plain.strip():
                    yield Text.assemble("  ", (f"{column.header:{indent}}", "dim"), "  " if indent else "", cell)
