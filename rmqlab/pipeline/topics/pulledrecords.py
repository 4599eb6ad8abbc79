"""Compare pulled records with the requested part of a queue.

A broker returns other records if entries of its consume queue point at the wrong ones. No I/O.
"""

import itertools
from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqlab.client.namespace import with_namespace
from rmqlab.pipeline.stores.records import Records
from rmqlab.pipeline.topics.queuecursor import Loss
from rmqlab.pipeline.topics.topicoffsets import QueueName


@attrs.frozen
class PulledPart:
    """A requested part of a queue that was read: from `start` to before `end`."""

    queue: QueueName
    start: int
    end: int


def requested_records(
    parts: Sequence[PulledPart], records: Records, owners: np.ndarray, namespace: str
) -> tuple[np.ndarray, list[Loss]]:
    """Return a mask of the records that belong to their part, each offset once.

    Also returns the parts with other records.

    `owners` are the indices of the records' parts. Records behind the end of a part are no fault: the next pull returns
    them again, or they are behind the range of the task.
    """
    offsets = records.number("queue_offset")
    starts, ends, queue_ids = np.array([(part.start, part.end, part.queue.queue_id) for part in parts], np.int64).T
    topics = pa.array([with_namespace(namespace or None, part.queue.topic) for part in parts])
    is_theirs = records.number("queue_id") == queue_ids[owners]
    is_theirs &= pc.equal(records.topics, topics.take(pa.array(owners))).to_numpy(zero_copy_only=False)
    is_theirs &= offsets >= starts[owners]
    keep = is_theirs & (offsets < ends[owners]) & _is_first(offsets, owners)
    is_fault = ~is_theirs | (~keep & (offsets < ends[owners]))
    faulty = np.unique(owners[is_fault])
    reason = "the broker returned wrong records, perhaps instead of some that the filter includes"
    return keep, [Loss(parts[index].queue, parts[index].start, parts[index].end, reason) for index in faulty.tolist()]


def _is_first(offsets: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return for each record whether it is the first of its part with this offset."""
    if ((np.diff(offsets) > 0) | (np.diff(owners) > 0)).all():  # as all sound brokers return them
        return np.ones(len(offsets), bool)
    _, firsts = np.unique(np.stack([owners, offsets]), axis=1, return_index=True)
    is_first = np.zeros(len(offsets), bool)
    is_first[firsts] = True
    return is_first


def holes(parts: Sequence[PulledPart], records: Records, owners: np.ndarray) -> list[Loss]:
    """Return the offsets that brokers skipped without an error.

    The records are those of `requested_records`. One range of them for each part that lacks some. This happens if a
    file of the commit log is missing but the consume queue is complete, or if an entry of the queue points at another
    record.
    """
    found, there = [], records.number("queue_offset")
    borders = np.searchsorted(owners, np.arange(len(parts) + 1))
    for part, (low, high) in zip(parts, itertools.pairwise(borders.tolist()), strict=True):
        if (missing := part.end - part.start - (high - low)) > 0:
            first, last = _outer_missing(part, np.sort(there[low:high]))
            found.append(Loss(part.queue, first, last + 1, f"the broker skips {missing} of them"))
    return found


def _outer_missing(part: PulledPart, there: np.ndarray) -> tuple[int, int]:
    """Return the first and the last missing offset of a part.

    `there` is ascending. Without a list of all offsets: an invalid response can claim to skip any number of them.
    """
    behind_front = np.arange(len(there)) + part.start
    before_back = np.arange(len(there)) + part.end - len(there)
    in_front = int(np.argmin(np.append(there == behind_front, False)))
    at_back = int(np.argmin(np.append((there == before_back)[::-1], False)))
    return part.start + in_front, part.end - 1 - at_back
