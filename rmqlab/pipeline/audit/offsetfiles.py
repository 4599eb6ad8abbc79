"""Compare consumer offsets in brokers' files with the commits sent.

Metric: offset_file_behind NODE. A broker saves its offsets every 5 s, first 10 s after its start, and at a clean
shutdown; the rules are those of cluster/checks/offsetfiles.py. This process reads the files and follows the nodes;
Spark aggregates the commits. Needs `offset_moves`.
"""

import collections
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.run import Run
from rmqlab.pipeline.audit.watchers import ClusterEvent, Member, Span
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.findings import NO_COMMIT_DUE, Finding, line_evidence, unknown
from rmqlab.verdict.roles import CONTESTED

_SAVED_EVERY, _SAVED_FIRST, _TRAVEL, _STALL = 5000, 10_000, 1000, 500
_FOREVER = 2**62
_ENDINGS = ("node_killed", "node_crashed", "node_stopped")

FLOORS = f"""
with here as (
    select l.node, c.node consumer, c.`group`, c.topic, c.broker, c.queue, c.offset, c.seq, c.at, l.saved_until
    from (
        select * from commits c left anti join deleted_topics x on c.broker = x.broker and c.topic = x.topic
        union all select * from new_commits) c
        join offset_incarnations l on c.broker = l.broker and coalesce(c.broker_id, 0) = l.broker_id
        left anti join deleted_groups y
            on c.broker = y.broker and c.`group` = y.`group` and c.at <= y.at + {_TRAVEL}
        left anti join commits_elsewhere z
            on c.node = z.consumer and c.broker = z.broker and l.node = z.node and c.at >= z.at and c.at < z.until
    where c.at >= l.ready_at and c.at < coalesce(l.held_until, c.at + 1)
), failed_pulls as (
    select node, get_json_object(fields, '$.queue') queue,
        at - cast(coalesce(get_json_object(fields, '$.took'), 0) as bigint) began_at, at
    from cluster_events where kind = 'pull_failed'
), sure as (
    select h.node, h.`group`, h.topic, h.broker, h.queue, max(named_struct('seq', h.seq, 'at', h.at)) latest
    from here h left anti join offset_disturbances d
        on h.node = d.node and h.at >= d.at and h.at <= coalesce(d.until, h.at)
        left anti join failed_pulls p
        on h.consumer = p.node and concat(h.topic, '@', h.broker, ':', h.queue) = p.queue
            and h.at between p.began_at and p.at
    where h.at <= h.saved_until group by all
), since as (
    select s.node, s.`group`, s.topic, s.broker, s.queue, h.offset from sure s join here h
        on s.node = h.node and s.`group` = h.`group` and s.topic = h.topic and s.queue = h.queue
    where h.seq >= s.latest.seq
    union all
    select s.node, s.`group`, s.topic, s.broker, s.queue, m.after from sure s join offset_moves m
        on s.node = m.node and s.`group` = m.`group` and s.topic = m.topic and s.broker = m.broker and s.queue = m.queue
    where m.at >= s.latest.at
)
select f.*, coalesce(t.offset, 0) stored
from (select node, `group`, topic, broker, queue, min(offset) floor from since group by all) f
    left join offset_files t
        on f.node = t.node and concat(f.topic, '@', f.`group`) = t.key and f.queue = t.queue
"""


@attrs.frozen
class _Incarnation:
    """The time a broker was last ready, and the time of its last certain save."""

    ready_at: int
    saved_until: int


@attrs.frozen
class OffsetFiles:
    """The brokers with a readable file, and the last incarnation of each broker."""

    read: Collection[str]
    incarnations: Mapping[str, _Incarnation | None]


def read(run: Run) -> OffsetFiles:
    """Read the brokers' files, and define the relations that `FLOORS` needs."""
    files = {name: run.offsets.consumers[name] for name in run.stores if name in run.offsets.consumers}
    faults = list(_faults(run.cluster_events))
    disturbances = {name: [*faults, *_pauses(run.cluster_events, name)] for name in run.members}
    incarnations = {
        one.name: _incarnation(run, one, disturbances[one.name]) for one in run.members.values() if one.broker
    }
    _share(run, files, incarnations, disturbances)
    return OffsetFiles(files.keys(), incarnations)


def judge(run: Run, files: OffsetFiles, floors: Sequence[Row]) -> Iterator[Finding]:
    """Yield a finding for every broker that was ready, from the table `offset_floors`."""
    rows: dict[str, list[Row]] = collections.defaultdict(list)
    for row in sorted(floors, key=lambda row: (row.stored - row.floor, row["group"], row.topic, row.queue)):
        rows[row.node].append(row)
    for name, incarnation in files.incarnations.items():
        metric = f"offset_file_behind {name}"
        if name in files.read and incarnation is not None and run.members[name].broker in run.roles.contested:
            yield unknown(metric, MESSAGES, CONTESTED)
        else:
            yield _judge(metric, rows[name], is_read=name in files.read, is_alive=incarnation is not None)


def _judge(metric: str, rows: list[Row], *, is_read: bool, is_alive: bool) -> Finding:
    if not is_read or not is_alive or not rows:
        missing = NO_COMMIT_DUE if is_read else "consumerOffset.json could not be read"
        return unknown(metric, MESSAGES, missing if is_alive else "the node lost power, or its store")
    behind = [row for row in rows if row.floor > row.stored]
    lines = tuple(
        f"{row['group']}, {row.topic}@{row.broker}:{row.queue}: offset {row.stored} in the file,"
        f" and must be {row.floor}"
        for row in behind
    )
    return Finding(
        metric=metric,
        unit=MESSAGES,
        value=behind[0].floor - behind[0].stored if behind else 0,
        evidence=line_evidence(lines),
    )


def _share(
    run: Run,
    files: Mapping[str, Mapping[str, Mapping[int, int]]],
    incarnations: Mapping[str, _Incarnation | None],
    disturbances: Mapping[str, list[Span]],
) -> None:
    """Define relations: files, incarnations, times without certain commits."""
    stored = [
        {"node": node, "key": name, "queue": queue, "offset": offset}
        for node, table in files.items()
        for name, queues in table.items()
        for queue, offset in queues.items()
    ]
    run.relations.define_rows("offset_files", stored, node="string", key="string", queue="int", offset="bigint")
    acting = (span for broker in run.roles.brokers for span in run.roles.masters_over_time(broker))
    held_until = {node: until for node, _, until in acting if not run.members[node].broker_id}
    known = [
        {"node": name, "broker": run.members[name].broker, "broker_id": run.members[name].broker_id or 0}
        | {"ready_at": incarnation.ready_at, "saved_until": incarnation.saved_until, "held_until": held_until.get(name)}
        for name, incarnation in incarnations.items()
        if incarnation is not None
    ]
    columns = {"ready_at": "bigint", "saved_until": "bigint", "held_until": "bigint"}
    run.relations.define_rows("offset_incarnations", known, node="string", broker="string", broker_id="int", **columns)
    elsewhere = list(_elsewhere(run))
    names = {"consumer": "string", "broker": "string", "node": "string"}
    run.relations.define_rows("commits_elsewhere", elsewhere, **names, at="bigint", until="bigint")
    spans = [
        {"node": node, "at": at - _TRAVEL, "until": until}
        for node, found in disturbances.items()
        for at, until in found
    ]
    run.relations.define_rows("offset_disturbances", spans, node="string", at="bigint", until="bigint")


def _elsewhere(run: Run) -> Iterator[dict[str, object]]:
    """Yield for each broker the times in which a consumer did not commit to it.

    A consumer whose route is stale commits to a former master.
    """
    targets: dict[tuple[str, str], list[tuple[int, str]]] = collections.defaultdict(list)
    for one in run.cluster_events:
        if one.kind == "committing_to":
            targets[one.node, str(one.fields["broker_name"])].append((one.at, str(one.fields["address"])))
    for (consumer, broker), known in targets.items():
        for (at, address), (until, _) in itertools.pairwise([*known, (_FOREVER, "")]):
            for member in run.members.values():
                if member.broker == broker and member.address != address:
                    yield {"consumer": consumer, "broker": broker, "node": member.name, "at": at, "until": until}


def _incarnation(run: Run, member: Member, disturbances: list[Span]) -> _Incarnation | None:
    own = [one for one in run.cluster_events if one.node == member.name]
    begun = max(index for index, one in enumerate(own) if one.kind == "node_ready")
    ready_at, rest = own[begun].at, own[begun + 1 :]
    if any(one.kind in ("power_lost", "store_wiped") for one in rest):
        return None
    ended_at, is_orderly = _end(run, member.name, rest)
    for at, until in disturbances:
        if until is None or until > ended_at - _SAVED_FIRST:
            ended_at, is_orderly = min(ended_at, at), False
    if is_orderly:
        return _Incarnation(ready_at, ended_at - _TRAVEL)
    rate = next(
        (float(one.fields.get("rate") or 1) for one in run.cluster_events if one.kind == "cluster_starting"), 1.0
    )
    stall = round(_STALL * rate)
    has_saved = ended_at >= ready_at + _SAVED_FIRST + stall
    return _Incarnation(ready_at, ended_at - _SAVED_EVERY - _TRAVEL - stall if has_saved else ready_at - 1)


def _end(run: Run, node: str, rest: list[ClusterEvent]) -> tuple[int, bool]:
    """Return the end of a node's last incarnation, and if it shut down cleanly.

    The end is the time of the command that ended it.
    """
    ordered = None
    for one in rest:
        if one.kind == "command" and one.fields.get("command") in ("kill", "stop", "pause", "power-loss", "wipe"):
            ordered = one.at if ordered is None else ordered
        elif one.kind == "node_paused":
            ordered = None
        elif one.kind in _ENDINGS:
            return (one.at if ordered is None else ordered), one.kind == "node_stopped"
    if node in run.stopped:
        return run.stopped[node], True
    return run.ended_at, False


def _faults(events: tuple[ClusterEvent, ...]) -> Iterator[Span]:
    healed: dict[str, list[int]] = collections.defaultdict(list)
    for one in events:
        if one.kind == "fault_healed":
            healed[str(one.fields.get("id"))].append(one.at)
    for one in events:
        if one.kind == "fault_applied":
            yield one.at, next((at for at in healed[str(one.fields.get("id"))] if at >= one.at), None)


def _pauses(events: tuple[ClusterEvent, ...], node: str) -> Iterator[Span]:
    """Return the times from the command to freeze a node until it resumes or ends."""
    ordered: int | None = None
    paused: int | None = None
    ready_at = max((one.at for one in events if (one.node, one.kind) == (node, "node_ready")), default=0)
    for one in events:
        if one.node != node or one.at < ready_at:
            continue
        if one.kind == "command" and one.fields.get("command") in ("kill", "stop", "pause", "power-loss", "wipe"):
            ordered = one.at if ordered is None else ordered
        elif one.kind == "node_paused":
            paused, ordered = (one.at if ordered is None else ordered), None
        elif one.kind in ("node_resumed", *_ENDINGS):
            if paused is not None:
                yield paused, one.at if ordered is None or one.kind == "node_resumed" else ordered
            paused = ordered = None
    if paused is not None:
        yield paused, None
