"""Maps and queue ids in events of brokers and clients, for both judges.

A writer truncates large ones (`rmqlab.runtime.bounds`), so that they may have other keys and values.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.runtime.journals.schema import OFFSET_LIMIT
from rmqlab.runtime.text.digits import number_of

_INT32: Final = 2**31


def route_addresses(brokers: object) -> set[str]:
    """Return the addresses in a route: a map by broker name, then by broker id."""
    groups = [group for group in brokers.values() if isinstance(group, dict)] if isinstance(brokers, dict) else []
    return {address for group in groups for address in group.values() if isinstance(address, str)}


def queue_id_of(text: str) -> int | None:
    """Return the queue id that a text is; None for other text."""
    number = number_of(text)
    return number if number is not None and number < _INT32 else None


def moved_offsets(queues: object) -> Iterator[tuple[int, int, int]]:
    """Yield queue id, old and new offset from a map of pairs by queue id."""
    for key, pair in queues.items() if isinstance(queues, dict) else ():
        queue_id = queue_id_of(str(key))
        if queue_id is not None and isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_offset, pair)):
            yield queue_id, pair[0], pair[1]


def _is_offset(value: object) -> bool:
    return type(value) is int and abs(value) < OFFSET_LIMIT
