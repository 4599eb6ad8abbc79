"""How far a slave is behind its master, over time.

* `replication_lag SLAVE`, in bytes of the commit log: the most by which the master's log was longer than the slave's at
  any of the instants in which all brokers look (once a second of the cluster's time; `log_sampled`). A broker that is
  away keeps its last sample: the lag of a dead slave grows as its master goes on. What comes and goes between two
  samples is not seen.
* `replication_lag_left SLAVE`: the same at the last sample of the run.
* `behind_for SLAVE`, in seconds of the cluster's time: the longest time in which it was behind at every sample. "At
  least" where it still was at the last one.

Unknown: where the master or the slave gave no sample.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from cluster.checks.beliefs import Span
from cluster.checks.copies import Stores
from cluster.checks.findings import EVIDENCE_LIMIT, Evidence, Finding, Metric, unknown
from cluster.checks.history import History
from remoting.journal import JournalEntry

METRICS = (
    Metric(name="replication_lag", target="SLAVE", unit="bytes", says="the most it was behind its master's log"),
    Metric(name="behind_for", target="SLAVE", unit="s", says="the longest time in which it was behind"),
    Metric(name="replication_lag_left", target="SLAVE", unit="bytes", says="how far it was behind in the end"),
)

SAME_INSTANT = 500
"""ms: samples that stand closer in the journal than this were taken in one instant."""


@attrs.frozen
class Lag:
    """How far a slave was behind at one instant."""

    at: int
    byte_count: int


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Measure all of METRICS."""
    for slave in history.members.values():
        if not slave.broker_id:
            continue
        master = next(iter(history.brokers(slave.broker)))
        samples = [entry for entry in history.of_kind("log_sampled") if entry.node in (master.name, slave.name)]
        series = lag_series(samples, master.name, slave.name)
        if master.broker_id or not series:
            missing = f"{master.name} or {slave.name} gave no sample of its log"
            yield from (unknown(f"{metric.name} {slave.name}", metric.unit, missing) for metric in METRICS)
            continue
        yield _told("replication_lag", slave.name, max(series, key=lambda lag: lag.byte_count), history)
        yield _told("replication_lag_left", slave.name, series[-1], history)
        yield _longest_behind(slave.name, series, history)


def lag_series(samples: Iterable[JournalEntry], master: str, slave: str) -> list[Lag]:
    """The lag at every instant in which either told something new, once both have."""
    ends: dict[str, int] = {}
    series: list[Lag] = []
    instant: int | None = None

    def close() -> None:
        if instant is not None and master in ends and slave in ends:
            series.append(Lag(instant, max(0, ends[master] - ends[slave])))

    for sample in samples:
        if instant is None or sample.at_millis - instant >= SAME_INSTANT:
            close()
            instant = sample.at_millis
        ends[sample.node] = int(sample.fields["max_offset"])
    close()
    return series


def spans_behind(series: Iterable[Lag]) -> list[Span]:
    """The times in which the lag was above 0; the last may have no end."""
    spans: list[Span] = []
    since: int | None = None
    for lag in series:
        if lag.byte_count and since is None:
            since = lag.at
        elif not lag.byte_count and since is not None:
            spans.append(Span(since, lag.at))
            since = None
    return spans if since is None else [*spans, Span(since, None)]


def _longest_behind(slave: str, series: Sequence[Lag], history: History) -> Finding:
    def seconds(span: Span) -> float:
        return (span.end(history.ended_at) - span.at) / 1000

    spans = sorted(spans_behind(series), key=seconds, reverse=True)
    return Finding(
        metric=f"behind_for {slave}",
        unit="s",
        value=seconds(spans[0]) if spans else 0.0,
        is_at_least=bool(spans) and spans[0].until is None,
        evidence=tuple(
            Evidence(
                says=f"{slave} was behind for {seconds(span):.2f} s",
                at_millis=span.at,
                until_millis=span.until,
                entries=history.around(span.at),
            )
            for span in spans[:EVIDENCE_LIMIT]
        ),
    )


def _told(metric: str, slave: str, lag: Lag, history: History) -> Finding:
    evidence = Evidence(
        says=f"{slave} was {lag.byte_count} bytes behind", at_millis=lag.at, entries=history.around(lag.at)
    )
    return Finding(
        metric=f"{metric} {slave}",
        unit="bytes",
        value=lag.byte_count,
        evidence=(evidence,) if lag.byte_count else (),
    )
