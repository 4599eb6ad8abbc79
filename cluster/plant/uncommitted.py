"""A violation in which a broker commits a half message that was rolled back."""

import attrs

from rmqlab.cluster.plant.appending import append_record
from rmqlab.cluster.plant.logs import unique_id
from rmqlab.cluster.plant.model import Change, Expected, Kind, Nodes
from rmqlab.cluster.plant.runcopy import RunCopy, whole_broker_name
from rmqlab.remoting.message import PROPERTY_REAL_QID, PROPERTY_REAL_TOPIC, StoredMessage, encode_message
from rmqlab.remoting.names import HALF_TOPIC

_OF_HALF = (f"{PROPERTY_REAL_TOPIC}\x01", f"{PROPERTY_REAL_QID}\x01")
"""Begins of the properties that only the half message has."""


def commit_rolled_back(copy: RunCopy, nodes: Nodes) -> Change:
    """Store a rolled back message in its own topic."""
    rolled_back = {entry.fields["message_id"] for entry in copy.history.of_kind("transaction_not_committed")}
    records = copy.log(nodes[0]).records()
    halves = [one for one in records if one.topic == HALF_TOPIC and unique_id(one) in rolled_back]
    half = copy.choose(halves, f"rolled back message at {nodes[0]}")
    topic = half.properties[PROPERTY_REAL_TOPIC]
    like = copy.choose([one for one in records if one.topic == topic], f"committed message of {topic} at {nodes[0]}")
    edits, record = append_record(copy, nodes, like, _committed(half, like))
    return copy.change(nodes, [record], edits)


def _committed(half: StoredMessage, like: StoredMessage) -> StoredMessage:
    """Return the record of a half message as that of a committed one."""
    kept = [one for one in half.properties_text.split("\x02") if not one.startswith(_OF_HALF)]
    record = attrs.evolve(
        half,
        topic=like.topic,
        queue_id=like.queue_id,
        sys_flag=like.sys_flag,
        prepared_transaction_offset=half.physical_offset if like.prepared_transaction_offset else 0,
        properties_text="\x02".join(kept),
    )
    return attrs.evolve(record, store_size=len(encode_message(record)))


UNCOMMITTED = (
    Kind(
        name="rolled-back-stored",
        does="all logs of a broker name have a message in its own topic that its producer rolled back",
        where=whole_broker_name,
        change=commit_rolled_back,
        expects=(Expected(metric="stored_uncommitted", names_victims=True),),
    ),
)
