"""What journal entries say of sends, deliveries, commits and members.

Times are milliseconds of the cluster's clock. A queue is written `topic@broker:queue id`.
"""

import functools
from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.eventmaps import queue_id_of
from rmqlab.verdict.outcomes import STORED


@attrs.frozen(cache_hash=True)
class Queue:
    """One queue of one broker name, as clients see it."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"


@attrs.frozen(kw_only=True)
class Send:
    """One send with all its attempts: one journal entry `sent`."""

    ids: tuple[str, ...]
    """Unique ids: several for a batch; may be empty."""
    node: str
    topic: str
    outcome: str
    queue: Queue | None
    """The queue it was stored in; None if unknown."""
    offset: int | None
    """Queue offset of the (first) message."""
    held_in: Queue | None
    """For a delayed or half message, the queue of a system topic in which `offset` counts."""
    began_at: int
    ended_at: int
    crc: int | None = None
    """CRC-32 of its content; None for a batch, and if its client recorded none."""
    sys_flag: int | None = None
    """As its producer sent it; None if unknown, as `crc`."""
    entry: JournalEntry

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome in STORED

    @property
    def broker(self) -> str:
        """Return the broker that it names, if any, also if its queue is unknown."""
        return str(self.entry.fields.get("broker") or "")

    @property
    def place(self) -> tuple[Queue, int] | None:
        """Return queue and offset of its (first) record; None if unknown."""
        queue = self.held_in or self.queue
        return None if queue is None or self.offset is None else (queue, self.offset)


@attrs.frozen(kw_only=True)
class Failure:
    """One attempt that failed: one journal entry `attempt_failed`."""

    message_id: str
    node: str
    topic: str
    broker: str
    """Empty if no route contained a broker."""
    began_at: int
    ended_at: int
    entry: JournalEntry


@attrs.frozen(kw_only=True)
class Delivery:
    """One message that a consumer received: one journal entry `delivered`."""

    message_id: str
    node: str
    group: str
    queue: Queue
    offset: int
    reconsume_times: int | None
    """None if its client recorded none."""
    at: int
    entry: JournalEntry


@attrs.frozen(kw_only=True)
class Commit:
    """One offset that a consumer committed: one journal entry `committed`."""

    node: str
    group: str
    queue: Queue
    offset: int
    at: int
    entry: JournalEntry


@attrs.frozen(kw_only=True)
class Member:
    """A node of the cluster, as it described itself when it became ready."""

    name: str
    address: str = ""
    broker: str = ""
    """Its broker name; empty for other nodes."""
    broker_id: int | None = None

    @property
    def is_broker(self) -> bool:
        return bool(self.broker)

    @property
    def is_nameserver(self) -> bool:
        return bool(self.address) and not self.broker


def _int32(value: object) -> int | None:
    """Return a field of 32 bits, or None, as the audit reads it."""
    return value if type(value) is int and -(2**31) <= value < 2**31 else None


def read_send(entry: JournalEntry) -> Send:
    fields = entry.fields
    topic = str(fields.get("topic") or "")
    message_id = fields.get("message_id")
    return Send(
        ids=tuple(str(message_id).split(",")) if message_id else (),
        node=entry.node,
        topic=topic,
        outcome=str(fields.get("outcome")),
        queue=_queue(topic, fields),
        offset=fields.get("offset"),
        held_in=_held_in(fields),
        began_at=int(fields.get("began_at") or entry.at_millis),
        ended_at=entry.at_millis,
        crc=fields.get("crc"),
        sys_flag=_int32(fields.get("sys_flag")),
        entry=entry,
    )


def _held_in(fields: Mapping[str, Any]) -> Queue | None:
    topic, _, queue_id = str(fields.get("held_in") or "").partition(":")
    return _queue(topic, {**fields, "queue": number}) if (number := queue_id_of(queue_id)) is not None else None


def read_failure(entry: JournalEntry) -> Failure:
    return Failure(
        message_id=str(entry.fields.get("message_id") or ""),
        node=entry.node,
        topic=str(entry.fields.get("topic") or ""),
        broker=str(entry.fields.get("broker") or ""),
        began_at=entry.at_millis - int(entry.fields.get("took") or 0),
        ended_at=entry.at_millis,
        entry=entry,
    )


def read_consumed(entry: JournalEntry) -> Delivery | Commit | None:
    """Return the delivery or commit that an entry records; None for other entries."""
    if entry.kind == "delivered":
        return _delivery(entry)
    return _commit(entry) if entry.kind == "committed" else None


def _delivery(entry: JournalEntry) -> Delivery | None:
    fields = entry.fields
    queue, offset = _queue(str(fields.get("topic") or ""), fields), fields.get("offset")
    if queue is None or offset is None:
        return None
    return Delivery(
        message_id=str(fields.get("message_id") or ""),
        node=entry.node,
        group=str(fields.get("group") or entry.node),
        queue=queue,
        offset=offset,
        reconsume_times=_int32(fields.get("reconsume_times")),
        at=entry.at_millis,
        entry=entry,
    )


def _commit(entry: JournalEntry) -> Commit | None:
    fields = entry.fields
    queue, offset = _queue(str(fields.get("topic") or ""), fields), fields.get("offset")
    if queue is None or offset is None:
        return None
    group = str(fields.get("group") or entry.node)
    return Commit(node=entry.node, group=group, queue=queue, offset=offset, at=entry.at_millis, entry=entry)


@functools.lru_cache(maxsize=1 << 16)
def _known_queue(topic: str, broker: str, queue_id: int) -> Queue:
    """Cached, because a run has few queues and many entries."""
    return Queue(topic, broker, queue_id)


def _queue(topic: str, fields: Mapping[str, Any]) -> Queue | None:
    broker, queue_id = fields.get("broker"), fields.get("queue")
    return None if not broker or queue_id is None else _known_queue(topic, broker, queue_id)
