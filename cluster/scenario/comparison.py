"""Figures of a run that can be compared with those of other runs. Pure.

Source: issue 16, "The comparison". Times are seconds of the cluster's clock. A figure that a run has no evidence for is
None, never 0.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs

from rmqlab.cluster.checks.absences import Absence
from rmqlab.cluster.checks.history import History
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.outcomes import STORED

Number = int | float


@attrs.frozen(kw_only=True)
class Variant:
    """One way to run the same scenario."""

    name: str
    profile: str = "4.9"
    mode: str | None = None
    """The cluster's mode, if not the scenario's."""
    promotes: bool = False
    """True if an operator promotes a slave of a master that is away."""


VARIANTS = (
    Variant(name="master/slave"),
    Variant(name="hardened", profile="hardened"),
    Variant(name="promoted by hand", promotes=True),
    Variant(name="DLedger", mode="dledger"),
)


@attrs.frozen(kw_only=True)
class Figure:
    """A figure of a run."""

    name: str
    text: str
    unit: str
    of: Callable[[History, Judgement], Number | None]


def _longest(metric: str) -> Callable[[History, Judgement], Number | None]:
    def of(_history: History, judgement: Judgement) -> Number | None:
        """Return the greatest value of the metric for a broker name, not for a queue."""
        found = [
            one for one in judgement.by_metric.values() if one.metric.startswith(f"{metric} ") and "@" not in one.metric
        ]
        return _greatest(found)

    return of


def _value(metric: str) -> Callable[[History, Judgement], Number | None]:
    return lambda _history, judgement: _greatest(one for one in judgement.by_metric.values() if one.metric == metric)


def _greatest(findings: Iterable[Finding]) -> Number | None:
    values = [finding.value for finding in findings]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _missing_at_masters(history: History, judgement: Judgement) -> Number | None:
    """Return how many acknowledged messages the last master of each broker name lacks."""
    masters = [history.roles.master_at(broker, history.ended_at) for broker in history.roles.brokers]
    values = [_value(f"missing {master}")(history, judgement) for master in masters if master is not None]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) == len(history.roles.brokers) else None


def first_death(history: History) -> Absence | None:
    """Return the first absence of a node that was a master then."""
    return next((one for one in history.absences if history.roles.id_at(one.node, one.at) == 0), None)


def _rate(history: History, at: int, until: int) -> float | None:
    """Return stored messages per second of an interval; None if it is empty."""
    stored = sum(len(send.ids) or 1 for send in history.sends if send.outcome in STORED and at <= send.ended_at < until)
    return round(stored * 1000 / (until - at), 1) if until > at else None


def _rate_before(history: History, _judgement: Judgement) -> float | None:
    death = first_death(history)
    return None if death is None or not history.sends else _rate(history, history.sends[0].ended_at, death.at)


def _rate_after(history: History, _judgement: Judgement) -> float | None:
    death = first_death(history)
    return None if death is None or not history.sends else _rate(history, death.at, history.sends[-1].ended_at)


def _log_bytes(history: History, _judgement: Judgement) -> float | None:
    """Return the bytes of all commit logs at their last samples, per stored message."""
    ends = {entry.node: int(entry.fields["max_offset"]) for entry in history.of_kind("log_sampled")}
    stored = _stored(history)
    return round(sum(ends.values()) / stored, 1) if ends and stored else None


def _traffic(*fields: str) -> Callable[[History, Judgement], float | None]:
    def of(history: History, _judgement: Judgement) -> float | None:
        """Return the bytes of all brokers' connections, per stored message.

        A killed broker's count is that of its last sample. A count that falls is that of a new process.
        """
        ended, last = 0, dict[str, int]()
        for entry in _samples(history):
            count = sum(entry.fields.get(field, 0) for field in fields)
            ended += last[entry.node] if count < last.get(entry.node, 0) else 0
            last[entry.node] = count
        total, stored = ended + sum(last.values()), _stored(history)
        return round(total / stored, 1) if total and stored else None

    return of


def _samples(history: History) -> Iterator[JournalEntry]:
    """Yield the samples of all brokers, those at their stops included."""
    yield from history.of_kind("log_sampled")
    yield from (entry for entry in history.closing if entry.kind == "log_sampled")


def _stored(history: History) -> int:
    return sum(len(send.ids) or 1 for send in history.sends if send.outcome in STORED)


def _processes(history: History, _judgement: Judgement) -> int:
    return sum(member.is_broker or member.is_nameserver for member in history.members.values())


def _disks(history: History, _judgement: Judgement) -> int:
    return sum(member.is_broker for member in history.members.values())


FIGURES = (
    Figure(name="without_writes", text="longest write outage", unit="s", of=_longest("write_unavailable")),
    Figure(name="without_reads", text="longest read outage", unit="s", of=_longest("read_unavailable")),
    Figure(name="refused", text="refused", unit="messages", of=_value("sent.refused")),
    Figure(name="indeterminate", text="indeterminate", unit="messages", of=_value("sent.indeterminate")),
    Figure(name="missing", text="acknowledged, not at the master", unit="messages", of=_missing_at_masters),
    Figure(name="lost", text="acknowledged, on no disk", unit="messages", of=_value("lost")),
    Figure(name="duplicates", text="repeated", unit="deliveries", of=_value("duplicates")),
    Figure(name="rate_before", text="stored before the failure", unit="messages/s", of=_rate_before),
    Figure(name="rate_after", text="stored after the failure", unit="messages/s", of=_rate_after),
    Figure(name="log_bytes", text="log per stored message", unit="bytes on all disks", of=_log_bytes),
    Figure(name="replicated", text="replication, per stored message", unit="bytes sent", of=_traffic("replicated")),
    Figure(name="exchanged", text="clients and other, per stored message", unit="bytes", of=_traffic("exchanged")),
    Figure(name="network", text="network, per stored message", unit="bytes", of=_traffic("replicated", "exchanged")),
    Figure(name="processes", text="servers", unit="processes", of=_processes),
    Figure(name="disks", text="stores", unit="stores", of=_disks),
)


def figures_of(history: History, judgement: Judgement) -> dict[str, Number | None]:
    """Return all figures of a run, by name."""
    return {figure.name: figure.of(history, judgement) for figure in FIGURES}


def as_rows(figures: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the lines of a table: the name of a figure, and its value in each run."""
    return [
        (
            f"{figure.text}, {figure.unit}" if figure.unit != figure.text else figure.text,
            [_text(one[figure.name]) for one in figures],
        )
        for figure in FIGURES
    ]


def _text(value: Number | None) -> str:
    return "unknown" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
