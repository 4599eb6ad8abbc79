"""Lays out a status document and the latest events for a screen of a given size.

Pure.

Routes, clients, faults and warnings about masters are folded; other lines that are too long end in an ellipsis. Rows
that do not fit are counted. The events get the lines that are left.
"""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from rmqlab.cluster.cli.live.keys import HELP, KEYS, Document, Selection, state_of
from rmqlab.cluster.cli.live.noderows import STYLES, node_rows, servers_of
from rmqlab.cluster.cli.output.event_lines import EVENT_STYLES, clock_text
from rmqlab.cluster.cli.output.masters import masters_notes
from rmqlab.cluster.cli.output.screen import hanging_rows
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable, printable_values

INDENT = 17
"""Columns of the heads of routes, clients and faults, which are names."""
LEAST_EVENTS = 4
MOST_EVENTS = 200


def render_live(
    document: Document,
    selection: Selection,
    events: Sequence[Document],
    width: int = 80,
    height: int = 24,
    leaving: str = "quit",
    rates: Mapping[str, float] | None = None,
) -> RenderableType:
    """Fill a screen: `height` lines, none longer than `width`.

    `leaving` is the label of the key q. `rates` are messages or bytes per second, by node.
    """
    document, events = printable_values(document), printable_values(events[-MOST_EVENTS:])
    room = max(height - 3, 0)  # the head, and two lines at the foot
    lines = [_head(document, width)]
    if selection.is_help:
        lines += _help(leaving)
    else:
        known = rates or {}
        for section in (
            partial(_nodes, rates=known),
            _masters,
            _routes,
            partial(_clients, rates=known),
            _faults,
        ):
            part = section(document, selection, max(room // 3, 3), width)
            lines += part
            room -= len(part)
        lines += _events(events, document, max(room, LEAST_EVENTS))
    del lines[max(height - 2, 0) :]
    lines += [Text()] * (height - 2 - len(lines))
    lines += [Text(printable(f" {selection.message}"), "yellow"), _foot(leaving, width)]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines[-height:] if height > 0 else ())


def _head(document: Document, width: int) -> Text:
    left = Text(f" rmqlab {document['name']}", "bold")
    if document["rate"] != 1:
        left.append(f"  time x{document['rate']:g}", "yellow")
    clock = f"  {_clock(document['clock_millis'])} "
    address = f"  NAMESRV_ADDR={document['namesrv_addr']}"
    if left.cell_len + len(address) + len(clock) <= width:  # a cut address is useless
        left.append(address, "not bold dim")
    return left.append(clock.rjust(max(width - left.cell_len, 0)), "not bold dim")


def _foot(leaving: str, width: int) -> Text:
    """List the keys that fit; `?` lists all."""
    for count in range(len(KEYS), -1, -1):
        text = Text(" ")
        for key, what in (*KEYS[:count], ("q", leaving)):
            text.append(key, "bold cyan").append(f" {what}  ", "dim")
        text.right_crop(1)
        text.append("?", "bold cyan")
        if text.cell_len <= width:
            break
    return text


def _help(leaving: str) -> list[Text]:
    keys = [*HELP, ("q", "stop the cluster" if leaving == "quit" else "leave; the cluster runs on")]
    return [_title("   KEY        WHAT IT DOES")] + [
        Text(f"   {key:10} ", "bold cyan").append(what, "not bold default") for key, what in keys
    ]


# ---- nodes and replication ---------------------------------------------------------------------------


def _nodes(document: Document, selection: Selection, room: int, width: int, rates: Mapping[str, float]) -> list[Text]:
    title, rows, chosen = node_rows(document, selection.node, rates, width)
    well = sum(state_of(node, document["faults"]) == "ready" for node in servers_of(document))
    return [_title(title), *_window([[row] for row in rows], chosen, room, f"{well} of all {len(rows)} are ready")]


def _masters(document: Document, _selection: Selection, room: int, width: int) -> list[Text]:
    """Render what `status` says of masters.

    It is folded: a cut line would hide the effect or the remedy.
    """
    folded = [
        [
            Text(f"   {line}", note.style)
            for line in textwrap.wrap(note.plain, max(width - 3, 1), break_on_hyphens=False)  # names have hyphens
        ]
        for note in masters_notes(document)
    ]
    lines: list[Text] = []
    for number, note in enumerate(folded):
        if lines and len(lines) + len(note) > room:
            return [*lines, Text(f"   ... and {counted(len(folded) - number, 'more groups')}", "dim")]
        lines += note
    return lines


# ---- routes ------------------------------------------------------------------------------------------


def _routes(document: Document, _selection: Selection, room: int, width: int) -> list[Text]:
    """Render each nameserver's route by node names.

    Stale addresses, and ready brokers that are missing, are marked.
    """
    brokers = {node["address"]: node for node in document["nodes"] if node["kind"] == "broker"}
    lines = []
    for nameserver, view in document["routes"].items():
        line = Text(f"   {nameserver:13} ", "bold")
        if view is None:
            lines.append(line.append("no response", "red"))
            continue
        named = [address for addresses in view.values() for _, address in sorted(addresses.items())]
        wrong = [
            (_name(address, brokers), state)
            for address in named
            if (state := _state(address, brokers, document["faults"])) != "ready"
        ]
        left_out = [
            node["name"] for address, node in brokers.items() if node["state"] == "ready" and address not in named
        ]
        lines.append(_belief(line, [_name(address, brokers) for address in named], wrong, left_out))
    return [_title("   NAMESERVER    ROUTE"), *_window(_folded(lines, width), 0, max(room // 2, 2))]


def _belief(line: Text, named: Sequence[str], wrong: Sequence[tuple[str, str]], left_out: Sequence[str]) -> Text:
    if wrong:
        line.append("WRONG ", "bold red")
        line.append("still names ", "red").append(", ".join(f"{name} ({state})" for name, state in wrong), "red")
    if left_out:
        line.append("; " if wrong else "WRONG ", "bold red").append(f"leaves out {', '.join(left_out)}", "red")
    if not wrong and not left_out:
        line.append("correct  ", "green").append(" ".join(named) or "no brokers", "dim")
    return line


def _state(address: str, brokers: Mapping[str, Document], faults: Sequence[Document]) -> str:
    return state_of(brokers[address], faults) if address in brokers else "unknown here"


def _name(address: str, brokers: Mapping[str, Document]) -> str:
    return brokers[address]["name"] if address in brokers else address


# ---- clients, faults, events -------------------------------------------------------------------------


def _clients(document: Document, selection: Selection, room: int, width: int, rates: Mapping[str, float]) -> list[Text]:
    clients = [node for node in document["nodes"] if node["kind"] == "workload"]
    lines = []
    for node in clients:
        line = Text(f"{'>' if node['name'] == selection.node else ' '}  {node['name']:13} ", "bold")
        line.append(f"{node['state']:9} ", STYLES.get(node["state"], ""))
        rate = rates.get(node["name"])
        line.append("" if rate is None else f"{rate:,.0f}/s  ", "cyan")
        lines.append(line.append("  ".join(_counts(node.get("messages") or {}))))
    chosen = next((index for index, node in enumerate(clients) if node["name"] == selection.node), 0)
    return [_title("   CLIENT"), *_window(_folded(lines, width), chosen, room)] if lines else []


def _counts(messages: Document) -> list[str]:
    """Return a workload's counters: sends by outcome, and failed attempts."""
    failed = sum(number for kind, number in messages.items() if kind.startswith("attempt_failed"))
    counts = [
        f"{kind.removeprefix('sent.')} {number:,}"
        for kind, number in messages.items()
        if not kind.startswith("attempt_failed")
    ]
    return counts + ([f"failed attempts {failed:,}"] if failed else [])


def _faults(document: Document, _selection: Selection, room: int, width: int) -> list[Text]:
    lines = []
    for fault in document["faults"]:
        line = Text(f"   {fault['id']:13} ", "bold").append(f"{fault['type']} ", "magenta")
        rest = {key: value for key, value in fault.items() if key not in ("id", "type", "applied_at")}
        line.append("  ".join(f"{key}={value}" for key, value in rest.items()))
        seconds = (document["clock_millis"] - fault["applied_at"]) / 1000
        lines.append(line.append(f"  for {seconds:.0f} s", "dim"))
    return [_title("   FAULTS        IN FORCE"), *_window(_folded(lines, width), 0, max(room // 2, 2))] if lines else []


def _events(events: Sequence[Document], document: Document, room: int) -> list[Text]:
    """Render the latest events.

    A node's repeated events of one kind become one line with the last and their number.
    """
    names = {node["address"]: node["name"] for node in document["nodes"]}
    folded: list[tuple[Document, int]] = []
    for event in events:
        if folded and (folded[-1][0]["node"], folded[-1][0]["kind"]) == (event["node"], event["kind"]):
            folded[-1] = (event, folded[-1][1] + 1)
        else:
            folded.append((event, 1))
    lines = [_event(event, times, names) for event, times in folded[max(0, len(folded) - room + 1) :]]
    return [_title("   EVENTS"), *lines]


def _event(event: Document, times: int, names: Mapping[str, str]) -> Text:
    line = Text(f" {_clock(event['at'])} ", "dim").append(f"{event['node'] or 'cluster':12} ", "bold")
    line.append(event["kind"], EVENT_STYLES.get(event["kind"], "default"))
    if times > 1:
        line.append(f" x{times}", "dim")
    for key, value in event.items():
        if key not in ("at", "node", "kind") and isinstance(
            value, str | int | float
        ):  # lists and maps are for `events`
            line.append(f" {key}=", "dim").append(str(names.get(value, value) if isinstance(value, str) else value))
    return line


# ---- lines -------------------------------------------------------------------------------------------


def _folded(lines: Sequence[Text], width: int) -> list[list[Text]]:
    """Return the rows of each line, the later ones indented."""
    return [list(hanging_rows(line, width, INDENT)) for line in lines]


def _window(entries: Sequence[list[Text]], chosen: int, room: int, note: str = "") -> list[Text]:
    """Return the rows of the entries that fit, with the selected entry among them.

    The last row counts the entries left out.
    """
    if sum(map(len, entries)) <= room:
        return [row for entry in entries for row in entry]
    first, last = _surroundings([len(entry) for entry in entries], chosen, room - 1)
    shown = [row for entry in entries[first:last] for row in entry][: max(room - 1, 0)]
    more = f"   ... and {len(entries) - (last - first)} more"
    return [*shown, Text(f"{more}; {note}" if note else more, "dim")]


def _surroundings(sizes: Sequence[int], chosen: int, room: int) -> tuple[int, int]:
    """Return the range of entries that fits, with the chosen one in its middle."""
    first, last = chosen, chosen + 1
    while True:
        wider = [(first, last + 1), (first - 1, last)]
        if last - chosen > chosen - first + 1:  # more of them are after the chosen one
            wider.reverse()
        fitting = [(a, b) for a, b in wider if a >= 0 and b <= len(sizes) and sum(sizes[a:b]) <= room]
        if not fitting:
            return first, last
        first, last = fitting[0]


def _title(text: str) -> Text:
    return Text(text, "bold dim")


def _clock(millis: int) -> str:
    return clock_text(millis)[:-4]
