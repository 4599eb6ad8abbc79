"""What happened in a run, as lines that a person can read. Pure."""

import itertools
from collections.abc import Iterator, Sequence

from remoting.journal import MESSAGE_KINDS, JournalEntry

_LONGEST_VALUE = 100


def history_lines(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """A line for each event, times from the scenario's beginning; messages that follow each other are one line."""
    began_at = next(
        (entry.at_millis for entry in entries if entry.kind == "step"), entries[0].at_millis if entries else 0
    )
    for (is_message, node, what), group in itertools.groupby(entries, _sort_of):
        members = list(group)
        seconds = (members[0].at_millis - began_at) / 1000
        if is_message:
            yield f"{seconds:+10.3f} s  {node:12} {len(members)} x {what}"
        else:
            for entry in members:
                seconds = (entry.at_millis - began_at) / 1000
                yield f"{seconds:+10.3f} s  {entry.node or 'cluster':12} {entry.kind}{_fields(entry)}"


def _sort_of(entry: JournalEntry) -> tuple[bool, str, str]:
    outcome = entry.fields.get("outcome")
    what = f"{entry.kind} {outcome}" if outcome else entry.kind
    return entry.kind in MESSAGE_KINDS, entry.node, what


def _fields(entry: JournalEntry) -> str:
    text = ""
    for name, value in entry.fields.items():
        shown = str(value)
        text += f"  {name}={shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 1] + '…'}"
    return text
