"""Violations in the headers of records: fields that a broker sets."""

from collections.abc import Callable
from typing import Any

import attrs

from rmqlab.cluster.plant.logs import unique_id, write_record
from rmqlab.cluster.plant.model import Change, Expected, Kind, Nodes
from rmqlab.cluster.plant.queues import QueueEntries
from rmqlab.cluster.plant.runcopy import RunCopy, whole_broker_name
from rmqlab.remoting.message import COMPRESSED, PROPERTY_REAL_TOPIC, StoredMessage, encode_message
from rmqlab.remoting.names import SCHEDULE_TOPIC

_HEADER = Expected(metric="header_disagreement", names_victims=True)
_OTHER_ADDRESS = "10.9.8.7"
_MORE = 3
"""Added to reconsume times."""
_ELSEWHERE = 77
"""A commit log offset at which no record begins."""
_EARLY = 900
"""Milliseconds: below what counts as a wrong clock."""
_LONG_AGO = 60_000
"""Milliseconds."""


def _change_field(name: str, alter: Callable[[StoredMessage], Any]) -> Callable[[RunCopy, Nodes], Change]:
    """Return a change of one field of a record."""

    def change(copy: RunCopy, nodes: Nodes) -> Change:
        victim = copy.victim(nodes)
        return _write(copy, nodes, victim, name, alter(victim))

    return change


def _write(copy: RunCopy, nodes: Nodes, victim: StoredMessage, name: str, value: Any) -> Change:
    record = attrs.evolve(victim, **{name: value})
    assert len(encode_message(record)) == victim.store_size
    text = f"{name} {getattr(victim, name)} of {unique_id(victim)} set to {value}"
    logs = copy.logs(nodes)
    edits = [copy.edit_log(log, victim.physical_offset, text) for log in logs]
    write_record(logs, record)
    return copy.change(nodes, [victim], edits)


def deliver_early(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a delayed message have been stored in its own topic before it was due."""
    records = copy.log(nodes[0]).records()
    delayed = {
        (unique_id(one), one.properties.get(PROPERTY_REAL_TOPIC)) for one in records if one.topic == SCHEDULE_TOPIC
    }
    # The last record of a log has the store time of the checkpoint.
    delivered = [one for one in records[:-1] if (unique_id(one), one.topic) in delayed]
    victim = copy.choose(delivered, "delivered message that was delayed")
    return _write(copy, nodes, victim, "store_timestamp", victim.store_timestamp - _EARLY)


def enter_early(copy: RunCopy, nodes: Nodes) -> Change:
    """Enter a delayed message with an earlier time, and deliver it then."""
    change = deliver_early(copy, nodes)
    records = (one for one in copy.log(nodes[0]).records() if one.topic == SCHEDULE_TOPIC)
    delayed = next(one for one in records if unique_id(one) == change.victims[0])
    edits = []
    for node in nodes:
        queue = QueueEntries(copy.store(node), delayed.topic, delayed.queue_id)
        path, at = queue.place(delayed.queue_offset)
        offset, size, due_at = queue.entry_of(delayed)
        queue.write(delayed.queue_offset, offset, size, due_at - _EARLY)
        edits.append(copy.edit(node, path, at, f"time of {change.victims[0]} lowered by {_EARLY} ms"))
    return attrs.evolve(change, edits=(*change.edits, *edits))


def store_earlier(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a record say that its message was stored a minute earlier."""
    begins = {int(path.name) for path in copy.log(nodes[0]).files()}  # the first record of a file shows its origin
    candidates = [one for one in copy.acknowledged(nodes) if one.physical_offset not in begins]
    victim = copy.choose(candidates, "acknowledged message within a file of the log")
    return _write(copy, nodes, victim, "store_timestamp", victim.store_timestamp - _LONG_AGO)


HEADERS = (
    Kind(
        name="sys-flag-changed-both",
        does="the flag that a body is compressed was changed in all logs of a broker name",
        where=whole_broker_name,
        change=_change_field("sys_flag", lambda record: record.sys_flag ^ COMPRESSED),
        expects=(_HEADER,),
    ),
    Kind(
        name="store-host-changed-both",
        does="a record names another broker that stored it, in all logs of a broker name",
        where=whole_broker_name,
        change=_change_field("store_host", lambda record: (_OTHER_ADDRESS, record.store_host[1])),
        expects=(_HEADER,),
    ),
    Kind(
        name="reconsume-times-changed-both",
        does="a message that was never sent back has reconsume times in all logs of a broker name",
        where=whole_broker_name,
        change=_change_field("reconsume_times", lambda record: record.reconsume_times + _MORE),
        expects=(_HEADER,),
    ),
    Kind(
        name="prepared-offset-changed-both",
        does="a message has another prepared transaction offset in all logs of a broker name",
        where=whole_broker_name,
        change=_change_field("prepared_transaction_offset", lambda _record: _ELSEWHERE),
        expects=(_HEADER,),
    ),
    Kind(
        name="delivered-early-both",
        does="a delayed message was stored in its own topic before it was due, in all logs of a broker name",
        where=whole_broker_name,
        change=deliver_early,
        expects=(Expected(metric="delivered_early", names_victims=True),),
    ),
    Kind(
        name="entered-early-both",
        does="the entry of a delayed message has an earlier time, and it was delivered then, in all logs of a broker name",
        where=whole_broker_name,
        change=enter_early,
        expects=(Expected(metric="delivered_early", names_victims=True),),
    ),
    Kind(
        name="store-time-changed-both",
        does="a message has an earlier store time than its send, in all logs of a broker name",
        where=whole_broker_name,
        change=store_earlier,
        expects=(Expected(metric="store_time_disagreement", names_victims=True),),
    ),
)
