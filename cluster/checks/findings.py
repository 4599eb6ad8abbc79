"""What a check answers: one value with its unit and its evidence, or what is missing to know it.

A metric is called `NAME`, `NAME.CLASS` or `NAME TARGET`: `lost`, `lost.SEND_OK`, `write_unavailable broker-a`.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from rmqlab.runtime.journal import JournalEntry

EVIDENCE_LIMIT = 100
"""Pieces of evidence kept for one finding; its value counts all."""
IDS_LIMIT = 1000
"""Message ids kept in one piece of evidence."""

Number = int | float
T = TypeVar("T")


class UnknownMetricError(ValueError):
    """No check measures anything of this name. The text names what comes near."""


@attrs.frozen(kw_only=True)
class Metric:
    """One row of the table of metrics."""

    name: str
    """Without its target."""
    target: str = ""
    """What stands for the target in `NAME TARGET`, such as BROKER; empty where there is none."""
    unit: str
    says: str
    """What is measured, in one line."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.target}".rstrip()


@attrs.frozen(kw_only=True)
class Evidence:
    """One thing that was seen, for a person to look into."""

    says: str
    at_millis: int | None = None
    """When it began, in milliseconds of the cluster's clock."""
    until_millis: int | None = None
    """When it ended; None for an instant, or where it had not ended."""
    message_ids: tuple[str, ...] = ()
    entries: tuple[JournalEntry, ...] = ()
    """The journal's entries about it and around it, by time."""

    def as_json(self) -> dict[str, Any]:
        """Plain values; what is not known is left out."""
        document: dict[str, Any] = {"says": self.says}
        if self.at_millis is not None:
            document["at"] = self.at_millis
        if self.until_millis is not None:
            document["until"] = self.until_millis
        if self.message_ids:
            document["message_ids"] = list(self.message_ids)
        if self.entries:
            document["entries"] = [entry.as_json() for entry in self.entries]
        return document


@attrs.frozen(kw_only=True)
class Finding:
    """The answer to one metric."""

    metric: str
    unit: str
    value: Number | None
    """None: not known, and `missing` says why."""
    is_at_least: bool = False
    """True where the run ended, or a record is cut, before the whole was seen: the truth is this or more."""
    missing: str = ""
    """What would have to be there to know it."""
    says: str = ""
    """The value in words, where the number alone could mislead."""
    message_ids: tuple[str, ...] = ()
    """Unique ids of all the messages that it counts, where it counts messages or deliveries."""
    evidence: tuple[Evidence, ...] = ()
    """The first EVIDENCE_LIMIT of what was seen."""

    @property
    def is_known(self) -> bool:
        return self.value is not None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "value": self.value,
            "unit": self.unit,
            "at_least": self.is_at_least,
            "missing": self.missing,
            "says": self.says,
            "message_ids": list(self.message_ids),
            "evidence": [piece.as_json() for piece in self.evidence],
        }


@attrs.frozen
class Findings:
    """All that the checks found in one run, by metric."""

    by_metric: Mapping[str, Finding]
    metrics: tuple[Metric, ...]
    """The table that the names come from."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.by_metric.values())

    def __getitem__(self, metric: str) -> Finding:
        """The finding of a metric; an unknown one where it was not measured. UnknownMetricError for no such name."""
        row = find_metric(metric, self.metrics)
        found = self.by_metric.get(metric)
        if found is not None:
            return found
        _, _, target = metric.partition(" ")
        seen = [name.partition(" ")[2] for name in self.by_metric if name.partition(" ")[0] == row.name and " " in name]
        missing = f"nothing in the journal is about {target or 'it'}"
        return Finding(
            metric=metric,
            unit=row.unit,
            value=None,
            missing=missing + (f"; there is {', '.join(seen)}" if seen else ""),
        )

    def as_json(self) -> dict[str, Any]:
        """Each finding by its metric."""
        return {finding.metric: finding.as_json() for finding in self}


def find_metric(metric: str, metrics: Iterable[Metric]) -> Metric:
    """The row that a metric's name belongs to. UnknownMetricError for none, or for a target too many or too few."""
    rows = list(metrics)
    name, _, target = metric.partition(" ")
    same = [row for row in rows if row.name == name]
    if not same:
        near = difflib.get_close_matches(name, {row.name for row in rows}, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"metrics: {', '.join(sorted({r.name for r in rows}))}"
        raise UnknownMetricError(f"no metric {name!r}; {hint}")
    for row in same:
        if bool(target) == bool(row.target):
            return row
    raise UnknownMetricError(
        f"metric {metric!r}: expected {' or '.join(row.title for row in same)}"
        + (f", such as {name} {_EXAMPLES[same[0].target]}" if same[0].target in _EXAMPLES else "")
    )


_EXAMPLES = {
    "BROKER": "broker-a",
    "QUEUE": "orders@broker-a:0",
    "NODE": "broker-a-s",
    "SLAVE": "broker-a-s",
    "GROUP": "shop",
    "NAMESERVER": "namesrv-1",
    "WATCHER": "namesrv-1",
}


def count_of(
    metric: str,
    unit: str,
    found: Sequence[T],
    tell: Callable[[T], Evidence],
    *,
    says: str = "",
    is_at_least: bool = False,
    message_ids: Iterable[str] = (),
) -> Finding:
    """A finding that counts what was found, and tells of the first of it."""
    return Finding(
        metric=metric,
        unit=unit,
        value=len(found),
        is_at_least=is_at_least,
        says=says,
        message_ids=tuple(message_ids),
        evidence=tuple(map(tell, found[:EVIDENCE_LIMIT])),
    )


def unknown(metric: str, unit: str, missing: str) -> Finding:
    """A finding that says what is missing."""
    return Finding(metric=metric, unit=unit, value=None, missing=missing)
