"""The fate of every message, and the resulting loss (RPO).

One group by over a union of all rows that contain a message id: one shuffle by message id, and no join that could
multiply rows. All metrics are counted in one pass over its result. Metrics: lost, lost.OUTCOME, unreadable, expired,
missing NODE, unreplicated BROKER, sent, sent.OUTCOME, stored.indeterminate, stored.refused, stored_unsent,
stored_twice, place_disagreement, content_disagreement.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit import expiry, headers, origins, possiblebrokers, unreplicated, unstored
from rmqlab.pipeline.audit.parts import divided
from rmqlab.pipeline.audit.previews import Groups, join_groups
from rmqlab.pipeline.audit.relations import Query, literal
from rmqlab.pipeline.audit.run import Run, written
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Evidence, Finding, listed, unknown, unsent_text, without_checksum
from rmqlab.verdict.outcomes import OUTCOMES, STORED

_NOTHING_SENT = "no workload of the journal sent anything"
_NO_STORE = "no store was given"
_NO_CRC = "no send of the journal has a checksum"
_OF_ABSENT = ("lost", "unreadable", "expired")
"""Metrics of messages in no store."""
_FLOORS = ("stored.", "stored_twice", "place_disagreement", "content_disagreement")
"""Metrics to which records in stores that were not read add."""

_SYSTEM_TOPIC = (
    f"place.topic in ({', '.join(map(literal, sorted(SYSTEM_TOPICS)))})"
    f" or startswith(place.topic, {literal(SYSTEM_TOPIC_PREFIX)})"
)
"""SQL expression equivalent to `rmqlab.remoting.names.is_system_topic`."""

# The greatest `send` is an acknowledged one if there is any, SEND_OK first: an application may send a message again.
# Each message has few rows on each node, so sets of a part of them would cost more than they save. Of rows that are
# sorted by message Spark makes all sets at once, by the setting of `audit.py`.
_FATES = """
select message_id,
    max(send) send,
    max(is_failure) has_failure,
    count(send) sends,
    collect_set(struct(send.broker, send.outcome, send.ended_at)) filter (where send.acknowledged) acknowledgements,
    collect_set(delivered) filter (where delivered is not null) delivered,
    collect_set(node) filter (where place is not null) nodes,
    collect_set(place) filter (where place is not null) places,
    min(stored_at) stored_at,
    sum(is_delivery) deliveries,
    array_sort(collect_set(damage)) damages,
    min(content_crc) least_crc,
    max(content_crc) greatest_crc,
    min(born_at) first_born_at,
    max(born_at) last_born_at,
    coalesce(max(is_of_other_host), false) has_other_host,
    {header_columns},
    coalesce(min(is_expired), false) is_expired
from (select * from (select /*+ repartition({tasks}, message_id) */ * from (
    select message_id, named_struct('acknowledged', acknowledged, 'is_ok', outcome = 'SEND_OK', 'ended_at', ended_at,
        'topic', topic, 'outcome', outcome, 'broker', broker, 'queue', queue, 'offset', offset, 'crc', crc,
        'sys_flag', sys_flag, 'place_topic', place_topic, 'place_queue', place_queue,
        'position', coalesce(position, 0), 'began_at', began_at) send,
        false is_failure, '' node, null place, null stored_at, 0 is_delivery, null damage, null delivered,
        null content_crc, null born_at, null is_of_other_host, null header, null retried,
        if(acknowledged, {expired}, null) is_expired
    from sends where message_id is not null
    union all
    select message_id, null, true, '', null, null, 0, null, null, null, null, null, null, null, null
    from failures where message_id is not null
    union all
    select message_id, null, false, node,
        named_struct('topic', topic, 'broker', broker, 'queue', queue, 'offset', offset), stored_at, 0, null, null,
        content_crc, {born_at}, {is_of_other_host}, {header}, null, null
    from copies
    union all
    select message_id, null, false, '', null, null, 1, null, if(reconsume_times > 0, null,
        named_struct('topic', topic, 'broker', broker, 'queue', queue, 'offset', offset)), null, null, null, null,
        {retried}, null
    from deliveries where message_id != ''
    union all
    select message_id, null, false, '', null, null, 0, concat(node, ', commit log offset ', log_offset, ': ', why),
        null, null, null, null, null, null, null
    from damages where message_id is not null
)) sort by message_id)
group by message_id
"""

# The acknowledgement or a delivery names a place without a record. Consumers send messages back to %RETRY% and %DLQ%,
# through the topic of delayed messages. `uncertain` are the brokers whose logs may lack records. Spark interprets
# `exists`, row by row: the condition that is false for almost all messages is first.
# A broker with fewer delay levels than the producer asked for holds the message at its last one.
_ELSEWHERE = f"""
send.acknowledged and send.broker is not null and send.place_queue is not null and send.offset is not null
    and not exists(places, place -> place.topic = send.place_topic and place.broker = send.broker
        and (place.queue = send.place_queue
            or place.topic = {literal(SCHEDULE_TOPIC)} and place.queue < send.place_queue)
        and place.offset = send.offset + send.position)
    and send.broker not in ({{uncertain}})
    and exists(places, place -> place.topic = send.place_topic or send.place_topic = send.topic
        and not startswith(place.topic, '%RETRY%') and not startswith(place.topic, '%DLQ%') and not ({_SYSTEM_TOPIC}))
or exists(delivered, one -> not exists(places, place -> place.topic = one.topic and place.broker = one.broker
        and place.queue = one.queue and place.offset = one.offset)
    and one.broker not in ({{uncertain}})
    and (one.topic != send.topic or exists(places, place -> place.topic = one.topic)))
"""

# A half message at other places than the acknowledged one: a broker that stores it again gives it flag 0.
_IS_SENT_PLACE = """coalesce(place.topic = send.place_topic and place.broker = send.broker
    and place.queue = send.place_queue and place.offset = send.offset + send.position, false)"""
_STORED_AGAIN = f"""
coalesce(send.place_topic, {literal(HALF_TOPIC)}) = {literal(HALF_TOPIC)}
    and (exists(places, place -> place.topic = {literal(HALF_TOPIC)} and not {_IS_SENT_PLACE})
        or send.place_topic is not null and not exists(places, place -> {_IS_SENT_PLACE}))
"""

_PRESENCE = """
select send.outcome outcome, send.broker broker, array_sort(nodes) nodes, deliveries > 0 is_consumed, count(*) messages
from fates where send is not null group by all
"""


def judge(run: Run) -> Iterator[Finding]:
    """Write the tables `fates` and `presence`, and yield the findings.

    Also those of `unstored`, `origins` and `headers`, which look for messages only if a fate suspects one.
    """
    sent = _sent(run)
    fates = _FATES.format(
        tasks=_tasks(run),
        expired=expiry.is_expired(run),
        born_at=origins.born_at(run),
        is_of_other_host=origins.is_of_other_host(run),
        header_columns=headers.COLUMNS,
        header=headers.header(run),
        retried=headers.RETRIED,
    )
    run.table("fates", f"select *, size(nodes) > 0 is_stored from ({fates})")
    possiblebrokers.define(run)
    conditions = _conditions(run, sorted(sent["topics"]))
    _, [row] = run.batch(written("presence", _PRESENCE, is_bounded=True), Query(_counting(run, conditions)))
    counts = row.asDict()
    shown = _shown(run, {metric: one for metric, one in conditions.items() if counts[metric]})
    for metric, count in sent["findings"].items():
        yield Finding(metric=metric, unit=MESSAGES, value=count)
    for metric in conditions:
        is_at_least = bool(run.unread) and metric.startswith(_FLOORS)
        finding = Finding(metric=metric, unit=MESSAGES, value=0, is_at_least=is_at_least)
        describe = functools.partial(_describe_fate, run, metric)
        found = divided(finding, shown.within(metric), _SHOWN_ORDER, describe)
        if " " in metric:  # all messages are of the target
            found = attrs.evolve(found, parts={})
        if missing := _missing(run, metric, sent, counts):
            yield unknown(metric, MESSAGES, missing)
        elif metric.startswith(_OF_ABSENT) and (unread := run.unread_of(found.brokers)):
            missing = f"{'; '.join(unread)}; in none of the others: {counts[metric]}"
            yield found.without(run.unread_brokers) or unknown(metric, MESSAGES, missing)
        elif metric == "content_disagreement" and sent["unchecked"]:
            yield found.as_floor(without_checksum(sent["unchecked"]))
        else:
            yield found
    yield from unstored.judge(run, is_suspected=counts[unstored.TABLE] > 0)
    yield from origins.judge(run, is_suspected=counts[origins.TABLE] > 0)
    yield from headers.judge(run, is_suspected=counts[headers.TABLE] > 0)


def _tasks(run: Run) -> int:
    """Return the number of tasks that make fates.

    At least one per core, also where other tables have one partition: these rows are shuffled in any case.
    """
    cores: int = run.relations.spark.sparkContext.defaultParallelism
    return max(run.relations.tasks, cores)


def _sent(run: Run) -> dict[str, Any]:
    """Return sends, and those without a unique id, by outcome; and all topics."""
    rows = run.rows(
        "select outcome, count_if(is_first) sends, count_if(message_id is null) nameless, count(crc) checked,"
        " count_if(crc is null and is_first and message_id is not null) - count_if(crc is null and position = 1) unchecked,"
        " collect_set(topic) topics from sends group by outcome"
    )
    found = {row.outcome: row.sends for row in rows}
    findings = {"sent": sum(found.values())} | {f"sent.{outcome}": found.get(outcome, 0) for outcome in OUTCOMES}
    nameless = {row.outcome: row.nameless for row in rows}
    return {
        "findings": findings,
        "nameless": nameless,
        "checked": sum(row.checked for row in rows),
        "unchecked": sum(row.unchecked for row in rows),
        "topics": {topic for row in rows for topic in row.topics},
    }


def _conditions(run: Run, topics: list[str]) -> dict[str, str]:
    """Return for each metric the condition of the rows of `fates` that it counts."""
    absent = "send.acknowledged and not is_stored"
    listed = ", ".join(map(literal, topics)) or "''"
    uncertain = ", ".join(map(literal, _uncertain(run))) or "''"
    elsewhere = _ELSEWHERE.format(uncertain=uncertain)
    sent_until = run.conditions.sent_until(run.ended_at)
    return {
        "lost": f"{absent} and not is_expired",
        **{f"lost.{outcome}": f"{absent} and not is_expired and send.outcome = '{outcome}'" for outcome in STORED},
        "unreadable": f"{absent} and not is_expired and size(damages) > 0",
        "expired": f"{absent} and is_expired",
        **{
            f"missing {node}": f"not array_contains(nodes, {literal(node)})"
            f" and {_is_acknowledged_by(run.broker_of(node))}"
            for node in run.stores
        },
        **unreplicated.conditions(run),
        "stored.indeterminate": "send.outcome = 'indeterminate' and is_stored",
        "stored.refused": "send.outcome = 'refused' and is_stored",
        "stored_unsent": f"send is null and not has_failure and is_stored and stored_at >= {run.began_at}"
        f" and {'true' if sent_until is None else f'stored_at <= {sent_until}'}"
        f" and exists(places, place -> place.topic in ({listed}) or not ({_SYSTEM_TOPIC}))",
        "place_disagreement": f"sends = 1 and not has_failure and is_stored and ({elsewhere})",
        "content_disagreement": "sends = 1 and (least_crc != send.crc or greatest_crc != send.crc)"
        f" and not ({_STORED_AGAIN})",
        "stored_twice": "send is not null and size(filter(places, place -> place.topic = send.topic)) > 1",
    }


def _is_acknowledged_by(broker: str) -> str:
    """Return an expression for messages with an acknowledgement of a broker name."""
    others = f"sends > 1 and exists(acknowledgements, one -> one.broker = {literal(broker)})"
    return f"send.acknowledged and (send.broker = {literal(broker)} or {others})"


def _uncertain(run: Run) -> list[str]:
    """Return the names of brokers whose logs may lack records, or that changed."""
    incomplete = {one.node for one in run.cluster_events if one.kind in REMOVING_KINDS} | run.unread.keys()
    return sorted({run.broker_of(node) for node in incomplete} | run.roles.renamed)


def _counting(run: Run, conditions: Mapping[str, str]) -> str:
    """Return the query of all counts.

    Also of the sends that `missing` is based on, and of what other questions suspect.
    """
    columns = [f"count_if(coalesce({condition}, false)) `{metric}`" for metric, condition in conditions.items()]
    columns += [
        f"count_if(coalesce({_is_acknowledged_by(run.broker_of(node))}, false)) `acknowledged {node}`"
        for node in run.stores
    ]
    columns += [f"count_if(coalesce({one.SUSPECTED}, false)) {one.TABLE}" for one in (unstored, origins, headers)]
    return f"select {', '.join(columns)} from fates"


def _missing(run: Run, metric: str, sent: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """Return why the value of a metric is unknown; empty if it is known."""
    name, _, outcome = metric.partition(".")
    if name == "stored_unsent":
        return "" if run.stores else _NO_STORE
    if metric.startswith("unreplicated "):
        return "; ".join(run.unread_of({metric.removeprefix("unreplicated ")}))
    if metric.startswith("missing "):
        node = metric.removeprefix("missing ")
        return "" if counts[f"acknowledged {node}"] else f"no acknowledged send to {run.broker_of(node)}"
    if not sent["findings"]["sent"]:
        return _NOTHING_SENT
    if name in ("stored_twice", "place_disagreement"):
        nameless = ", ".join(node for node in run.stores if node not in run.members)
        unnamed = f"no event has the broker name of {nameless}" if nameless else ""
        return unnamed if run.stores else _NO_STORE
    these = (outcome,) if outcome else STORED
    if name == "content_disagreement":
        return "" if run.stores and sent["checked"] else _NO_CRC if run.stores else _NO_STORE
    if nameless := sum(sent["nameless"].get(one, 0) for one in these):
        return f"{nameless} {'of these' if name == 'stored' else 'acknowledged'} sends carry no unique id"
    if name == "stored":
        return _NO_STORE if sent["findings"][f"sent.{outcome}"] and not run.stores else ""
    return _NO_STORE if counts[metric] and not run.stores else ""


_SHOWN_ORDER = ("ended_at", "message_id")
# Messages in no store are of all brokers that may have stored them, others of those that sent, have or delivered them.
_IS_OF_ABSENT = " or ".join(f"startswith(metric, {literal(name)})" for name in _OF_ABSENT)
_BROKERS = """
array_sort(array_distinct(array_compact(concat(array(send.broker), transform(acknowledgements, one -> one.broker),
    transform(places, place -> place.broker), transform(delivered, one -> one.broker)))))
"""


def _shown(run: Run, conditions: Mapping[str, str]) -> Groups:
    """Return the messages of each metric, by metric and brokers, in one pass."""
    if not conditions:
        return Groups()
    is_of_absent = any(metric.startswith(_OF_ABSENT) for metric in conditions)
    brokers = f"if({_IS_OF_ABSENT}, p.brokers, {_BROKERS})" if is_of_absent else _BROKERS
    possible = f"left join {possiblebrokers.TABLE} p using (message_id)" if is_of_absent else ""
    metrics = ", ".join(f"if({condition}, {literal(metric)}, null)" for metric, condition in conditions.items())
    rows = run.rows(
        f"""
        with named as (
            select explode(array_compact(array({metrics}))) metric, message_id, send, acknowledgements, places, nodes,
                damages, delivered
            from fates
        ), parts as (
            select metric, message_id, send, send.ended_at ended_at, places, nodes, damages, {brokers} brokers
            from named {possible}
        )
        select * from (
            select *, struct(metric, brokers) key, count(*) over (partition by metric, brokers) found,
                row_number() over (partition by metric, brokers order by {", ".join(_SHOWN_ORDER)}) nth
            from parts)
        where nth <= {EVIDENCE_LIMIT}
        """
    )
    return join_groups([row for row in rows if row.nth == 1], rows)


def _describe_fate(run: Run, metric: str, row: Row) -> Evidence:
    return Evidence(text=listed([_describe(row), *row.damages], "; ") + _removals(run, metric, row.send))


def _removals(run: Run, metric: str, send: Any) -> str:
    """Return later events that removed records from the node of `missing NODE`."""
    node = metric.removeprefix("missing ")
    found = {
        one.kind: round((one.at - run.began_at) / 1000, 1)
        for one in reversed(run.cluster_events)
        if one.node == node and one.kind in REMOVING_KINDS and send is not None and one.at >= send.ended_at
    }
    return "".join(f"; then {node}: {kind} at {seconds} s" for kind, seconds in reversed(found.items()))


def _describe(row: Any) -> str:
    send, nodes = row.send, sorted(row.nodes or ())
    if send is None:
        places = [f"{place.topic}@{place.broker}:{place.queue} offset {place.offset}" for place in row.places]
        return f"{row.message_id}: {unsent_text(places, nodes)}"
    where = f"at {', '.join(nodes)}" if nodes else "in no store"
    place = f" by {send.topic}@{send.broker}:{send.queue} offset {send.offset}" if send.broker else ""
    return f"{row.message_id}: {send.outcome}{place}, {where}"
