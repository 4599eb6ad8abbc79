"""How a table of an audit is declared: columns with units, and a key."""

import attrs


@attrs.frozen
class Column:
    """A column: its name, its SQL type, and what it contains, with the unit."""

    name: str
    type: str
    text: str


@attrs.frozen
class AuditTable:
    """A table: parquet files in `RUN/audit/<name>`."""

    name: str
    text: str
    key: tuple[str, ...]
    """Columns that identify a row; empty for a list of observations."""
    columns: tuple[Column, ...]
