"""Violations in commit logs: misplaced and surplus records."""

import attrs

from rmqlab.cluster.plant.appending import append_record
from rmqlab.cluster.plant.logs import unique_id, with_foreign_id, write_record
from rmqlab.cluster.plant.model import Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_slave, one_of_pair, whole_broker_name
from rmqlab.remoting.message import StoredMessage

_DIVERGENCE = Expected(metric="divergence SLAVE", names_victims=True)
_ORDER = Expected(metric="order.stored", names_victims=True)
_DANGLING = Expected(metric="dangling NODE")
_UNQUEUED = Expected(metric="unqueued NODE", names_victims=True)
_STORED_UNSENT = Expected(metric="stored_unsent", names_made_up=True)
_PLACE = Expected(metric="place_disagreement", names_victims=True)
_AWAY = 1000
"""Added to a queue offset to make it wrong."""
_CLOSE = 900
"""Milliseconds within which two messages to be swapped were stored: below what counts as a wrong clock."""
_TAIL = 3


def swap_records(copy: RunCopy, nodes: Nodes) -> Change:
    """Exchange two messages that follow each other in a queue.

    Each place keeps its offsets and its store time.
    """
    first, second = copy.choose(_neighbours(copy, nodes), "two messages of one size that follow each other in a queue")
    logs = copy.logs(nodes)
    edits = [
        copy.edit_log(log, record.physical_offset, f"{unique_id(record)} exchanged with {unique_id(other)}")
        for log in logs
        for record, other in ((first, second), (second, first))
    ]
    write_record(logs, _at_place_of(second, first))
    write_record(logs, _at_place_of(first, second))
    return attrs.evolve(copy.change(nodes, [first], edits), others=(unique_id(second),))


def _neighbours(copy: RunCopy, nodes: Nodes) -> list[tuple[StoredMessage, StoredMessage]]:
    """Return pairs whose second was sent after the first was acknowledged."""
    sends = {send.ids[0]: send for send in copy.history.sends if len(send.ids) == 1}
    by_place = {(one.topic, one.queue_id, one.queue_offset): one for one in copy.acknowledged(nodes)}
    pairs = [
        (one, by_place[next_place])
        for (topic, queue_id, offset), one in by_place.items()
        if (next_place := (topic, queue_id, offset + 1)) in by_place
    ]
    return [
        (one, other)
        for one, other in pairs
        if one.store_size == other.store_size
        and other.store_timestamp - one.store_timestamp < _CLOSE
        and sends[unique_id(one)].ended_at < sends[unique_id(other)].began_at
    ]


def _at_place_of(record: StoredMessage, place: StoredMessage) -> StoredMessage:
    return attrs.evolve(
        record,
        queue_offset=place.queue_offset,
        physical_offset=place.physical_offset,
        store_timestamp=place.store_timestamp,
    )


def shift_queue_offset(copy: RunCopy, nodes: Nodes) -> Change:
    """Write another queue offset into a record."""
    victim = copy.victim(nodes)
    logs = copy.logs(nodes)
    text = f"queue offset {victim.queue_offset} of {unique_id(victim)} raised by {_AWAY}"
    edits = [copy.edit_log(log, victim.physical_offset, text) for log in logs]
    write_record(logs, attrs.evolve(victim, queue_offset=victim.queue_offset + _AWAY))
    return copy.change(nodes, [victim], edits)


def change_queue_id(copy: RunCopy, nodes: Nodes) -> Change:
    """Write the id of the next queue into a record."""
    victim = copy.victim(nodes)
    logs = copy.logs(nodes)
    text = f"queue {victim.queue_id} of {unique_id(victim)} set to {victim.queue_id + 1}"
    edits = [copy.edit_log(log, victim.physical_offset, text) for log in logs]
    write_record(logs, attrs.evolve(victim, queue_id=victim.queue_id + 1))
    return copy.change(nodes, [victim], edits)


def append_foreign_record(copy: RunCopy, nodes: Nodes) -> Change:
    """Append a message that was never sent, with its queue and index entries."""
    like = copy.victim(nodes)
    made_up_id = copy.foreign_id(unique_id(like))
    edits, _ = append_record(copy, nodes, like, with_foreign_id(like, made_up_id))
    return Change(edits=edits, made_up_ids=(made_up_id,), broker=copy.broker_of(nodes[0]))


def diverge_tail(copy: RunCopy, nodes: Nodes) -> Change:
    """Replace the last few records of a slave's log by messages of its own."""
    tail = copy.acknowledged(nodes)[-_TAIL:]
    if not tail:
        raise NothingToPlantError(f"no acknowledged message in the log of {nodes[0]}")
    log = copy.log(nodes[0])
    edits, made_up_ids = [], []
    for record in tail:
        made_up_ids.append(copy.foreign_id(unique_id(record)))
        edits.append(copy.edit_log(log, record.physical_offset, f"{unique_id(record)} replaced by {made_up_ids[-1]}"))
        write_record([log], with_foreign_id(record, made_up_ids[-1]))
    return copy.change(nodes, tail, edits, made_up_ids=made_up_ids)


MISPLACED_RECORDS = (
    Kind(
        name="swapped-one",
        does="two messages of a queue are exchanged in one log",
        where=one_of_pair,
        change=swap_records,
        expects=(_DIVERGENCE, _ORDER),
        consequences=("unindexed", "stored_twice", "place_disagreement"),
    ),
    Kind(
        name="swapped-both",
        does="two messages of a queue are exchanged in all logs of a broker name",
        where=whole_broker_name,
        change=swap_records,
        expects=(_ORDER, _PLACE),
        consequences=("unindexed",),
    ),
    Kind(
        name="queue-offset-one",
        does="a record has a wrong queue offset in one log",
        where=one_of_pair,
        change=shift_queue_offset,
        expects=(_DIVERGENCE, _DANGLING, _UNQUEUED),
        consequences=("stored_twice", "order.stored", "missing"),
    ),
    Kind(
        name="queue-offset-both",
        does="a record has a wrong queue offset in all logs of a broker name",
        where=whole_broker_name,
        change=shift_queue_offset,
        expects=(_DANGLING, _UNQUEUED, _PLACE),
        consequences=("order.stored",),
    ),
    Kind(
        name="queue-id-both",
        does="a record has a wrong queue id in all logs of a broker name",
        where=whole_broker_name,
        change=change_queue_id,
        expects=(_DANGLING, _UNQUEUED, _PLACE),
        consequences=("order.stored", "delay_offset_ahead", "offset_file_ahead"),
    ),
    Kind(
        name="extra-record",
        does="a message that no producer sent is properly stored at a master and its slaves",
        where=whole_broker_name,
        change=append_foreign_record,
        expects=(_STORED_UNSENT,),
        consequences=("gap",),
    ),
    Kind(
        name="extra-record-slave",
        does="a message that no producer sent is properly stored at a slave, and not at its master",
        where=any_slave,
        change=append_foreign_record,
        expects=(_STORED_UNSENT, Expected(metric="ahead SLAVE")),
        consequences=("gap",),
    ),
    Kind(
        name="diverged-tail",
        does="a slave's log ends in messages that its master does not have",
        where=any_slave,
        change=diverge_tail,
        expects=(_DIVERGENCE, Expected(metric="missing NODE", names_victims=True), _STORED_UNSENT),
        consequences=(
            "unindexed",
            "unreplicated",
            "gap",
        ),
    ),
)
