"""How far a slave is behind its master, over time.

All brokers sample the end of their log once a second of the cluster's time (`log_sampled`). A broker that is away keeps
its last sample, so the lag of a dead slave grows with its master's log. Changes between two samples are not seen.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.findings import Evidence, Finding, unknown
from rmqlab.verdict.roles import Pair

SAME_INSTANT = 500
"""Milliseconds. A sample that follows another sooner is of the same instant."""


@attrs.frozen
class Lag:
    """The lag of a slave at one instant."""

    at: int
    byte_count: int


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.REPLICATION`."""
    samples = list(history.of_kind("log_sampled"))
    for slave in _slaves(history):
        pairs = [pair for pair in history.roles.pairs if pair.slave == slave]
        each = [(pair, lag_series(_within(pair, samples), pair.master, pair.slave)) for pair in pairs]
        series = [lag for _, lags in each for lag in lags]
        if not series:
            missing = f"{slave} or its master recorded no sample of its log"
            yield unknown(f"replication_lag {slave}", "bytes", missing)
            yield unknown(f"replication_lag_left {slave}", "bytes", missing)
            yield unknown(f"replication_lag_duration {slave}", "s", missing)
            continue
        yield _lag_finding("replication_lag", slave, max(series, key=lambda lag: lag.byte_count), history)
        yield _lag_finding("replication_lag_left", slave, series[-1], history)
        yield _longest(slave, each, history)


def _slaves(history: History) -> list[str]:
    """Return the nodes that are or were slaves."""
    slaves = [member.name for member in history.members.values() if member.broker_id]
    return list(dict.fromkeys([*slaves, *(pair.slave for pair in history.roles.pairs)]))


def _within(pair: Pair, samples: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return the samples of a slave and its master while they had these roles."""
    return [
        entry
        for entry in samples
        if entry.node in (pair.master, pair.slave)
        and pair.at <= entry.at_millis
        and (pair.until is None or entry.at_millis < pair.until)
    ]


def lag_series(samples: Iterable[JournalEntry], master: str, slave: str) -> list[Lag]:
    """Return the lag at every sample of either node, once both have a sample."""
    ends: dict[str, int] = {}
    series: list[Lag] = []
    instant: int | None = None
    last = 0

    def close() -> None:
        if instant is not None and master in ends and slave in ends:
            series.append(Lag(instant, max(0, ends[master] - ends[slave])))

    for sample in samples:
        if instant is None or sample.at_millis - last >= SAME_INSTANT:
            close()
            instant = sample.at_millis
        last = sample.at_millis
        ends[sample.node] = int(sample.fields["max_offset"])
    close()
    return series


def _longest(slave: str, each: Iterable[tuple[Pair, Sequence[Lag]]], history: History) -> Finding:
    """Return how long the slave was behind one master at once, at most."""
    spans = [span for pair, series in each for span in _spans_behind(series, pair.until)]
    at, until = max(spans, key=lambda span: _end(span, history) - span[0], default=(0, 0))
    return Finding(
        metric=f"replication_lag_duration {slave}",
        unit="s",
        value=(_end((at, until), history) - at) / 1000,
        is_at_least=until is None,
        evidence=tuple(Evidence(text=f"{slave} fell behind", at_millis=at, until_millis=until) for at, until in spans),
    )


def _spans_behind(series: Iterable[Lag], until: int | None) -> Iterator[tuple[int, int | None]]:
    """Yield when the slave fell behind and when it caught up, else `until`."""
    since: int | None = None
    for lag in series:
        if lag.byte_count and since is None:
            since = lag.at
        elif not lag.byte_count and since is not None:
            yield since, lag.at
            since = None
    if since is not None:
        yield since, until


def _end(span: tuple[int, int | None], history: History) -> int:
    return history.ended_at if span[1] is None else span[1]


def _lag_finding(metric: str, slave: str, lag: Lag, history: History) -> Finding:
    evidence = Evidence(
        text=f"{slave} was {lag.byte_count} bytes behind", at_millis=lag.at, entries=history.around(lag.at)
    )
    return Finding(
        metric=f"{metric} {slave}",
        unit="bytes",
        value=lag.byte_count,
        evidence=(evidence,) if lag.byte_count else (),
    )
