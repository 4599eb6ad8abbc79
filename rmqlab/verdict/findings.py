"""Findings of a judge: a value with unit and evidence, or the missing evidence."""

import collections
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.metrics import Metric, find_metric

EVIDENCE_LIMIT = 100
"""Pieces of evidence kept for one finding; its value counts all."""
IDS_LIMIT = 1000
"""Message ids kept in one piece of evidence."""
PLACES_LIMIT = 12
"""Places of one message that the text of its evidence lists."""
NOT_MEASURED = "it was not measured"
"""Begin of the reason why a metric is unknown that has findings about other nodes."""
NO_COMMIT_DUE = "no commit to this node must have been saved"
"""Reason why `offset_file_behind` is unknown in a run without a due commit."""
NOT_COMPARED = "its log and its master's were not compared"
"""Reason why `divergence` is unknown without two logs."""

Number = int | float
Brokers = frozenset[str]
"""Broker names that one message or event is of; empty if unknown."""
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Evidence:
    """One observation that supports a finding, for a person to investigate."""

    text: str
    at_millis: int | None = None
    """When it began, in milliseconds of the cluster's clock."""
    until_millis: int | None = None
    """When it ended; None for an instant, or if it had not ended."""
    message_ids: tuple[str, ...] = ()
    entries: tuple[JournalEntry, ...] = ()
    """The journal's entries about it and around it, by time."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values, without unknown members."""
        document: dict[str, Any] = {"says": self.text}
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
    """The result of one metric."""

    metric: str
    unit: str
    value: Number | None
    """None if unknown; `missing` has the reason."""
    is_at_least: bool = False
    """True if `value` is a lower bound: the run or its records ended before the measurement was complete."""
    missing: str = ""
    """The missing evidence, if the value is unknown."""
    text: str = ""
    """The value in words, where the number alone could mislead."""
    message_ids: tuple[str, ...] = ()
    """Unique ids of all the messages that it counts, where it counts messages or deliveries."""
    evidence: tuple[Evidence, ...] = ()
    """The first EVIDENCE_LIMIT pieces of evidence."""
    parts: "Mapping[Brokers, Finding]" = attrs.field(factory=dict, repr=False)
    """What it counts, by brokers that a message or event is of; empty if that is unknown."""

    @property
    def is_known(self) -> bool:
        return self.value is not None

    @property
    def brokers(self) -> Brokers | None:
        """Return the brokers of all its parts; None if those of a part are unknown."""
        return None if frozenset() in self.parts else frozenset[str]().union(*self.parts)

    def withdrawn(self, missing: str) -> "Finding":
        """Return this finding as unknown; `missing` names the missing evidence."""
        return attrs.evolve(self, value=None, is_at_least=False, missing=missing, parts={})

    def as_floor(self, missing: str) -> "Finding":
        """Return this finding as a lower bound; as unknown if it counts nothing."""
        return attrs.evolve(self, is_at_least=True) if self.value else self.withdrawn(missing)

    def without(self, brokers: Collection[str], *, is_largest: bool = False) -> "Finding | None":
        """Return what this finding counts at other brokers, as a lower bound.

        None if that is nothing. `is_largest` is True for a metric whose value is the largest of its parts, not their
        sum.
        """
        kept = {names: part for names, part in self.parts.items() if names and names.isdisjoint(brokers)}
        values = [part.value for part in kept.values() if part.value]
        if not values:
            return None
        pieces = itertools.chain.from_iterable(part.evidence for part in kept.values())
        return attrs.evolve(
            self,
            value=max(values) if is_largest else sum(values),
            is_at_least=True,
            message_ids=tuple(itertools.chain.from_iterable(part.message_ids for part in kept.values())),
            evidence=tuple(itertools.islice(pieces, EVIDENCE_LIMIT)),
            parts=kept,
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "value": self.value,
            "unit": self.unit,
            "at_least": self.is_at_least,
            "missing": self.missing,
            "says": self.text,
            "message_ids": list(self.message_ids),
            "evidence": [piece.as_json() for piece in self.evidence],
        }


@attrs.frozen
class Findings:
    """All that the checks found in one run, by metric."""

    by_metric: Mapping[str, Finding]
    metrics: tuple[Metric, ...]
    """The table of the names."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.by_metric.values())

    def __getitem__(self, metric: str) -> Finding:
        """Return the finding of a metric; an unknown one if it was not measured.

        Raises UnknownMetricError if no metric has this name.
        """
        row = find_metric(metric, self.metrics)
        found = self.by_metric.get(metric)
        if found is not None:
            return found
        _, _, target = metric.partition(" ")
        seen = [name.partition(" ")[2] for name in self.by_metric if name.partition(" ")[0] == row.name and " " in name]
        missing = f"the journal has no event about {target or 'it'}"
        if seen:
            missing = f"{NOT_MEASURED} for {target}, but for {', '.join(seen)}"
        return Finding(metric=metric, unit=row.unit, value=None, missing=missing)

    def as_json(self) -> dict[str, Any]:
        """Each finding by its metric."""
        return {finding.metric: finding.as_json() for finding in self}


def count_of(
    metric: str,
    unit: str,
    found: Sequence[T],
    as_evidence: Callable[[T], Evidence],
    *,
    text: str = "",
    is_at_least: bool = False,
    message_ids: Iterable[str] = (),
    brokers_of: Callable[[T], Brokers] | None = None,
) -> Finding:
    """Return a finding that counts items, with the first ones as evidence.

    `brokers_of` returns the brokers that an item is of. It needs one id of each item in `message_ids`, or none at all.
    """
    ids = tuple(message_ids)
    parts: dict[Brokers, Finding] = {}
    if brokers_of is not None:
        places: dict[Brokers, list[int]] = collections.defaultdict(list)
        for place, item in enumerate(found):
            places[brokers_of(item)].append(place)
        for brokers, own in places.items():
            items, own_ids = [found[place] for place in own], [ids[place] for place in own if ids]
            parts[brokers] = count_of(metric, unit, items, as_evidence, message_ids=own_ids)
    return Finding(
        metric=metric,
        unit=unit,
        value=len(found),
        is_at_least=is_at_least,
        text=text,
        message_ids=ids,
        evidence=tuple(map(as_evidence, found[:EVIDENCE_LIMIT])),
        parts=parts,
    )


def line_evidence(lines: Iterable[str]) -> tuple[Evidence, ...]:
    """Return evidence of one line each; at most EVIDENCE_LIMIT of them."""
    return tuple(Evidence(text=line) for line in itertools.islice(lines, EVIDENCE_LIMIT))


def listed(places: Iterable[str], separator: str = ", ") -> str:
    """Return the first PLACES_LIMIT places, and the number of the others."""
    known = list(places)
    more = len(known) - PLACES_LIMIT
    return separator.join(known[:PLACES_LIMIT]) + (f" and {more} more" if more > 0 else "")


def failed_attempts(failures: int, seconds: float, windows: int = 1) -> str:
    """Describe a window without a success, the longest of `windows`."""
    attempts = "1 attempt" if failures == 1 else f"{failures} attempts"
    others = f"; the longest of {windows} windows" if windows > 1 else ""
    return f"{attempts} failed in {seconds:.2f} s{others}"


def unsent_text(places: Iterable[str], nodes: Iterable[str]) -> str:
    """Describe a stored message that no journal has a send of."""
    return f"no send in the journals, stored at {listed(sorted(places))} by {', '.join(sorted(set(nodes)))}"


def without_checksum(sends: int) -> str:
    """Describe sends whose content cannot be compared with their records."""
    return f"{sends} send{' of the journal has' if sends == 1 else 's of the journal have'} no checksum"


def without_id(deliveries: int) -> str:
    """Describe deliveries whose message is unknown."""
    return f"{deliveries} {'delivery carries' if deliveries == 1 else 'deliveries carry'} no message id"


def unknown(metric: str, unit: str, missing: str) -> Finding:
    """Return an unknown finding with the missing evidence."""
    return Finding(metric=metric, unit=unit, value=None, missing=missing)
