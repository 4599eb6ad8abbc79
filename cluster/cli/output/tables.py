"""Renders documents for a person: nodes, status, faults."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from rmqlab.cluster.cli.output.event_lines import shorten
from rmqlab.cluster.cli.output.links import by_master, link_note
from rmqlab.cluster.cli.output.masters import masters_notes
from rmqlab.cluster.cli.output.screen import HangingLine
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.cluster.supervisor.plan.topology import PROFILES
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable_values

Document = Mapping[str, Any]

STATE_STYLES = {
    "ready": "green",
    "starting": "yellow",
    "stopping": "yellow",
    "paused": "magenta",
    "stopped": "dim",
    "killed": "red",
    "power-lost": "red",
    "crashed": "bold red",
}
_NODE_COLUMNS = ("NODE", "ROLE", "STATUS", "ADDRESS", "HA ADDRESS", "PID")
_SPARE_COLUMNS = ("PID", "HA ADDRESS", "ADDRESS", "ROLE")
"""Columns that are dropped on a narrow terminal, in this order."""
_HA_STATUS = ("slaveAckOffset", "diff", "inSync", "state", "transferredByteInSecond", "transferFromWhere")
_ANY_WIDTH = 10_000
_MOST_ROWS = 100
"""Rows of a table that peers can make long; `--json` has all."""
_MOST_ADDRESSES = 10


@attrs.frozen
class NodeTable:
    """One row for each node, with the columns that fit the width: STATUS always does."""

    rows: Sequence[Mapping[str, str | Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(_NODE_COLUMNS)
        for spare in ("", *_SPARE_COLUMNS):
            columns = [column for column in columns if column != spare]
            table = self._table(columns)
            if Measurement.get(console, options.update(max_width=_ANY_WIDTH), table).minimum <= options.max_width:
                break
        yield table

    def _table(self, columns: Sequence[str]) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in columns:
            if column == "STATUS":  # a crash with its reason may need a second line
                table.add_column(column)
            else:  # rich measures words, and would cut STATUS where another column needs several of them in one line
                widest = max(cell_len(str(text)) for text in (column, *(row[column] for row in self.rows)))
                table.add_column(column, no_wrap=True, min_width=widest)
        for row in self.rows:
            table.add_row(*(row[column] for column in columns))
        return table


def render_nodes(document: Document) -> NodeTable:
    """Render one row for each node."""
    rows = []
    for node in printable_values(document["nodes"]):
        status = Text(node["state"], STATE_STYLES.get(node["state"], ""))
        if node["end"] and node["state"] == "crashed":
            status.append(f" ({node['end']})")
        row = {
            "NODE": node["name"],
            "ROLE": _role_of(node),
            "STATUS": status,
            "ADDRESS": node["address"],
            "HA ADDRESS": _beside(node["address"], node["ha_address"]),
            "PID": str(node["pid"] or "-"),
        }
        rows.append(row)
    return NodeTable(rows)


def _role_of(node: Document) -> Text:
    """Return the role of a broker, or the kind of another node.

    Mark a broker whose role is not the planned one.
    """
    text, planned = Text(node["role"] or node["kind"]), node.get("planned")
    if planned:
        text.append(f" id {node['broker_id']}, planned: {planned['role']} id {planned['broker_id']}", "red")
    return text


def _beside(address: str, other: str | None) -> str:
    """Return a node's second address.

    Only its port if the host is the same, to fit into 80 columns.
    """
    if other is None:
        return "-"
    host, _, port = other.rpartition(":")
    return f":{port}" if address.startswith(f"{host}:") else other


def render_up(document: Document) -> RenderableType:
    """Render the output of `up`: the nodes, the variable to export, commands to try."""
    document = printable_values(document)
    name = document["name"]
    option = "" if name == "default" else f" --name {name}"
    slave = next((node["name"] for node in document["nodes"] if node["broker_id"]), None)
    parts: list[RenderableType] = [
        Text.assemble("cluster ", (name, "bold"), " is ready", _rate_note(document)),
        *([Text(document["moved"], "yellow")] if document.get("moved") else []),
        *_settings_note(document),
        render_nodes(document),
        *map(HangingLine, masters_notes(document)),
        "",
        Text(f"export NAMESRV_ADDR='{document['namesrv_addr']}'"),
        *_control_note(document),
        "",
        "Try:",
        Text(f"  rmqlab produce{option}              # send messages, count their outcomes"),
        Text(f"  rmqlab status --watch{option}       # offsets, lag and routes, live"),
        Text(f"  rmqlab kill{option} broker-a:master"),
        Text(f"  rmqlab wait{option} route-gone broker-a:master"),
    ]
    if slave:
        parts.append(Text(f"  rmqlab pause{option} {slave}"))
    parts.append(Text(f"  rmqlab down{option}"))
    return Group(*parts)


def _control_note(document: Document) -> list[RenderableType]:
    """Say where the control API is. Its token is not shown: terminals are recorded."""
    if (control := document.get("control")) is None:
        return []
    return [Text(f"control API at {control['url']}, token in {document['directory']}/control.json")]


def render_status(document: Document) -> RenderableType:
    """Render nodes, replication, and each nameserver's routes against broker states."""
    document = printable_values(document)
    parts: list[RenderableType] = [
        Text.assemble(
            "cluster ",
            (document["name"], "bold"),
            f"  nameservers {document['namesrv_addr']}",
            _profile_note(document),
            _rate_note(document),
        ),
        *_settings_note(document),
        render_nodes(document),
    ]
    parts += map(HangingLine, masters_notes(document))
    if (logs := _render_replication(document)).plain:
        parts += ["", logs]
    parts += ["", _render_routes(document)]
    if document.get("faults"):
        parts += ["", render_faults(document["faults"])]
    unflushed = [line for node in document["nodes"] for line in _unflushed_lines(node)]
    parts += _at_most(unflushed, "red")
    of_5x = [line for node in document["nodes"] for line in _request_lines(node, "served_of_5x")]
    if of_5x:
        heading = "Requests of 5.x, served by serve_requests_of_5x (a real 4.9.8 replies code 3):"
        parts += ["", heading, *_at_most(of_5x, "yellow")]
    unserved = [line for node in document["nodes"] for line in _request_lines(node, "unserved")]
    if unserved:
        parts += ["", "Unsupported requests:", *_at_most(unserved, "yellow")]
    errors = [line for node in [{**document, "name": "supervisor"}, *document["nodes"]] for line in _error_lines(node)]
    if errors:
        parts += ["", "Internal errors (`rmqlab logs` has the first of each place):", *_at_most(errors, "red")]
    return Group(*parts)


def _unflushed_lines(node: Document) -> Iterator[str]:
    """Yield how much of the log of a broker is on disk, if its last flush failed."""
    commit_log = node.get("commit_log")
    if isinstance(commit_log, Mapping) and (error := commit_log.get("flush_error")):
        yield f"{node['name']}: the commit log is not synced beyond {_known(commit_log.get('flushed'))}: {error}"


def _at_most(lines: Sequence[str], style: str) -> Iterator[Text]:
    yield from (Text(line, style) for line in lines[:_MOST_ROWS])
    if len(lines) > _MOST_ROWS:
        yield Text(f"  ... and {len(lines) - _MOST_ROWS} more; --json has them", "dim")


def _error_lines(node: Document) -> Iterator[str]:
    """Yield one line for each place with internal errors."""
    errors = node.get("internal_errors")
    for place, count in errors.items() if isinstance(errors, Mapping) else ():
        yield f"  {node['name']}: {place}, {counted(count, 'times')}"


def _request_lines(node: Document, key: str) -> Iterator[str]:
    """Yield one line for each peer and request code."""
    counts = node.get(key)
    if not isinstance(counts, Mapping) or not counts:
        return
    from rmqlab.remoting.codes import RequestCode  # noqa: PLC0415 -- the wire's modules, rarely needed

    names = {code.value: code.name for code in RequestCode}
    for asked, count in counts.items():
        peer, _, code = str(asked).rpartition(" ")
        name = names.get(int(code), "not of 4.9") if code.lstrip("-").isdecimal() else "not of 4.9"
        yield f"  {node['name']}: code {code} ({name}) from {peer}, {counted(count, 'times')}"


def _profile_note(document: Document) -> Text:
    """Return the profile; empty for the default one."""
    profile = document.get("profile", PROFILES[0])
    return Text("" if profile == PROFILES[0] else f"  profile {profile}", "yellow")


def _settings_note(document: Document) -> Iterator[Text]:
    """Yield the settings of all brokers, then those of single ones."""
    of_all = {"broker settings": document.get("broker_settings") or {}}
    for whose, settings in {**of_all, **(document.get("node_settings") or {})}.items():
        if settings:
            yield Text(f"{whose}: " + "  ".join(f"{key}={_known(value)}" for key, value in settings.items()))


def _rate_note(document: Document) -> Text:
    return Text("" if document["rate"] == 1 else f"  time runs {document['rate']:g} times as fast", "yellow")


def _render_replication(document: Document) -> Text:
    """Render each master, and below it its slaves with the labels of mqadmin haStatus.

    Then brokers that replicate to none and from none.
    """
    nodes = {node["name"]: node for node in document["nodes"]}
    members = {node["name"]: node["dledger"] for node in document["nodes"] if node.get("dledger")}
    text = Text()
    master: str | None = ""
    for row in by_master(document["replication"]):
        if row["master"] != master:
            master = row["master"]
            text.append(f"{master or 'no master':12} ", "bold")
            text.append(f"{_log_or_state(nodes[master])}\n" if master else "\n")
        text.append(f"  {row['slave']:12} ", "bold").append(f"{_log_or_state(nodes[row['slave']])}  ")
        text.append_text(_render_lag(row["lag"]))
        text.append_text(link_note(row, nodes[row["slave"]]))
        if row["slave"] in members:
            text.append(f"\n    {_entries(members[row['slave']])}\n")
        else:
            text.append(_ha_status(row, nodes))
            text.append_text(_render_slave_faults(row))
    shown = {row[end] for row in document["replication"] for end in ("master", "slave")}
    for node in document["nodes"]:
        if node.get("commit_log") and node["name"] not in shown:
            text.append(f"{node['name']:12} ", "bold").append(f"{_log_or_state(node)}\n")
    for name, member in members.items():
        for fault in (member.get("peer_faults") or {}).values():
            text.append(f"  {name}: {fault}\n", "red")
    text.rstrip()
    return text


def _render_slave_faults(row: Document) -> Text:
    """Render what a slave lacks of its master's metadata, and why it does not follow."""
    text = Text()
    if behind := [kind for kind in ("topics", "groups") if (row.get("metadata") or {}).get(kind) is False]:
        text.append(f"    not copied from its master: {', '.join(behind)}\n", "yellow")
    if row["verdict"]:
        text.append(f"    {row['verdict']}\n", "red")
    if row["trouble"] and row["trouble"] != row["verdict"]:
        text.append(f"    reported to its master: {row['trouble']}\n", "red")
    return text


def _log_or_state(node: Document) -> str:
    """Return the range of a broker's commit log, or why it is unknown."""
    commit_log = node.get("commit_log") or {}
    if not commit_log and node["state"] != "ready":
        return str(node["state"])
    return f"commit log {_known(commit_log.get('min'))}..{_known(commit_log.get('max'))}"


def _ha_status(row: Document, nodes: Mapping[str, Document]) -> str:
    """Return what the master reports about its connection from a slave.

    Without a report, return the reason.
    """
    if all(row[name] is None for name in _HA_STATUS):
        why = "has no connection from it (a slave connects within 5 s)"
        why = why if row["connected"] is False else "reports nothing about it"
        if row["master"] and (state := nodes[row["master"]]["state"]) != "ready":
            why = f"is {state}"
        text = f"{row['master']} {why}" if row["master"] else "its group has no master"
        return f"\n    no haStatus: {text}\n"
    return (
        f"\n    slaveAckOffset {_known(row['slaveAckOffset'])}  diff {_known(row['diff'])}"
        f"  inSync {_known(row['inSync'])}  state {_known(row['state'])}\n"
        f"    transferredByteInSecond {_known(row['transferredByteInSecond'])}"
        f"  transferFromWhere {_known(row['transferFromWhere'])}\n"
    )


def _entries(member: Document) -> str:
    """Return the facts of a member of a DLedger group."""
    return (
        f"{member['role'].lower()} of {member['leader'] or 'no leader'} in term {member['term']}"
        f"  entries {member['begin_index']}..{member['end_index']}  committed {member['committed_index']}"
    )


def _render_lag(lag: int | None) -> Text:
    if lag is not None and lag < 0:
        return Text(f"ahead of its master by {-lag}", "red")
    return Text("lag ").append(_known(lag), "yellow" if lag else "")


def _known(value: object) -> str:
    """Return a value as mqadmin prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "?" if value is None else str(value)


def _render_routes(document: Document) -> UncutTable:
    states = {node["address"]: node["state"] for node in document["nodes"]}
    table = UncutTable()
    for column in ("NAMESERVER", "GROUP", "ROUTE"):
        table.add_column(column)
    for nameserver, view in document["routes"].items():
        if not view:
            table.add_row(nameserver, "-", "no response" if view is None else "no brokers")
            continue
        left_out = document.get("routes_left_out", {}).get(nameserver, 0) + max(len(view) - _MOST_ROWS, 0)
        for group, addresses in islice(sorted(view.items()), _MOST_ROWS):
            line = Text()
            for broker_id, address in islice(sorted(addresses.items()), _MOST_ADDRESSES):
                state = states.get(address, "unknown")
                line.append(shorten(f"{broker_id}={address}"))
                if state != "ready":  # a stale route
                    line.append(f" ({state})", STATE_STYLES.get(state, "yellow"))
                line.append("  ")
            if len(addresses) > _MOST_ADDRESSES:
                line.append(f"... and {len(addresses) - _MOST_ADDRESSES} more")
            table.add_row(nameserver, Text(shorten(group)), line)
        if left_out:
            table.add_row(nameserver, "...", f"and {left_out} more broker names; --json has them")
    return table


def render_faults(faults: Sequence[Document]) -> Text:
    """Render one line for each fault in force."""
    if not faults:
        return Text("no fault is in force")
    from rmqlab.faults import describe_fault  # noqa: PLC0415 -- all kinds of faults, which a healthy cluster has not

    text = Text("Faults in force:")
    faults = printable_values(faults)
    for fault in faults:
        text.append(f"\n  {fault['id']:4} ", "bold").append(describe_fault(fault), "red")
    return text
