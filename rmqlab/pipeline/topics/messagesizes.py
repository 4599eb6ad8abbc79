"""Estimate the bytes of waiting messages, to limit a micro-batch in bytes.

Brokers report how many messages a queue has, not their size. So some messages are pulled: a few at each of some places
of a range, evenly spaced. The estimate is shortened and repeated: the last samples are of the range that is read.
"""

import functools
from collections.abc import Iterable
from typing import Final

import attrs
import trio

from rmqlab.client.instance import Client
from rmqlab.pipeline.topics.microbatches import within_bytes
from rmqlab.pipeline.topics.queues import Filter, Members, Reading, UnreachableError, in_order, pull
from rmqlab.pipeline.topics.topicoffsets import Offsets, QueueName, QueueRange

_PLACES: Final = 4
"""Places of a range to sample. The first is its start: so large messages there are never missed."""
_MESSAGES: Final = 16
"""Messages to pull at a place."""
_ENOUGH_BYTES: Final = 256 * 1024
"""Bytes of a place after which fewer messages suffice."""
_ROUNDS: Final = 4
_SECONDS: Final = 10.0


async def limited_to_bytes(
    client: Client, start: Offsets, end: Offsets, limit: int, *, members: Members, reading: Reading
) -> dict[QueueName, int]:
    """Return the ends of a read of about `limit` bytes, by samples of its messages.

    Bytes are those of stored records, before decompression, and of all messages, also those that a filter excludes.
    """
    unfiltered = attrs.evolve(reading, message_filter=Filter())
    shortened = dict(end)
    for _ in range(_ROUNDS):
        ranges = [QueueRange(queue, start[queue], shortened[queue]) for queue in start.keys() & shortened.keys()]
        sizes = await mean_sizes(client, ranges, members, unfiltered)
        before, shortened = shortened, within_bytes(start, shortened, sizes, limit)
        if shortened == before:
            break
    return shortened


async def mean_sizes(
    client: Client, ranges: Iterable[QueueRange], members: Members, reading: Reading
) -> dict[QueueName, float]:
    """Return mean sizes of messages by queue, in bytes.

    Queues of brokers that do not respond are missing.
    """
    sizes: dict[QueueName, float] = {}

    async def measure(part: QueueRange) -> None:
        ask = functools.partial(_mean_size, client, part, reading)
        try:
            sizes[part.queue], _ = await in_order(part.queue, members.get(part.queue.broker, {}), ask)
        except UnreachableError:
            return  # the task that reads the queue reports the error

    with trio.move_on_after(_SECONDS):
        async with trio.open_nursery() as nursery:
            for part in ranges:
                if part.size > 0:
                    nursery.start_soon(measure, part)
    return sizes


async def _mean_size(client: Client, part: QueueRange, reading: Reading, address: str) -> float:
    """Return the mean over all places of the range. Raises FAILURES."""
    places = sample_places(part)
    means = [await _mean_size_at(client, place, reading, address) for place in places]
    return sum(means) / len(means)


def sample_places(part: QueueRange) -> list[QueueRange]:
    """Return the parts of a range to pull: evenly spaced, without overlaps."""
    step = max(_MESSAGES, -(-part.size // _PLACES))
    begins = range(part.start, part.end, step)
    return [QueueRange(part.queue, begin, min(begin + _MESSAGES, part.end)) for begin in begins]


async def _mean_size_at(client: Client, place: QueueRange, reading: Reading, address: str) -> float:
    """Return the mean size of the messages of a place; 0 if there are none.

    Raises FAILURES.

    A pull ends before a message that is too large for its response. The next pull returns this message: without it the
    mean would be too small.
    """
    at, size = place.start, 0
    while at < place.end and size < _ENOUGH_BYTES:
        pulled = await pull(client, address, place.queue, at, count=place.end - at, reading=reading)
        if not pulled.is_found or pulled.next_offset <= at:
            break
        at, size = pulled.next_offset, size + len(pulled.body)
    return size / (at - place.start) if at > place.start else 0.0
