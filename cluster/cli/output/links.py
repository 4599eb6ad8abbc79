"""How commands show the slaves of each master, and those without a connection."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

Document = Mapping[str, Any]


def awaits_connection(row: Document, slave: Document) -> bool:
    """Return True if a slave has had no connection to a master since its start.

    It looks for its master every 5 s.
    """
    ha = slave.get("ha")
    return row["connected"] is False and isinstance(ha, Mapping) and ha.get("has_connected") is False


def link_note(row: Document, slave: Document) -> Text:
    """Return a note for a slave without a connection.

    Empty if it has one, or if that is unknown.
    """
    if row["connected"] is not False:
        return Text()
    return Text("  not connected yet", "yellow") if awaits_connection(row, slave) else Text("  not connected", "red")


def by_master(rows: Iterable[Document]) -> Iterator[Document]:
    """Yield the slaves of each master together.

    A slave that was added to a running cluster is the last of all nodes.
    """
    together: dict[tuple[str, str | None], list[Document]] = {}
    for row in rows:
        together.setdefault((row["group"], row["master"]), []).append(row)
    for slaves in together.values():
        yield from slaves
