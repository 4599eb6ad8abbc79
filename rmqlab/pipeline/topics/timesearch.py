"""Find the first message of a queue that was stored at a time or later."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from rmqlab.client.instance import Client
from rmqlab.pipeline.topics.queues import checked_offset, in_order, pull
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.headers.offset import SearchOffsetRequestHeader, SearchOffsetResponseHeader
from rmqlab.remoting.message import decode_message

PROBES = 7
"""Messages of a queue whose times are requested at a time."""


async def offset_at(client: Client, queue: QueueName, members: Mapping[int, str], millis: int) -> int:
    """Return the offset of the first message stored at a time or later.

    Returns the end if all are older. Raises UnreachableError. Brokers return the nearest message in time, which may be
    older, or any of several that were stored in the same millisecond (class ConsumeQueue): so this function checks it
    and the messages before it.
    """
    header = SearchOffsetRequestHeader(topic=client.named(queue.topic), queue_id=queue.queue_id, timestamp=millis)

    async def ask(address: str) -> int:
        response = await client.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return max(0, checked_offset(response.header(SearchOffsetResponseHeader).offset))

    offset, broker_id = await in_order(queue, members, ask)

    async def is_older(offset: int) -> bool | None:
        pulled = await pull(client, members[broker_id], queue, offset, count=1)
        return decode_message(pulled.body).store_timestamp < millis if pulled.is_found else None

    if await is_older(offset):
        return offset + 1
    return await _first_not_older(is_older, offset)


async def _first_not_older(is_older: Callable[[int], Awaitable[bool | None]], offset: int) -> int:
    """Return the first of the consecutive offsets up to `offset` that are not older.

    Steps back with doubling distances, then cuts the rest into parts: after the first request, several at a time.
    `is_older` returns None for a message that is not available.
    """

    async def first_of(places: Sequence[int]) -> int:
        """Return the index of the first place that is not older, or their number."""
        older: dict[int, bool | None] = {}

        async def look(place: int) -> None:
            older[place] = await is_older(place)

        async with trio.open_nursery() as nursery:
            for place in places:
                nursery.start_soon(look, place)
        return next((index for index, place in enumerate(places) if older[place] is False), len(places))

    high, low, step, probes = offset, -1, 1, 1
    while high > 0 and low < 0:  # invariant: `high` is not older; `low` is older, not available, or before the queue
        back = [max(0, high - step * (2 ** (number + 1) - 1)) for number in range(probes)]
        places = sorted(set(back))
        found = await first_of(places)
        low = places[found - 1] if found else -1
        high = places[found] if found < len(places) else high
        step, probes = step * 2**probes, PROBES
    while high - low > 1:
        gap, parts = high - low, min(PROBES + 1, high - low)
        places = [low + gap * number // parts for number in range(1, parts)]
        found = await first_of(places)
        high, low = [*places, high][found], [low, *places][found]
    return high
