"""Limits the size of a stream's micro-batches, and computes their lag. No I/O."""

from collections.abc import Mapping

import attrs

from rmqlab.pipeline.topics.topicoffsets import Offsets, QueueName


@attrs.define(eq=False)
class BatchDelay:
    """Delays a micro-batch until enough messages wait, or the last is long ago.

    Source: class KafkaMicroBatchStream.
    """

    least: int
    """Minimum number of waiting messages for a batch."""
    seconds: float
    """Longest delay after the last batch."""
    _last: float | None = attrs.field(default=None, init=False)

    def is_due(self, waiting: int, now: float) -> bool:
        """Return whether a batch may begin, and record its time.

        The first batch is not delayed, and neither is one without messages, which is not recorded.
        """
        if not waiting:
            return True
        if self._last is not None and waiting < self.least and now - self._last < self.seconds:
            return False
        self._last = now
        return True


def waiting_messages(begin: Offsets, end: Offsets) -> int:
    """Return the number of messages between two offsets.

    A queue without a beginning has none.
    """
    return sum(max(0, offset - begin.get(queue, offset)) for queue, offset in end.items())


def offsets_behind(end: Offsets, latest: Offsets) -> dict[str, float]:
    """Return how many messages a batch's end is behind the latest offsets.

    Counts are over all queues. Names and meaning are those of the metrics of Spark's Kafka source.
    """
    behind = [max(0, offset - end.get(queue, offset)) for queue, offset in latest.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def within_limit(start: Offsets, end: Offsets, limit: int) -> dict[QueueName, int]:
    """Limit a read to about `limit` messages, shared in proportion to queue backlogs.

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


def within_bytes(start: Offsets, end: Offsets, sizes: Mapping[QueueName, float], limit: int) -> dict[QueueName, int]:
    """Limit a read to about `limit` bytes, shared in proportion to queue backlogs.

    `sizes` are the mean sizes of waiting messages, in bytes. A queue with a backlog gets at least one message, and
    without a known size only one. A queue without a start has no backlog.
    """
    backlog = {queue: max(0, offset - start.get(queue, offset)) for queue, offset in end.items()}
    total = sum(waiting * sizes.get(queue, 0.0) for queue, waiting in backlog.items())
    share = min(1.0, limit / total) if total else 1.0
    shortened = dict(end)
    for queue, waiting in backlog.items():
        if waiting:
            shortened[queue] = start[queue] + max(1, int(waiting * share) if queue in sizes else 1)
    return shortened
