"""Violations in commit logs: records that are lost, zeroed, replaced or altered."""

import attrs

from rmqlab.cluster.plant.logs import unique_id, with_body, with_foreign_id, write_record
from rmqlab.cluster.plant.model import WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_broker, any_slave, one_of_pair, whole_broker_name
from rmqlab.remoting.message import PROPERTY_KEYS, StoredMessage, encode_message

_MISSING = Expected(metric="missing NODE", names_victims=True)
_LOST = Expected(metric="lost", names_victims=True)
_DIVERGENCE = Expected(metric="divergence SLAVE", names_victims=True)
_STORED_UNSENT = Expected(metric="stored_unsent", names_made_up=True)
_CONTENT = Expected(metric="content_disagreement", names_victims=True)
_ORIGIN = Expected(metric="origin_disagreement", names_victims=True)
_CORRUPT = Expected(metric="corrupt NODE", names_victims=True)
_OF_LOSS = (
    "lost.SEND_OK",
    "unreplicated",
    "delivered_unstored",
    "dangling",
    "offset_file_ahead",
    "delay_offset_ahead",
    "replication_lag_left",
)
_OF_MADE_UP = ("gap", *_OF_LOSS)
"""Messages without a send in the journals are also a gap in the evidence."""
_EARLIER = 60_000
"""Milliseconds."""
_STRAY = 200
"""Bytes behind the end of a log, and as many zeros before them."""
_TAIL = 5
"""Acknowledged messages in a tail that is cut."""


def cut_tail(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero the end of the logs, with the last few acknowledged messages."""
    tail = copy.acknowledged(nodes)[-_TAIL:]
    if not tail:
        raise NothingToPlantError(f"no acknowledged message in the log of {' and '.join(nodes)}")
    start = tail[copy.random.randrange(len(tail) - 1) if len(tail) > 1 else 0].physical_offset
    victims = _only_behind(copy, nodes[0], start)
    edits = []
    for log in copy.logs(nodes):
        edits.append(copy.edit_log(log, start, f"zeroed from here on, {len(victims)} messages"))
        log.zero_from(start)
    return copy.change(nodes, victims, edits)


def _only_behind(copy: RunCopy, node: str, start: int) -> list[StoredMessage]:
    """Return acknowledged messages without a record before an offset.

    A delayed message has several records.
    """
    first_records: dict[str, StoredMessage] = {}
    for record in copy.log(node).records():
        first_records.setdefault(unique_id(record), record)
    acknowledged = {key for send in copy.history.sends if send.is_acknowledged for key in send.ids}
    found = (record for key, record in first_records.items() if key in acknowledged)
    return [record for record in found if record.physical_offset >= start]


def replace_record(copy: RunCopy, nodes: Nodes) -> Change:
    """Replace a message by one of the same size that was never sent.

    The log still parses.
    """
    victim = copy.victim(nodes)
    made_up_id = copy.foreign_id(unique_id(victim))
    return _rewrite(
        copy,
        nodes,
        victim,
        with_foreign_id(victim, made_up_id),
        f"{unique_id(victim)} replaced by {made_up_id}",
        (made_up_id,),
    )


def break_crc(copy: RunCopy, nodes: Nodes) -> Change:
    """Change a byte of a body, and not the CRC."""
    victim = copy.victim(nodes)
    altered = attrs.evolve(victim, body=_altered(victim.body))
    return _rewrite(copy, nodes, victim, altered, f"the last byte of the body of {unique_id(victim)} changed")


def forge_body(copy: RunCopy, nodes: Nodes) -> Change:
    """Change a byte of a body, and the CRC with it."""
    victim = copy.victim(nodes)
    text = f"the last byte of the body of {unique_id(victim)} changed, and its CRC"
    return _rewrite(copy, nodes, victim, with_body(victim, _altered(victim.body)), text)


def change_keys(copy: RunCopy, nodes: Nodes) -> Change:
    """Change the first character of a message's keys."""
    victim = copy.choose([one for one in copy.acknowledged(nodes) if _keys(one)], "message with keys")
    keys = _keys(victim)
    changed = chr(ord(keys[0]) ^ 1) + keys[1:]
    text = victim.properties_text.replace(f"{PROPERTY_KEYS}\x01{keys}", f"{PROPERTY_KEYS}\x01{changed}")
    record = attrs.evolve(victim, properties_text=text)
    return _rewrite(copy, nodes, victim, record, f"keys {keys} of {unique_id(victim)} set to {changed}")


def _keys(record: StoredMessage) -> str:
    keys = record.properties.get(PROPERTY_KEYS, "")
    return keys if keys[:1].isalnum() else ""


def change_born_time(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a record say that its message was created a minute earlier."""
    victim = copy.victim(nodes)
    record = attrs.evolve(victim, born_timestamp=victim.born_timestamp - _EARLIER)
    text = f"born time {victim.born_timestamp} of {unique_id(victim)} set to {record.born_timestamp}"
    return _rewrite(copy, nodes, victim, record, text)


def change_born_host(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a record name another address of its producer."""
    victim = copy.victim(nodes)
    record = attrs.evolve(victim, born_host=("10.9.8.7", victim.born_host[1]))
    return _rewrite(
        copy, nodes, victim, record, f"born host {victim.born_host[0]} of {unique_id(victim)} set to 10.9.8.7"
    )


def change_flag(copy: RunCopy, nodes: Nodes) -> Change:
    """Change the flag of a message, which its application sets."""
    victim = copy.victim(nodes)
    record = attrs.evolve(victim, flag=victim.flag ^ 1)
    return _rewrite(copy, nodes, victim, record, f"flag {victim.flag} of {unique_id(victim)} set to {record.flag}")


def zero_record(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero one record: records follow behind the hole."""
    victim = copy.victim(nodes)
    edits = []
    for log in copy.logs(nodes):
        edits.append(
            copy.edit_log(log, victim.physical_offset, f"{victim.store_size} bytes zeroed: {unique_id(victim)}")
        )
        log.write(victim.physical_offset, bytes(victim.store_size))
    return copy.change(nodes, [victim], edits)


def litter_tail(copy: RunCopy, nodes: Nodes) -> Change:
    """Write random bytes behind the last record."""
    (log,) = copy.logs(nodes)
    records = log.records()
    if not records:
        raise NothingToPlantError(f"{nodes[0]} has no message")
    start = records[-1].physical_offset + records[-1].store_size + copy.random.choice((0, _STRAY))
    path, at = log.place(start)
    if at + _STRAY > path.stat().st_size:
        raise NothingToPlantError(f"{path.name} of {log.node} has no room behind its last record")
    edit = copy.edit_log(log, start, f"{_STRAY} random bytes")
    log.write(start, copy.random.randbytes(_STRAY))
    return copy.change(nodes, [], [edit])


def _altered(body: bytes) -> bytes:
    if not body:
        raise NothingToPlantError("the message chosen has no body; try another seed")
    return body[:-1] + bytes([body[-1] ^ 1])


def _rewrite(
    copy: RunCopy, nodes: Nodes, victim: StoredMessage, record: StoredMessage, text: str, made_up_ids: Nodes = ()
) -> Change:
    assert len(encode_message(record)) == victim.store_size
    logs = copy.logs(nodes)
    edits = [copy.edit_log(log, victim.physical_offset, text) for log in logs]
    write_record(logs, record)
    return copy.change(nodes, [victim], edits, made_up_ids=made_up_ids)


RECORDS = (
    Kind(
        name="tail-cut-slave",
        does="the last few messages are cut off a slave's log",
        where=any_slave,
        change=cut_tail,
        expects=(_MISSING, Expected(metric="behind SLAVE")),
        consequences=("gap", *_OF_LOSS),
    ),
    Kind(
        name="tail-cut-both",
        does="the last few messages are cut off the logs of a master and its slaves",
        where=whole_broker_name,
        change=cut_tail,
        expects=(_LOST, _MISSING),
        consequences=("gap", *_OF_LOSS),
    ),
    Kind(
        name="replaced-one",
        does="a message that no producer sent replaces another in one log",
        where=one_of_pair,
        change=replace_record,
        expects=(_MISSING, _STORED_UNSENT, _DIVERGENCE),
        consequences=_OF_MADE_UP,
    ),
    Kind(
        name="replaced-both",
        does="a message that no producer sent replaces another in all logs of a broker name",
        where=whole_broker_name,
        change=replace_record,
        expects=(_LOST, _MISSING, _STORED_UNSENT),
        consequences=_OF_MADE_UP,
    ),
    Kind(
        name="crc-wrong-one",
        does="a body differs from its CRC in one log",
        where=one_of_pair,
        change=break_crc,
        expects=(_MISSING, _CORRUPT, _DIVERGENCE),
        consequences=_OF_LOSS,
    ),
    Kind(
        name="crc-wrong-both",
        does="a body differs from its CRC in all logs of a broker name",
        where=whole_broker_name,
        change=break_crc,
        expects=(_LOST, _MISSING, _CORRUPT),
        consequences=("unreadable", *_OF_LOSS),
    ),
    Kind(
        name="body-forged",
        does="a body was changed in one log, with its CRC",
        where=one_of_pair,
        change=forge_body,
        expects=(_DIVERGENCE, _CONTENT),
    ),
    Kind(
        name="body-forged-both",
        does="a body was changed in all logs of a broker name, with its CRC",
        where=whole_broker_name,
        change=forge_body,
        expects=(_CONTENT,),
    ),
    Kind(
        name="keys-changed-both",
        does="the keys of a message were changed in all logs of a broker name",
        where=whole_broker_name,
        change=change_keys,
        expects=(_CONTENT,),
    ),
    Kind(
        name="born-time-changed-both",
        does="the time at which a message was created was changed in all logs of a broker name",
        where=whole_broker_name,
        change=change_born_time,
        expects=(_ORIGIN,),
    ),
    Kind(
        name="born-host-changed-both",
        does="the address of a message's producer was changed in all logs of a broker name",
        where=whole_broker_name,
        change=change_born_host,
        expects=(_ORIGIN,),
    ),
    Kind(
        name="flag-changed-both",
        does="the flag of a message was changed in all logs of a broker name",
        where=whole_broker_name,
        change=change_flag,
        expects=(_CONTENT,),
    ),
    Kind(
        name="zeroed-one",
        does="a record is zeroed in the middle of one log",
        where=one_of_pair,
        change=zero_record,
        expects=(_MISSING, _CORRUPT, _DIVERGENCE),
        consequences=_OF_LOSS,
    ),
    Kind(
        name="zeroed-both",
        does="a record is zeroed in the middle of all logs of a broker name",
        where=whole_broker_name,
        change=zero_record,
        expects=(_LOST, _MISSING, _CORRUPT),
        consequences=("unreadable", *_OF_LOSS),
    ),
    Kind(
        name="tail-littered",
        does="random bytes follow the last record of a log",
        where=any_broker,
        change=litter_tail,
        expects=(WARNING,),
    ),
)
