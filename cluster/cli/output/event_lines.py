"""Renders events, their schema and lines of logs for a person."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rmqlab.cluster.cli.output.screen import HangingLine
from rmqlab.runtime.text.printable import printable, printable_values

if TYPE_CHECKING:
    from rmqlab.runtime.journals.schema import EventType

Document = Mapping[str, Any]

EVENT_STYLES = {
    "node_ready": "green",
    "node_killed": "bold red",
    "node_crashed": "bold red",
    "power_lost": "bold red",
    "fault_applied": "bold red",
    "fault_healed": "green",
    "store_wiped": "bold red",
    "node_paused": "magenta",
    "node_stopped": "yellow",
    "command": "bold cyan",
    "broker_unregistered": "yellow",
    "route_changed": "cyan",
}
_LONGEST_VALUE = 60
EVENT_INDENT = 27
"""Columns of an event's time and node."""


def render_event(event: Document) -> Text:
    """Render an event on one line: time of the cluster's clock, node, kind, fields.

    Frequent kinds are shorter.
    """
    event = printable_values(event)
    line = Text(f"{clock_text(event['at'])}  ", "dim")
    line.append(f"{event['node'] or 'cluster':12} ", "bold")
    if (render := _MESSAGES.get(event["kind"])) is not None:
        return line.append_text(render(event))
    line.append(event["kind"], EVENT_STYLES.get(event["kind"], ""))
    for key, value in event.items():
        if key not in ("at", "node", "kind"):
            text = str(value)
            line.append(f"  {key}=", "dim")
            line.append(text if key == "error" else shorten(text))
    return line


def event_line(event: Document, suffix: str = "") -> HangingLine:
    """Return the line of an event, with a suffix."""
    return HangingLine(render_event(event).append(suffix, "dim"), EVENT_INDENT)


def clock_text(millis: int) -> str:
    """Return the local time of day.

    Return question marks for an invalid time: a peer can send any value.
    """
    seconds, rest = divmod(millis, 1000)
    try:
        return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{rest:03}"
    except (ValueError, OverflowError, OSError):
        return "??:??:??.???"


def _sent_line(event: Document) -> Text:
    outcome = str(event.get("outcome"))
    line = Text(f"sent #{event.get('number')} ").append(outcome, "green" if outcome == "SEND_OK" else "yellow")
    if event.get("broker"):
        line.append(f" {_place(event)}", "dim")
    line.append(f" {event.get('took')} ms", "dim").append(f": {event['remark']}" if event.get("remark") else "")
    return _with_error(line, event)


def _attempt_line(event: Document) -> Text:
    line = Text(f"attempt {event.get('attempt')} at {event.get('broker') or 'no broker'} ")
    return _with_error(
        line.append(str(event.get("outcome")), "yellow").append(f" {event.get('took')} ms", "dim"), event
    )


def _delivered_line(event: Document) -> Text:
    line = Text(f"got #{event.get('number')} ").append(_place(event), "dim")
    if event.get("from_broker_id"):
        line.append(f" from slave {event['from_broker_id']}", "yellow")
    return line.append(f" again ({event['reconsume_times']})" if event.get("reconsume_times") else "", "yellow")


def _committed_line(event: Document) -> Text:
    line = Text("committed ").append(_place(event), "dim")
    return line.append(f" to slave {event['broker_id']}" if event.get("broker_id") else "", "yellow")


def _sample_line(event: Document) -> Text:
    return Text(f"log ends at {event.get('max_offset')}", "dim")


def _route_missing_line(event: Document) -> Text:
    return Text(f"no route of topic {event.get('topic')} yet: waiting for one", "yellow")


def _rebalanced_line(event: Document) -> Text:
    held, added, removed = (len(event.get(key) or ()) for key in ("held", "added", "removed"))
    return Text(f"rebalanced {event.get('topic')}: queues held {held}, added {added}, removed {removed}")


def _believed_line(event: Document) -> Text:
    brokers = event.get("brokers")
    known = brokers if isinstance(brokers, Mapping) else {}
    ids = (f"{name} {','.join(map(str, found))}" for name, found in known.items() if isinstance(found, Mapping))
    return Text(f"route_believed {event.get('topic')}: ").append("; ".join(ids) or "no broker", "cyan")


def _queue_line(event: Document) -> Text:
    at = event.get("queue") or event.get("broker_name")
    line = Text(f"{event['kind']} {at}").append(f" at broker id {event.get('broker_id')}", "dim")
    return line.append(f" {event.get('address')}", "dim")


def _place(event: Document) -> str:
    return f"{event.get('topic')}@{event.get('broker')}:{event.get('queue')} at {event.get('offset')}"


def _with_error(line: Text, event: Document) -> Text:
    return line.append(f": {event['error']}") if event.get("error") else line


_MESSAGES = {
    "sent": _sent_line,
    "attempt_failed": _attempt_line,
    "delivered": _delivered_line,
    "committed": _committed_line,
    "log_sampled": _sample_line,
    "route_missing": _route_missing_line,
    "rebalanced": _rebalanced_line,
    "route_believed": _believed_line,
    "pulling_from": _queue_line,
    "pull_resumed": _queue_line,
    "committing_to": _queue_line,
}
"""Kinds that are rendered without the names of their fields, which `--json` has."""


def render_schema(kinds: "Iterable[EventType]") -> Text:
    """Render all kinds of events, each with its fields below it."""
    text = Text()
    for kind in kinds:
        text.append(kind.name, "bold").append(f"  ({kind.source})  {kind.meaning}\n")
        for name, field in kind.fields.items():
            unit = f", {field.unit}" if field.unit else ""
            text.append(f"    {name}", "cyan").append(f": {field.type}{unit}", "dim").append(f"  {field.meaning}\n")
        if kind.is_open:
            text.append("    further fields may come\n", "dim")
    text.rstrip()
    return text


def render_log_line(node: str, line: str) -> Text:
    """Render one line of a node's log. Tabs are expanded, not escaped."""
    return Text(f"{node}| ", "dim").append(printable(line.expandtabs()), "not dim")


def shorten(text: str) -> str:
    """Cut a text that is too long for a table, and mark the cut."""
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
