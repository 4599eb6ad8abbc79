"""Offsets of topics: values, and their JSON form in checkpoints and options. No I/O.

    {"v": 1, "topics": {"orders": {"broker-a": {"0": 17, "1": 20}}}}

An offset is that of the next message to read. Keys are sorted: Spark compares such documents as text.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs

VERSION: Final = 1
EARLIEST: Final = -2
LATEST: Final = -1
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


class QueueName(NamedTuple):
    """One queue of a topic at one broker name."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"


Offsets = Mapping[QueueName, int]


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
    return dict(_entries(document.get("topics")))


def _entries(topics: object) -> Iterator[tuple[QueueName, int]]:
    expected = 'expected {"topic": {"broker": {"queue": offset}}}'
    if not isinstance(topics, dict):
        raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
    for topic, brokers in topics.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
        for broker, queues in brokers.items():
            if not isinstance(queues, dict):
                raise ValueError(expected)  # noqa: TRY004 - a text of the user's, read as JSON
            for queue_id, offset in queues.items():
                if not queue_id.isdigit() or not isinstance(offset, int) or isinstance(offset, bool):
                    raise ValueError(f"{expected}, not {queue_id!r}: {offset!r}")
                yield QueueName(topic, broker, int(queue_id)), offset


def read_position(value: str) -> int | dict[QueueName, int]:
    """Read `earliest`, `latest`, or JSON with an offset for each queue, -2 for earliest and -1 for latest.

    Returns EARLIEST, LATEST, or the offsets. Raises ValueError for other texts.
    """
    if (word := _WORDS.get(value.strip().lower())) is not None:
        return word
    try:
        document = json.loads(value)
    except ValueError:
        raise ValueError('expected earliest, latest or {"topic": {"broker": {"queue": offset}}}') from None
    if isinstance(document, dict) and document.keys() == {"v", "topics"}:
        return read_document(document)
    offsets = dict(_entries(document))
    for queue, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(
                f"offset {offset} of {queue} is invalid: expected 0 or more, -2 for earliest, -1 for latest"
            )
    return offsets


# ---- how much, and in how many parts ---------------------------------------------------------------------


def within_limit(start: Offsets, end: Offsets, limit: int) -> dict[QueueName, int]:
    """Limit a read to about `limit` messages, in proportion to the backlog of each queue.

    A queue with a backlog gets at least one message. A queue without a start counts from 0.
    """
    backlog = {queue: max(0, offset - start.get(queue, 0)) for queue, offset in end.items()}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    shortened = {}
    for queue, offset in end.items():
        waiting = backlog[queue]
        shortened[queue] = offset if not waiting else start.get(queue, 0) + max(1, waiting * limit // total)
    return shortened


def split_ranges(ranges: Sequence[QueueRange], *, most: int, least_parts: int) -> list[QueueRange]:
    """Cut ranges evenly into at least `least_parts` parts if possible.

    `most` is the maximum number of messages of a part; 0 means unlimited.
    """
    total = sum(part.size for part in ranges)
    parts = []
    for part in ranges:
        pieces = max(1, -(-part.size // most) if most else 1)
        if least_parts > len(ranges) and total:
            pieces = max(pieces, round(part.size * least_parts / total))
        pieces = min(pieces, part.size)
        borders = [part.start + part.size * index // pieces for index in range(pieces + 1)] if pieces else []
        parts += [QueueRange(part.queue, low, high) for low, high in itertools.pairwise(borders)]
    return parts


def group_ranges(ranges: Sequence[QueueRange], tasks: int) -> list[list[QueueRange]]:
    """Distribute ranges over this many tasks at most, because each task adds to the planning time."""
    if len(ranges) <= tasks:
        return [[part] for part in ranges]
    return [list(ranges[index::tasks]) for index in range(tasks)]
