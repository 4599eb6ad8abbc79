"""Offsets of topics: values, and their JSON form in checkpoints and options.

No I/O.

    {"v": 1, "topics": {"orders": {"broker-a": {"0": 17, "1": 20}}}}

An offset is that of the next message to read. Keys are sorted: Spark compares such documents as text.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs

from rmqlab.runtime.text.digits import number_of
from rmqlab.runtime.text.nearmiss import near_miss

VERSION: Final = 1
EARLIEST: Final = -2
LATEST: Final = -1
_EXPECTED_OFFSETS: Final = 'expected {"topic": {"broker": {"queue": offset}}}'
_EXPECTED_POSITION: Final = 'expected earliest, latest or {"topic": {"broker": {"queue": offset}}}'
_MAX_LONG: Final = 2**63 - 1
"""Java's, as are times and offsets."""
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


class QueueName(NamedTuple):
    """One queue of a topic at one broker name."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"


def near_queue(queue: QueueName, known: Iterable[QueueName]) -> str:
    """Return `; did you mean X?` for a similar known queue, or an empty text.

    A similar queue has a similar topic or broker, and the same id.
    """
    return near_miss(str(queue), [str(other) for other in known if other.queue_id == queue.queue_id])


Offsets = Mapping[QueueName, int]


@attrs.frozen
class AtTime:
    """The first message stored at a time or later, in milliseconds.

    Without such a message, the end of the queue.
    """

    millis: int
    must_exist: bool = False
    """Whether a queue without such a message is an error."""


QueuePosition = int | AtTime
"""Where to begin or end a queue: an offset, EARLIEST, LATEST, or a time."""


@attrs.frozen
class QueueRange:
    """Messages of one queue to read: from `start`, up to but excluding `end`."""

    queue: QueueName
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def offsets_document(offsets: Offsets) -> dict[str, Any]:
    """Return the JSON document of offsets for a checkpoint."""
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        topics.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offsets[queue]
    return {"v": VERSION, "topics": topics}


def read_document(document: Mapping[str, Any]) -> dict[QueueName, int]:
    """Parse a document of `offsets_document`.

    Raises ValueError for another version or form.
    """
    if document.get("v") != VERSION:
        raise ValueError(f"offsets of version {document.get('v')!r}, expected {VERSION}")
    return dict(_entries(document.get("topics"), _EXPECTED_OFFSETS))


def _brokers(document: object, expected: str) -> Iterator[tuple[str, str, object]]:
    """Yield the topics, brokers and values of a document.

    Raises ValueError for another form.
    """
    if not isinstance(document, dict):
        raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
    for topic, brokers in document.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
        for broker, value in brokers.items():
            yield topic, broker, value


def _entries(document: object, expected: str) -> Iterator[tuple[QueueName, int]]:
    for topic, broker, queues in _brokers(document, expected):
        if not isinstance(queues, dict):
            raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
        for queue_id, number in queues.items():
            if (queue := number_of(queue_id)) is None or not _is_whole(number):
                raise ValueError(f"{expected}, not {queue_id!r}: {number!r}")
            yield QueueName(topic, broker, queue), number


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_assignment(value: str) -> frozenset[QueueName]:
    """Read JSON that names queues, `{"orders": {"broker-a": [0, 1]}}`.

    Raises ValueError for other texts.
    """
    expected = 'expected {"topic": {"broker": [queue, ...]}}'
    named: set[QueueName] = set()
    for topic, broker, ids in _brokers(_read_json(value, expected), expected):
        if not isinstance(ids, list) or not all(_is_whole(queue_id) and queue_id >= 0 for queue_id in ids):
            raise ValueError(f"{expected}, not {broker!r}: {ids!r}")
        named.update(QueueName(topic, broker, queue_id) for queue_id in ids)
    if not named:
        raise ValueError(f"{expected} with one queue at least")
    return frozenset(named)


def read_times(value: str) -> dict[QueueName, int]:
    """Read JSON with a time for queues, in milliseconds.

    Raises ValueError for other texts.
    """
    expected = 'expected {"topic": {"broker": {"queue": milliseconds}}}'
    times = dict(_entries(_read_json(value, expected), expected))
    if not times:
        raise ValueError(f"{expected} with one queue at least")
    for queue, millis in times.items():
        if not 0 <= millis <= _MAX_LONG:
            raise ValueError(f"time {millis} of {queue} is invalid: expected 0 to {_MAX_LONG}")
    return times


def _read_json(value: str, expected: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError(expected) from None


def read_position(value: str) -> int | dict[QueueName, int]:
    """Parse `earliest`, `latest`, or JSON with offsets of queues.

    In JSON, -2 is earliest and -1 is latest.

    Returns EARLIEST, LATEST, or the offsets. Raises ValueError for other texts.
    """
    if (word := _WORDS.get(value.strip().lower())) is not None:
        return word
    document = _read_json(value, _EXPECTED_POSITION)
    if isinstance(document, dict) and isinstance(document.get("v"), int):  # copied from a checkpoint or a progress
        offsets = read_document(document)
    else:
        offsets = dict(_entries(document, _EXPECTED_POSITION))
    for queue, offset in offsets.items():
        if not EARLIEST <= offset <= _MAX_LONG:
            raise ValueError(
                f"offset {offset} of {queue} is invalid: expected 0 or more, -2 for earliest, -1 for latest"
            )
    return offsets


# ---- parts of ranges -------------------------------------------------------------------------------------


def split_ranges(ranges: Sequence[QueueRange], *, most: int, least_parts: int) -> list[QueueRange]:
    """Cut ranges evenly, so that no part is larger than a share of `least_parts`.

    So there are at least that many parts, unless there are fewer messages. `most` is the maximum number of messages of
    a part; 0 means unlimited.
    """
    total = sum(part.size for part in ranges)
    parts = []
    for part in ranges:
        pieces = max(-(-part.size * least_parts // max(1, total)), -(-part.size // most) if most else 1)
        pieces = min(pieces, part.size)
        borders = [part.start + part.size * index // pieces for index in range(pieces + 1)] if pieces else []
        parts += [QueueRange(part.queue, low, high) for low, high in itertools.pairwise(borders)]
    return parts


def group_ranges(ranges: Sequence[QueueRange], tasks: int, *, most: int, small: int = 0) -> list[list[QueueRange]]:
    """Distribute small ranges over at most about this number of tasks.

    Each task adds to the planning time. Consecutive ranges share a task up to `small` messages, or up to an even share
    of all messages if there are more than `tasks`, and up to `most` if that is not 0. A larger range has a task of its
    own.
    """
    even = max(1, sum(part.size for part in ranges) // tasks) if len(ranges) > tasks else 0
    share = max(small, even)
    share = min(share, most) if most else share
    groups: list[list[QueueRange]] = []
    room = 0
    for part in ranges:
        if not groups or part.size > room:
            groups.append([])
            room = share
        groups[-1].append(part)
        room -= part.size
    return groups
