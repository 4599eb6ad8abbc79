"""Event types, their fields, and the units of these.

The parts of the schema are written with them. A field may be null where its value is unknown. "Since version 2" or "3"
means the `v` of an entry: older journals lack the field.
"""

from collections.abc import Mapping
from typing import Final

import attrs

LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: dates end there."""
_INT: Final = 2**63
_INT32: Final = 2**31
OFFSET_LIMIT: Final = 2**62
"""So that readers can add offsets, and subtract them, within 64 bits."""


@attrs.frozen
class Field:
    """One value of an event. `unit` is empty for values without a unit."""

    type: str
    meaning: str
    unit: str = ""
    limit: int = _INT
    """Integers from here on, and those below its negative, are read as the nearest ones within; times as unknown."""
    is_needed: bool = False
    """True if readers need it: an entry without it is invalid."""
    needed_with: str = ""
    """Name of another field: an entry with that one and without this one is invalid."""


@attrs.frozen
class EventType:
    """One kind of event, and which process records it."""

    name: str
    source: str
    """`workload`, `supervisor`, `broker`, `nameserver`, `nameserver or broker`, or `any` process."""
    meaning: str
    fields: Mapping[str, Field] = attrs.field(factory=dict)
    is_open: bool = False
    """True if the event may have further fields."""


def text(meaning: str) -> Field:
    return Field("text", meaning)


def count(meaning: str) -> Field:
    return Field("int", meaning)


def number32(meaning: str) -> Field:
    return Field("int", meaning, limit=_INT32)


def millis(meaning: str) -> Field:
    return Field("int", meaning, "ms of the cluster's clock", LATEST)


def log_offset(meaning: str) -> Field:
    return Field("int", meaning, "bytes of the commit log", OFFSET_LIMIT)


def queue_offset(meaning: str) -> Field:
    return Field("int", meaning, "entries of the queue", OFFSET_LIMIT)


def flag(meaning: str) -> Field:
    return Field("bool", meaning)


def mapping(meaning: str) -> Field:
    return Field("map", meaning)


def listing(meaning: str) -> Field:
    return Field("list", meaning)


def needed(field: Field) -> Field:
    return attrs.evolve(field, is_needed=True)


NUMBER = count("number of the message in its workload; null if another client sent it")
MESSAGE_ID = text("the unique id that the client set (property UNIQ_KEY)")
TOPIC = text("the topic as the application names it")
QUEUE_ID = number32("queue id")
BROKER = text("broker name")
BROKER_ID = number32("0 for a master, above 0 for a slave")
ADDRESS = text("IP:port")
ERROR = text("the error")
OUTCOME = text(
    "SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: stored; refused: not stored;"
    " indeterminate: unknown"
)
GROUP = text("group of the producer or consumer")
QUEUE = text("topic@broker:queue id")
PEER = text("the client: IP:port")
SLAVE = text("the slave's end of the connection: IP:port")
PID = count("process id")
SEAL = count("CRC-32 of the file's bytes from the last `journal_opened` to this entry; null in older journals")
END = text("exit status or signal")

HELD = millis("of `took`, just before its end, in which the broker may have waited for messages (since version 2)")

BROKER_CHANGE = {
    "cluster": text("RocketMQ's cluster name"),
    "broker_name": BROKER,
    "broker_id": BROKER_ID,
    "address": needed(ADDRESS),
    "reason": text("the request, scan or closed connection that caused it"),
    "remaining": mapping("remaining addresses of the broker name, by broker id"),
}

FAULT = {
    "id": needed(text("the fault's id: f1, f2, ...")),
    "fault": text("link, isolate, disk, request, clock or ha-report; further fields are those of its class"),
    "fault_kind": text("its kind, if this fault has several"),
}
