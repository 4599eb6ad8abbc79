"""Values of expectations on events, taken from the journal. Pure.

Only entries between the labels count (`begin` and `end` by default). A finding is unknown, with the reason, if the run
did not reach a label or has no event to take a value from.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rmqlab.cluster.scenario.model import Expectation
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.findings import Evidence, Finding

EVIDENCE = 20


def labels_of(entries: Iterable[JournalEntry]) -> dict[str, int]:
    """Return the time of each label, in milliseconds of the cluster's clock."""
    return {
        str(entry.fields["label"]): entry.at_millis
        for entry in entries
        if entry.kind == "step" and entry.fields.get("label")
    }


def observation_unit(expectation: Expectation) -> str:
    """Return the unit of an expectation on events; empty if unknown."""
    match expectation.take:
        case "count":
            return "events"
        case "distinct":
            return "values"
        case "delay":
            return "s"
    kind = EVENT_TYPES.get(expectation.event or "")
    field = kind.fields.get(expectation.field or "") if kind else None
    return "s" if field is not None and field.unit.startswith("ms") else ""


def observe(expectation: Expectation, entries: Sequence[JournalEntry], labels: Mapping[str, int]) -> Finding:
    """Return the finding of an expectation on a run's events."""
    after, before = expectation.after or "begin", expectation.before or "end"
    for label in (after, before):
        if label not in labels:
            return _finding(expectation, missing=f"the run did not reach {label!r}")
    matching = [
        entry
        for entry in entries
        if entry.kind == expectation.event
        and labels[after] <= entry.at_millis <= labels[before]
        and _matches(entry, expectation.where)
    ]
    if expectation.take == "count":
        return _finding(expectation, len(matching), matching)
    if expectation.take == "delay":
        if not matching:
            return _finding(expectation, missing=f"no such {expectation.event} between {after!r} and {before!r}")
        return _finding(expectation, (matching[0].at_millis - labels[after]) / 1000, matching[:1])
    return _value(expectation, matching)


def _value(expectation: Expectation, matching: Sequence[JournalEntry]) -> Finding:
    found = [(entry.fields.get(expectation.field or ""), entry) for entry in matching]
    known = [(value, entry) for value, entry in found if value is not None]
    if expectation.take == "distinct":
        return _finding(expectation, len({repr(value) for value, _ in known}), [entry for _, entry in known])
    if not known:
        return _finding(expectation, missing=f"no {expectation.event} has {expectation.field}")
    numbers = [(value, entry) for value, entry in known if _is_number(value)]
    match expectation.take:
        case "first":
            value, entry = known[0]
        case "last":
            value, entry = known[-1]
        case _ if not numbers:
            return _finding(expectation, missing=f"{expectation.field} is not a number")
        case "min":
            value, entry = min(numbers, key=lambda pair: pair[0])
        case _:
            value, entry = max(numbers, key=lambda pair: pair[0])
    wants_text = isinstance(expectation.equals, str)
    if not wants_text and not _is_number(value):  # the field of an open event, such as measured
        return _finding(expectation, missing=f"{expectation.field} is not a number: {as_written(value)}")
    if observation_unit(expectation) == "s":
        value = value / 1000
    return _finding(expectation, value, [entry])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text_of(value: object) -> str:
    """Return a value that is no number as expectations have it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _matches(entry: JournalEntry, where: Mapping[str, Any]) -> bool:
    """True if each named field has the expected value, or one of an array of these."""
    for name, wanted in where.items():
        value = entry.node if name == "node" else entry.fields.get(name)
        if value not in wanted if isinstance(wanted, list) else value != wanted:
            return False
    return True


def _finding(
    expectation: Expectation, value: Any = None, entries: Sequence[JournalEntry] = (), *, missing: str = ""
) -> Finding:
    is_number = _is_number(value)
    return Finding(
        metric=expectation.title,
        unit=observation_unit(expectation),
        value=value if is_number or value is None else 0,
        missing=missing,
        text="" if is_number or value is None else _text_of(value),
        message_ids=tuple(str(entry.fields["message_id"]) for entry in entries if entry.fields.get("message_id"))[
            :1000
        ],
        evidence=tuple(
            Evidence(text=f"{entry.kind} of {entry.node or 'the cluster'}", at_millis=entry.at_millis, entries=(entry,))
            for entry in entries[:EVIDENCE]
        ),
    )
