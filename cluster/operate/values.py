"""Checks and parses the arguments of operations. Pure.

Each function returns the value, or raises InvalidOperationError.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.names import group_fault, topic_fault
from rmqlab.runtime.config.validators import INT32, INT64, as_written

T = TypeVar("T")

MAX_QUEUES = 32_768
"""Queues of a topic at one broker. RocketMQ has no limit of its own; rmqlab's brokers have this one."""
NOW = -1
"""As a time: the end of each queue (mqadmin's `now`)."""
FIRST = 0
"""As a time: the start of each queue."""
PERMISSIONS = {"r": 4, "w": 2, "x": 1}
"""Bits of a permission by letter: read, write, inherit (class PermName)."""

_SPAN = re.compile(r"-(\d+(?:\.\d+)?) ?(ms|s|min|m|h|d)")
_SPANS = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MQADMIN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})")
_QUEUE = re.compile(r"(?P<topic>[^@]+)@(?P<broker>.+):(?P<queue>\d{1,10})")
_TIME_FORMS = "expected first, now, -10m (ms, s, m, h or d), 2026-01-31T12:00:00, or milliseconds since 1970"


def topic_name(topic: str) -> str:
    """Return the name of a topic."""
    if (fault := topic_fault(topic)) is not None:
        raise InvalidOperationError(fault)
    return topic


def group_name(group: str) -> str:
    """Return the name of a group."""
    if (fault := group_fault(group)) is not None:
        raise InvalidOperationError(fault)
    return group


def parse_number(text: str | int, what: str, least: int = 0, most: int = INT64) -> int:
    """Return a whole number within bounds."""
    try:
        number = int(text) if isinstance(text, int) or text.strip().lstrip("-").isdecimal() else None
    except ValueError:  # thousands of digits
        number = None
    if number is None or isinstance(text, bool) or not least <= number <= most:
        raise InvalidOperationError(f"{what} {_shown(text)}: expected a whole number from {least} to {most}")
    return number


def parse_optional_number(text: str | int | None, what: str, least: int, most: int) -> int | None:
    """Return a number as `parse_number`; None for None, which keeps a value."""
    return None if text is None else parse_number(text, what, least, most)


def parse_permission(value: str | int) -> int:
    """Return the bits of a permission.

    It is a number from 0 to 7, letters such as `rw`, or `none`.
    """
    text = str(value).strip().lower()
    if not isinstance(value, bool):
        if text == "none":
            return 0
        if text.isdecimal() and len(text) == 1 and int(text) <= sum(PERMISSIONS.values()):
            return int(text)
        if text and set(text) <= PERMISSIONS.keys() and len(set(text)) == len(text):
            return sum(PERMISSIONS[letter] for letter in text)
    raise InvalidOperationError(
        f"permission {_shown(value)}: expected a number from 0 to 7 (4 read, 2 write, 1 inherit), or rw, r, w, none"
    )


def permission_text(permission: int) -> str:
    """Return the letters of a permission: `rw`."""
    return "".join(letter for letter, bit in PERMISSIONS.items() if permission & bit) or "none"


def parse_time(value: str | int, now_millis: int) -> int:
    """Return a time in milliseconds since 1970, FIRST or NOW.

    ISO times without a zone are those of this machine's zone. `-10m` is relative to `now_millis`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return parse_number(value, "time")
    text = str(value).strip()
    if text in ("first", "now"):
        return FIRST if text == "first" else NOW
    if text.isdecimal():
        return parse_number(text, "time")
    if (span := _SPAN.fullmatch(text)) is not None:
        return max(now_millis - int(min(float(span[1]) * _SPANS[span[2]], now_millis)), FIRST)
    try:
        return max(int(_date(text).timestamp() * 1000), FIRST)
    except (ValueError, OverflowError, OSError):
        raise InvalidOperationError(f"time {_shown(value)}: {_TIME_FORMS}") from None


def parse_bound(value: str | int, now_millis: int) -> int:
    """Return a time as `parse_time` does, with the present for `now`."""
    return now_millis if value == "now" else parse_time(value, now_millis)


def _date(text: str) -> dt.datetime:
    if (theirs := _MQADMIN_TIME.fullmatch(text)) is not None:  # mqadmin's yyyy-MM-dd#HH:mm:ss:SSS
        text = f"{theirs[1]}T{theirs[2]}.{theirs[3]}"
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.astimezone()


@attrs.frozen
class QueueAt:
    """A queue at one broker name."""

    broker: str
    queue_id: int


def parse_queue_at(text: str) -> QueueAt:
    """Parse `broker-a:0`."""
    broker, _, queue_id = text.rpartition(":")
    if not broker or not queue_id.isdecimal():
        raise InvalidOperationError(f"queue {_shown(text)}: expected BROKER:QUEUE, such as broker-a:0")
    return QueueAt(broker, parse_number(queue_id, "queue", 0, INT32))


def parse_queue(text: str) -> MessageQueue:
    """Parse `orders@broker-a:0`."""
    found = _QUEUE.fullmatch(text)
    if found is None:
        raise InvalidOperationError(f"queue {_shown(text)}: expected TOPIC@BROKER:QUEUE, such as orders@broker-a:0")
    queue_id = parse_number(found["queue"], "queue", 0, INT32)
    return MessageQueue(topic=topic_name(found["topic"]), broker_name=found["broker"], queue_id=queue_id)


def by_queue(table: Mapping[MessageQueue, T]) -> list[tuple[MessageQueue, T]]:
    """Return the items of a table, sorted by topic, broker name and queue id."""
    return sorted(table.items(), key=lambda item: (item[0].topic, item[0].broker_name, item[0].queue_id))


def queue_text(queue: MessageQueue) -> str:
    """Return `orders@broker-a:0`."""
    return f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `key=value` texts."""
    changes: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key.strip() or not equals:
            raise InvalidOperationError(f"setting {_shown(pair)}: expected KEY=VALUE, such as slaveReadEnable=true")
        if key.strip() in changes:
            raise InvalidOperationError(f"setting {key.strip()} is given twice")
        changes[key.strip()] = value.strip()
    return checked_settings(changes)


def setting_text(value: object) -> str:
    """Return the value of a setting as settings files have it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked_settings(changes: dict[str, str]) -> dict[str, str]:
    """Return settings of a change.

    None may contain a line break: it would begin another setting.
    """
    if not changes:
        raise InvalidOperationError("no setting is given: expected KEY=VALUE, such as slaveReadEnable=true")
    for key, value in changes.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", key):
            raise InvalidOperationError(f"setting {_shown(key)}: expected a key of letters and digits")
        if not value.isprintable():
            raise InvalidOperationError(
                f"setting {key}: the value {_shown(value)} has a line break or control character"
            )
    return changes


def _shown(value: object) -> str:
    text = as_written(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
