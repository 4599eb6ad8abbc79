"""Numbers of rows and first rows of a table, by the values of a column.

Most findings are such a number, with the first rows as evidence. A table that this process holds is counted here:
Spark takes longer to plan such a query than this module takes to compute it.
"""

import collections
from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from rmqlab.verdict.findings import EVIDENCE_LIMIT


@attrs.frozen
class Preview:
    """The rows of a table to count, and to show."""

    table: str
    by: str | tuple[str, ...] = ""
    """The column whose values are counted, or several; empty: all rows are one group, with the key None."""
    order: tuple[str, ...] = ()
    """The columns to order the first rows by; empty if only the numbers are needed."""
    empty: str = ""
    """The column whose text is empty in the rows to count; empty: all rows are counted."""

    @property
    def queries(self) -> tuple[str, ...]:
        """The query of the groups' sizes, and that of their first rows."""
        columns = ", ".join(f"`{name}`" for name in self._by)
        key = f"struct({columns})" if len(self._by) > 1 else columns or "cast(null as string)"
        table = f"{self.table} where `{self.empty}` = ''" if self.empty else self.table
        counting = f"select {key} key, count(*) found from {table} group by 1"
        if not self.order:
            return (counting,)
        numbered = f"row_number() over (partition by {key} order by {', '.join(self.order)}) nth"
        first = f"select *, {key} key, {numbered} from {table}"
        return counting, f"select * from ({first}) where nth <= {EVIDENCE_LIMIT}"

    def of_table(self, content: pa.Table) -> "Groups":
        """Return the groups of a table."""
        if self.empty:
            content = content.filter(pc.equal(content[self.empty], ""))
        columns = [content[name].to_pylist() for name in self._by]
        keys = list(map(_key, zip(*columns, strict=True) if len(columns) > 1 else columns[0])) if columns else []
        keys = keys or [None] * content.num_rows
        places: dict[Any, list[int]] = collections.defaultdict(list)
        for place in self._ordered(content):
            if len(places[keys[place]]) < EVIDENCE_LIMIT:
                places[keys[place]].append(place)
        found = collections.Counter(keys)
        return Groups(
            {key: Group(found[key], rows_of(content.take(pa.array(places[key], pa.int64())))) for key in found}
        )

    @property
    def _by(self) -> tuple[str, ...]:
        return (self.by,) * bool(self.by) if isinstance(self.by, str) else self.by

    def _ordered(self, content: pa.Table) -> list[int]:
        """Return the places of the rows in this order; nothing if there is no order."""
        columns = [content[name].to_pylist() for name in self.order]
        ranks = [tuple(map(_rank, values)) for values in zip(*columns, strict=True)]
        return sorted(range(len(ranks)), key=ranks.__getitem__)


@attrs.frozen
class Group:
    """The rows with one value."""

    found: int = 0
    first: tuple[Row, ...] = ()


class Groups(dict[Any, Group]):
    """Groups by value. The group of another value is empty."""

    def __missing__(self, key: object) -> Group:
        return Group()

    def within(self, value: object) -> "Groups":
        """Return the groups with this first value of two, by the second one."""
        return Groups({key[1]: group for key, group in self.items() if key[0] == value})

    def first(self, order: tuple[str, ...]) -> list[Row]:
        """Return the first rows of all groups, in the order of these columns."""
        rows = [row for group in self.values() for row in group.first]
        return sorted(rows, key=lambda row: [_rank(row[name]) for name in order])

    @property
    def found(self) -> int:
        """The number of rows in all groups."""
        return sum(group.found for group in self.values())


def join_groups(counts: Iterable[Row], first: Iterable[Row] = ()) -> Groups:
    """Return the groups of a preview from the rows of its queries."""
    rows: dict[Any, list[Row]] = collections.defaultdict(list)
    for row in sorted(first, key=lambda row: row.nth):
        rows[_key(row.key)].append(row)
    return Groups({_key(row.key): Group(row.found, tuple(rows[_key(row.key)])) for row in counts})


def rows_of(content: pa.Table) -> tuple[Row, ...]:
    """Return the rows of a table; structs in them are rows, too."""
    return tuple(map(_row, content.to_pylist()))


def _row(value: Any) -> Any:
    if isinstance(value, dict):
        return Row(**{name: _row(one) for name, one in value.items()})
    return [_row(one) for one in value] if isinstance(value, list) else value


def _key(value: Any) -> Any:
    """Return a value of a column, or of several, as the key of a group."""
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else value


def _rank(value: Any) -> tuple[Any, ...]:
    """Return a value that orders as SQL does: null first, and structs by their fields."""
    if value is None:
        return (False,)
    fields = value.values() if isinstance(value, dict) else value
    return True, tuple(map(_rank, fields)) if isinstance(value, dict | tuple) else value
