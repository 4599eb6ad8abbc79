"""The events of a run as readable lines. Pure."""

from collections.abc import Iterator, Sequence

import attrs

from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS, JournalEntry

_LONGEST_VALUE = 100


@attrs.define
class _Streak:
    """Messages of one node with one outcome."""

    at_millis: int
    node: str
    what: str
    count: int = 0


def history_lines(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Yield one line for each event, with times relative to the start of the scenario.

    Messages of a node share a line until their outcome changes or an event other than a message follows.
    """
    began_at = next(
        (entry.at_millis for entry in entries if entry.kind == "step"), entries[0].at_millis if entries else 0
    )
    for item in _with_streaks(entries):
        seconds = (item.at_millis - began_at) / 1000
        if isinstance(item, _Streak):
            yield f"{seconds:+10.3f} s  {item.node:12} {item.count} x {item.what}"
        else:
            yield f"{seconds:+10.3f} s  {item.node or 'cluster':12} {item.kind}{_fields(item)}"


def _with_streaks(entries: Sequence[JournalEntry]) -> list[JournalEntry | _Streak]:
    shown: list[JournalEntry | _Streak] = []
    streaks: dict[tuple[str, str], _Streak] = {}
    for entry in entries:
        if entry.kind not in MESSAGE_KINDS:
            streaks.clear()
            shown.append(entry)
            continue
        key, what = (entry.node, entry.kind), _what(entry)
        if key not in streaks or streaks[key].what != what:
            streaks[key] = _Streak(entry.at_millis, entry.node, what)
            shown.append(streaks[key])
        streaks[key].count += 1
    return shown


def _what(entry: JournalEntry) -> str:
    outcome = entry.fields.get("outcome")
    return f"{entry.kind} {outcome}" if outcome else entry.kind


def _fields(entry: JournalEntry) -> str:
    text = ""
    for name, value in entry.fields.items():
        shown = str(value)
        text += f"  {name}={shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 1] + '…'}"
    return text
