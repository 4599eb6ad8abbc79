"""Violations in which a broker holds back a message beyond its time."""

import attrs

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.plant.appending import append_record
from rmqlab.cluster.plant.logs import unique_id, with_foreign_id
from rmqlab.cluster.plant.model import Change, Expected, Kind, Nodes
from rmqlab.cluster.plant.runcopy import RunCopy, whole_broker_name
from rmqlab.cluster.plant.tables import set_delay_offset, set_offset
from rmqlab.remoting.message import StoredMessage
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC, TRANSACTION_GROUP

_OVERDUE = Expected(metric="overdue", names_made_up=True)


def skip_delayed(copy: RunCopy, nodes: Nodes) -> Change:
    """Store a delayed message, and pass it without delivering it."""
    record, change = _append_held(copy, nodes, SCHEDULE_TOPIC)
    passed = set_delay_offset(copy, nodes[0], record.queue_id + 1, record.queue_offset + 1)
    return attrs.evolve(change, edits=(*change.edits, *passed.edits))


def skip_half(copy: RunCopy, nodes: Nodes) -> Change:
    """Store a half message, and pass it without an outcome or a check."""
    record, change = _append_held(copy, nodes, HALF_TOPIC)
    queue = Queue(HALF_TOPIC, copy.broker_of(nodes[0]), record.queue_id)
    passed = set_offset(copy, nodes[0], TRANSACTION_GROUP, queue, record.queue_offset + 1)
    return attrs.evolve(change, edits=(*change.edits, *passed.edits))


def _append_held(copy: RunCopy, nodes: Nodes, topic: str) -> tuple[StoredMessage, Change]:
    """Append a message like another of a system topic, with its own id."""
    records = [one for one in copy.log(nodes[0]).records() if one.topic == topic and unique_id(one)]
    like = copy.choose(records, f"message in {topic} at {nodes[0]}")
    made_up_id = copy.foreign_id(unique_id(like))
    edits, record = append_record(copy, nodes, like, with_foreign_id(like, made_up_id))
    return record, copy.change(nodes, [], edits, made_up_ids=[made_up_id])


HELD_BACK = (
    Kind(
        name="delayed-skipped",
        does="all logs of a broker name have a delayed message that its master passed without delivering it",
        where=whole_broker_name,
        change=skip_delayed,
        expects=(_OVERDUE,),
    ),
    Kind(
        name="half-skipped",
        does="all logs of a broker name have a half message that its master passed without an outcome or a check",
        where=whole_broker_name,
        change=skip_half,
        expects=(_OVERDUE,),
    ),
)
