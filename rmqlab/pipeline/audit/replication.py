"""Replication lag of slaves, and whether their logs equal their masters'.

After a promotion the log of the master before it is compared, too.

Metrics: replication_lag SLAVE, replication_lag_left SLAVE, replication_lag_duration SLAVE, divergence SLAVE,
behind SLAVE, ahead SLAVE.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np

from rmqlab.pipeline.audit.fingerprints import differing_groups, fingerprint
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Rare, Run, written
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.audit.watchers import Member
from rmqlab.pipeline.stores.commitlogs import find_logs, log_files
from rmqlab.verdict.catalogue import BYTES, SECONDS
from rmqlab.verdict.findings import NOT_COMPARED, Finding, line_evidence, unknown

# Samples less than half a second apart count as one.
_LAG = """
with samples as (
    select h.at, h.seq, h.node, m.slave, m.master, m.paired_at, m.paired_until, h.node = m.master is_master,
        cast(get_json_object(fields, '$.max_offset') as bigint) log_end
    from cluster_events h join pairs m on h.node in (m.master, m.slave)
        and h.at >= m.paired_at and h.at < coalesce(m.paired_until, h.at + 1)
    where kind = 'log_sampled'
), stepped as (
    select *, int(coalesce(at - lag(at) over (partition by slave, paired_at order by seq) >= 500, true)) is_new
    from samples
), instants as (
    select *, sum(is_new) over (partition by slave, paired_at order by seq) instant from stepped
), known as (
    select slave, master, paired_at, paired_until, instant, at,
        last_value(if(is_master, log_end, null)) ignore nulls over before master_end,
        last_value(if(is_master, null, log_end)) ignore nulls over before slave_end,
        row_number() over (partition by slave, paired_at, instant order by seq desc) nth,
        min(at) over (partition by slave, paired_at, instant) instant_at
    from instants
    window before as (partition by slave, paired_at order by seq rows between unbounded preceding and current row)
)
select slave, instant_at at, greatest(0, master_end - slave_end) behind_bytes, master_end, slave_end, master, paired_at,
    paired_until
from known where nth = 1 and master_end is not null and slave_end is not null
"""

# Consecutive samples in which a slave was behind form one span, up to the first sample in which it was not.
_SPANS = """
with stepped as (
    select *, lead(at, 1, paired_until) over (partition by slave, paired_at order by at) next_at,
        sum(int(behind_bytes = 0)) over (partition by slave, paired_at order by at) span from lag
)
select slave, min(at) at, max_by(next_at, at) until from stepped where behind_bytes > 0 group by slave, paired_at, span
"""
# Holes are part of a log; bytes after its last record are not.
_ENDS = """
select node, min(log_offset) first, max(until) last
from (select node, log_offset, log_offset + size until from whole_records
    union all select node, log_offset, 0 from holes)
group by node
"""

# A record is identified by the CRC of all its bytes; the common range is compared record by record, unless all its
# records together are equal. The ids of messages are looked up for the few that differ: Spark sorts all rows to
# aggregate texts.
_COMMON = f"""
with ends as (
    {_ENDS}
), common as (
    select p.master, p.slave, greatest(a.first, b.first) low, least(a.last, b.last) high
    from followers p join ends a on p.master = a.node join ends b on p.slave = b.node
), records as (
    select c.slave, c.low, c.high, r.node, r.log_offset, r.record_crc, r.size, r.message_id, r.node = c.slave is_slave
    from whole_records r join common c on r.node in (c.master, c.slave)
    where r.log_offset + r.size > c.low and r.log_offset < c.high
)
"""
_DIFFERING = f"""
{_COMMON}, differing as (
    select slave, log_offset from records group by slave, log_offset
    having count(*) < 2 or min(record_crc) != max(record_crc) or min(size) != max(size)
)
select /*+ shuffle_hash(d) */ r.slave, r.log_offset, max(low) low, max(high) high,
    max(message_id) filter (where not is_slave) master_message, max(message_id) filter (where is_slave) slave_message
from records r join differing d on r.slave = d.slave and r.log_offset = d.log_offset group by r.slave, r.log_offset
"""
_SIDES = (
    f"select slave, {fingerprint('log_offset', 'record_crc', 'size')} rows_of_side from records group by slave, node"
)
_SUSPECTED = f"{_COMMON} {differing_groups(_SIDES, 'slave')}"

_PART_BYTES = 64 * 2**20
"""Bytes of two logs compared by one task."""
_BLOCK = 2**20

Extent: TypeAlias = tuple[int, int]
"""The first and last offset of a log."""

_LAGS = """
select * from (select slave, max(behind_bytes) most, max_by(behind_bytes, struct(at, paired_at)) latest from lag
    group by slave)
left join (select slave, max(named_struct('millis', coalesce(until, {ended_at}) - at, 'is_open', until is null)) longest
    from behind_spans group by slave) using (slave)
"""

_DIFFERENCES = Preview("divergences", "slave", ("log_offset",))
_SHOWN = 5
"""Differences of two logs to show: the first one has caused those after it."""


def judge(run: Run) -> Iterator[Finding]:
    """Write `lag`, `behind_spans` and `divergences`; yield each slave's findings."""
    slaves = [member.name for member in run.members.values() if member.broker_id]
    _share_roles(run)
    differences = Rare(name="divergences", text=_DIFFERING, suspicion=_SUSPECTED)
    run.write_rare(differences, beside=[written("lag", _LAG, is_bounded=True)])
    run.table("behind_spans", _SPANS, is_bounded=True)
    (differing,) = run.previews(_DIFFERENCES)
    of_lags, of_ends = run.batch(Query(_LAGS.format(ended_at=run.ended_at)), Query(_ENDS))
    lags = {row.slave: row for row in of_lags}
    begins = {node: run.log_begin(node) for node in run.stores if node not in run.wiped}
    ends = {node: (begin, begin) for node, begin in begins.items()} | {
        row.node: (row.first, row.last) for row in of_ends
    }
    for slave in dict.fromkeys([*slaves, *(pair.slave for pair in run.roles.pairs)]):
        yield from _judge_lag(slave, lags.get(slave))
    for name in dict.fromkeys([*slaves, *run.roles.followers]):
        yield from _judge_logs(run, run.members[name], ends, differing[name].first[:_SHOWN])


def _share_roles(run: Run) -> None:
    """Register pairs of slaves and masters, over time and at the end, as relations."""
    pairs = [
        {"slave": pair.slave, "master": pair.master, "paired_at": pair.at, "paired_until": pair.until}
        for pair in run.roles.pairs
    ]
    times = {"paired_at": "bigint", "paired_until": "bigint"}
    run.relations.define_rows("pairs", pairs, slave="string", master="string", **times)
    followers = [{"slave": node, "master": master} for node, master in run.roles.followers.items()]
    run.relations.define_rows("followers", followers, slave="string", master="string")


def _judge_lag(slave: str, row: Any | None) -> Iterator[Finding]:
    missing = "" if row else f"{slave} or its master recorded no sample of its log"
    most, latest = (row.most, row.latest) if row else (None, None)
    yield Finding(metric=f"replication_lag {slave}", unit=BYTES, value=most, missing=missing)
    yield Finding(metric=f"replication_lag_left {slave}", unit=BYTES, value=latest, missing=missing)
    if row is None:
        yield unknown(f"replication_lag_duration {slave}", SECONDS, missing)
        return
    longest = row.longest
    yield Finding(
        metric=f"replication_lag_duration {slave}",
        unit=SECONDS,
        value=longest.millis / 1000 if longest else 0.0,
        is_at_least=bool(longest and longest.is_open),
    )


def _judge_logs(run: Run, slave: Member, ends: Mapping[str, Extent], differing: Sequence[Any]) -> Iterator[Finding]:
    master = run.roles.followers.get(slave.name)
    pair = dict.fromkeys((master or slave.name, slave.name))
    cut = [f"{node}: {run.incomplete[node]}" for node in pair if node in run.incomplete]
    missing = "; ".join(cut or (() if pair.keys() <= ends.keys() else run.unread_of({slave.broker})))
    if missing or master is None or not {slave.name, master} <= ends.keys():
        for name in ("divergence", "behind", "ahead"):
            yield unknown(f"{name} {slave.name}", BYTES, missing or NOT_COMPARED)
        return
    mine, its_masters = ends[slave.name], ends[master]
    common = max(mine[0], its_masters[0]), min(mine[1], its_masters[1])
    if common[0] >= common[1] and all(begin < end for begin, end in (mine, its_masters)):
        for name in ("divergence", "behind", "ahead"):
            yield unknown(f"{name} {slave.name}", BYTES, "the logs have no byte in common")
        return
    yield _judge_divergence(run, slave.name, master, common, differing)
    yield Finding(metric=f"behind {slave.name}", unit=BYTES, value=max(0, its_masters[1] - mine[1]))
    yield Finding(metric=f"ahead {slave.name}", unit=BYTES, value=max(0, mine[1] - its_masters[1]))


def _judge_divergence(run: Run, slave: str, master: str, common: tuple[int, int], differing: Sequence[Any]) -> Finding:
    metric, (low, high) = f"divergence {slave}", common
    if not differing:
        return Finding(metric=metric, unit=BYTES, value=0)
    begin = max(low, differing[0].log_offset)
    differences = tuple(f"offset {row.log_offset}: {_difference(row, master, slave)}" for row in differing)
    return Finding(
        metric=metric,
        unit=BYTES,
        value=differing_bytes(run, master, slave, begin, high),
        evidence=line_evidence(differences),
    )


def _difference(row: Any, master: str, slave: str) -> str:
    if row.master_message and row.master_message == row.slave_message:
        return f"{row.master_message} at {master} and {slave}, with different bytes"
    return f"{row.master_message or 'nothing'} at {master}, {row.slave_message or 'nothing'} at {slave}"


def differing_bytes(run: Run, one: str, other: str, low: int, high: int) -> int:
    """Return how many bytes in [low, high) differ between two nodes' logs."""
    files = {log.node: log_files(log) for log in find_logs(run.directory)}
    parts = [_Part(files[one], files[other], at, min(at + _PART_BYTES, high)) for at in range(low, high, _PART_BYTES)]
    if run.relations.scale is not Scale.LARGE or not parts:
        return sum(map(count_differing, parts))
    # An RDD, because mapInArrow needs pandas, which is not a dependency.
    return int(run.relations.spark.sparkContext.parallelize(parts, len(parts)).map(count_differing).sum())


@attrs.frozen
class _Part:
    """A range of two logs, compared by one task."""

    one: list[Path]
    other: list[Path]
    low: int
    high: int


def count_differing(part: _Part) -> int:
    """Return how many bytes differ in a range of two logs."""
    return sum(
        int(np.count_nonzero(_array(part.one, at, part.high) != _array(part.other, at, part.high)))
        for at in range(part.low, part.high, _BLOCK)
    )


def _array(paths: list[Path], at: int, high: int) -> np.ndarray:
    return np.frombuffer(_bytes_at(paths, at, min(_BLOCK, high - at)), np.uint8)


def _bytes_at(files: list[Path], at: int, count: int) -> bytes:
    found = bytearray()
    for path in files:
        base, size = int(path.name), path.stat().st_size
        if base <= at + len(found) < base + size and len(found) < count:
            with path.open("rb") as file:
                file.seek(at + len(found) - base)
                found += file.read(count - len(found))
    return bytes(found).ljust(count, b"\0")
