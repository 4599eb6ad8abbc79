"""Delayed and half messages that a master holds back beyond their time.

The rules are those of cluster/checks/overdue.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rmqlab.pipeline.audit.parts import divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import Query, literal
from rmqlab.pipeline.audit.run import Rare, Run
from rmqlab.remoting.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.store.offline.irregularfiles import why_unreadable
from rmqlab.verdict.catalogue import OVERDUE
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.duetimes import wrong_clocks
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.nodesettings import Settings, read_settings
from rmqlab.verdict.overdue import (
    HALF_ENDS,
    HOLDING_TOPICS,
    SERVICE_KINDS,
    WHAT,
    Service,
    at_known_brokers,
    last_services,
    progress_of,
    why_unknown,
)
from rmqlab.verdict.roles import CONTESTED

TABLE: Final = "overdue_messages"
_PREVIEW: Final = Preview(TABLE, "brokers", ("stored_at", "message_id"))
_HELD: Final = "held_messages"
_BODY_CRC: Final = "crc32(cast(cast(c.offset as string) as binary)) & 2147483647"
_OP_CRC: Final = f"crc32(cast(concat({_BODY_CRC}, ' 0 ', char(1), 'd') as binary))"
"""As `rmqlab.verdict.overdue.op_crc`."""

# A relation: messages that still wait in logs of masters.
_HELD_MESSAGES: Final = f"""
with waiting as (
    select c.* from readable_copies c left semi join master_services s on c.node = s.node
    where c.topic in ({", ".join(map(literal, HOLDING_TOPICS))}) and c.real_topic != ''
), ended as (
    select w.node, w.log_offset from waiting w join copies c on w.message_id = c.message_id and w.broker = c.broker
        and w.log_offset < c.log_offset and (c.topic = w.real_topic
            or w.topic = {literal(HALF_TOPIC)} and c.topic in ({", ".join(map(literal, HALF_ENDS))}))
    union all
    select w.node, w.log_offset from waiting w join deliveries d on w.message_id = d.message_id
        and w.real_topic = d.topic and w.stored_at < d.at
), resolved as (
    select c.node, c.message_id from copies c join (
        select node, contentCrc from raw_records where topic = {literal(OP_HALF_TOPIC)} and state = 'ok') o
        on c.node = o.node and {_OP_CRC} = o.contentCrc
    where c.topic = {literal(HALF_TOPIC)}
)
select w.* from waiting w
    left anti join ended e on w.node = e.node and w.log_offset = e.log_offset
    left anti join resolved r
        on w.topic = {literal(HALF_TOPIC)} and w.node = r.node and w.message_id = r.message_id
"""
_WORDS: Final = """if(offset < position,
    concat(', ', topic, '@', broker, ':', queue, ' has passed by offset ', offset, ', and is at ', position),
    concat(', ', until - due_at, ' ms overdue'))"""
_OVERDUE: Final = f"""
with timed as (
    select h.node, h.broker, h.message_id, h.topic, h.queue, h.offset, h.log_offset, h.stored_at, s.until,
        if(h.topic = {literal(SCHEDULE_TOPIC)}, e.tagsCode, h.stored_at + s.half_wait) due_at,
        if(h.topic = {literal(SCHEDULE_TOPIC)}, s.latest_due, s.latest_half) latest, coalesce(p.position, 0) position
    from {_HELD} h join master_services s on h.node = s.node
        left join holding_progress p on h.node = p.node and h.topic = p.topic and h.queue = p.queue
        left join queue_entries e on h.node = e.node and h.log_offset = e.commitLogOffset and h.topic = e.topic
            and h.queue = e.queueId and h.offset = e.queueOffset
    where h.topic = {literal(SCHEDULE_TOPIC)} or h.stored_at > s.lost_at
)
select message_id, min(stored_at) stored_at,
    {places("node", "log_offset", "stored_at", _WORDS)},
    array_sort(collect_set(broker)) brokers
from timed where offset < position or due_at <= latest
group by message_id
"""
_HELD_TOPICS: Final = f"select node, collect_set(topic) topics from {_HELD} group by node"
_SUSPICION: Final = "select * from deferred"


def judge(run: Run) -> Iterator[Finding]:
    """Write the table `overdue_messages`, and yield `overdue`."""
    metric, unit = OVERDUE.name, OVERDUE.unit
    settings = {node: read_settings(run.directory, node) for node in run.stores if node not in run.wiped}
    services = list(_services(run, settings))
    _share(run, services)
    why = _reasons(run, settings)
    asked = [Query(_HELD_TOPICS)] if any(why(one.node, HOLDING_TOPICS) for one in services) else []
    held = run.write_rare(Rare(name=TABLE, text=_OVERDUE, suspicion=_SUSPICION), beside=asked)
    doubts = {run.broker_of(row.node): text for rows in held for row in rows if (text := why(row.node, row.topics))}
    (overdue,) = run.previews(_PREVIEW)
    if not run.stores:
        yield unknown(metric, unit, "no store was given")
        return
    finding = Finding(metric=metric, unit=unit, value=0, is_at_least=bool(run.unread))
    judged = divided(finding, overdue, _PREVIEW.order, evidence_of(WHAT))
    missing = run.unread_of(judged.brokers) if overdue else []
    yield at_known_brokers(judged, doubts, missing, run.unread_brokers)


def _services(run: Run, settings: Mapping[str, Settings | None]) -> Iterator[Service]:
    """Yield those of masters whose store was read."""
    events = ((one.at, one.node, one.kind) for one in run.cluster_events if one.kind in SERVICE_KINDS)
    for service in last_services(events, run.roles, run.ended_at, run.conditions.slack, settings):
        if service.node in run.stores:
            yield service


def _share(run: Run, services: Sequence[Service]) -> None:
    """Register the masters' services and progress, and the relation of what they hold."""
    columns = dict.fromkeys(("until", "latest_due", "half_wait", "latest_half", "lost_at"), "bigint")
    rows = [{name: getattr(one, name) for name in ("node", *columns)} for one in services]
    run.relations.define_rows("master_services", rows, node="string", **columns)
    progress = [
        {"node": one.node, "topic": topic, "queue": queue_id, "position": position}
        for one in services
        for (topic, queue_id), position in progress_of(
            run.offsets.delays.get(one.node, {}), run.offsets.consumers.get(one.node, {})
        ).items()
    ]
    run.relations.define_rows(
        "holding_progress", progress, node="string", topic="string", queue="int", position="bigint"
    )
    run.relations.define(_HELD, _HELD_MESSAGES)


def _reasons(run: Run, settings: Mapping[str, Settings | None]) -> Callable[[str, Sequence[str]], str]:
    """Return a function of a node and topics.

    It says why messages that still wait in these topics cannot be judged. Its text is empty if they can.
    """
    faults = ((one.at, one.fields) for one in run.cluster_events if one.kind == "fault_applied")
    unreliable = {
        **wrong_clocks(run.conditions, faulted_clocks(faults, run.roles), run.roles),
        **dict.fromkeys(run.roles.contested, CONTESTED),
    }

    def why(node: str, topics: Sequence[str]) -> str:
        unread_queues = why_unreadable(run.directory / node / "store" / "consumequeue")
        known = why_unknown(topics, settings.get(node), unread_queues, run.conditions)
        return unreliable.get(run.broker_of(node)) or known

    return why
