"""The rows of nodes in the live view: names, roles, states, logs and replication."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from rich.text import Text

from rmqlab.cluster.cli.live.keys import Document, first_selected, in_order, state_of
from rmqlab.cluster.cli.output.links import awaits_connection
from rmqlab.cluster.cli.output.tables import STATE_STYLES
from rmqlab.runtime.text.number_text import plain

BAR_CELLS = 8
STYLES = {**STATE_STYLES, "isolated": "magenta"}
FULL_BAR = 256 * 2**20
"""Bytes: the default of haSlaveFallbehindMax, beyond which a SYNC_MASTER no longer waits for a slave."""
NAME_CELLS = 13
NARROW = 72
"""Columns below which the ends of logs are left out, so that the lag is not cut."""
SLIM = 66
"""Columns below which roles and bars are left out, too, and names are as wide as the longest."""


@attrs.frozen
class _Columns:
    """Which columns the rows have, and how wide names are."""

    name_cells: int
    has_role: bool
    has_log_end: bool
    has_bar: bool

    @property
    def title(self) -> str:
        role, end = "ROLE         " * self.has_role, "LOG END       " * self.has_log_end
        return f"   {'NODE':{self.name_cells}} {role}STATE     {end}REPLICATION"


def _columns_of(width: int, names: Sequence[str]) -> _Columns:
    is_slim = width < SLIM
    longest = min(max(map(len, names), default=NAME_CELLS), NAME_CELLS)
    return _Columns(longest if is_slim else NAME_CELLS, not is_slim, width >= NARROW, not is_slim)


def node_rows(document: Document, marked: str, rates: Mapping[str, float], width: int) -> tuple[str, list[Text], int]:
    """Return the title, a row for each server, and the index of the selected one.

    `marked` is the name of the selected node; the first node, if empty. `rates` are bytes per second, by node.
    """
    nodes = servers_of(document)
    selected = marked or first_selected(document)
    columns = _columns_of(width, [node["name"] for node in nodes])
    replication = {row["slave"]: row for row in document["replication"]}
    rows = [
        _row(number, node, selected, document["faults"], columns).append_text(
            _growth(node, replication, rates, has_bar=columns.has_bar)
        )
        for number, node in enumerate(nodes, 1)
    ]
    return columns.title, rows, next((index for index, node in enumerate(nodes) if node["name"] == selected), 0)


def servers_of(document: Document) -> list[Document]:
    """Return brokers and nameservers in the order of their rows."""
    return [node for node in in_order(document["nodes"]) if node["kind"] != "workload"]


def _row(number: int, node: Document, selected: str, faults: Any, columns: _Columns) -> Text:
    line = Text()
    line.append(f"{'>' if node['name'] == selected else ' '}", "bold cyan")
    line.append(f"{number if number < 10 else ' '} ", "dim")
    style = "bold reverse" if node["name"] == selected else "bold"
    line.append(f"{node['name']:{columns.name_cells}} ", style)
    if columns.has_role:
        line.append(f"{node['role'] or node['kind']:12} ")
    state = state_of(node, faults)
    line.append(f"{state:9} ", STYLES.get(state, ""))
    if node["kind"] == "broker" and columns.has_log_end:
        end = (node.get("commit_log") or {}).get("max")
        line.append(f"{'?' if end is None else f'{end:,}':>12}  ")
    return line


def _growth(node: Document, replication: Mapping[str, Document], rates: Mapping[str, float], *, has_bar: bool) -> Text:
    """Return a slave's lag, or how fast the log of another broker grows."""
    if node["name"] in replication:
        row = replication[node["name"]]
        return (_bar(row["lag"]).append(" ") if has_bar else Text()).append_text(_lag(row, node, is_long=has_bar))
    rate = rates.get(node["name"], 0)
    return Text(f"+{size(round(rate))}/s" if rate >= 1 else "", "dim")


def _bar(lag: int | None) -> Text:
    """Render the lag as a bar on a logarithmic scale that is full at 256 MB."""
    if lag is None:
        return Text("·" * BAR_CELLS, "dim")
    cells = math.ceil(BAR_CELLS * min(math.log1p(abs(lag)) / math.log1p(FULL_BAR), 1))
    text = Text("█" * cells, "red" if cells > BAR_CELLS // 2 else "yellow")
    return text.append("░" * (BAR_CELLS - cells), "dim")


def _lag(row: Document, slave: Document, *, is_long: bool) -> Text:
    """Render the lag and the connection as text, without spare words unless `is_long`."""
    lag = row["lag"]
    if lag is None:
        return Text("lag unknown", "dim")
    if lag >= 0 and awaits_connection(row, slave):  # the size as well would not fit into 80 columns
        return Text("not connected yet" if is_long else "not connected", "yellow")
    is_cut_off = row["connected"] is False
    if lag < 0:
        text = Text(f"{size(-lag)} ahead", "red")
    elif lag:
        text = Text(f"{size(lag)}{' behind' if is_long and not is_cut_off else ''}")
    else:
        text = Text("in step")
    return text.append(", cut off", "red") if is_cut_off else text


def size(byte_count: int) -> str:
    """Return a number of bytes with at most three digits and a unit."""
    amount = float(byte_count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{plain(amount, 3)} {unit}"
        amount /= 1000
    return f"{plain(amount, 3)} GB"
