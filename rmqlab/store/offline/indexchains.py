"""Finds entries of an index file that queries by key do not reach.

Each hash slot leads to the newest entry of its chain, and each entry to the one before it (store-and-ha section 3.3).
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.keyindex.indexfile import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

_MOST_FOLLOWED: Final = 2**17
"""Entries up to which all chains of a file are followed: it takes a tenth of a second."""
_CHUNK: Final = INDEX_ENTRY.size * 2**16


def broken_chains(path: Path, slots: int, count: int) -> Iterator[str]:
    """Yield a line if an entry is empty, or is not in the chain of its slot.

    `count` is the number of entries that the head states, with entry 0, which RocketMQ never uses. Raises OSError.
    """
    empty = list(itertools.islice(_empty_entries(path, slots, count), 2))
    if empty:
        more = ", as are others" if len(empty) > 1 else ""
        around = " and ".join(f"that of the message at {at}" for at in _offsets_around(path, slots, count, empty[0]))
        yield (
            f"its entry {empty[0]} is empty{more}, beside {around}: queries do not find the key, nor older ones of its"
            " hash slot"
        )
    elif count <= _MOST_FOLLOWED:
        yield from itertools.islice(_strayed(path, slots, count), 1)


def _empty_entries(path: Path, slots: int, count: int) -> Iterator[int]:
    """Yield the numbers of entries without any value."""
    nothing = bytes(INDEX_ENTRY.size)
    with open_regular(path) as file:
        file.seek(_entries_at(slots) + INDEX_ENTRY.size)
        number = 1
        while number < count and (chunk := file.read(min(_CHUNK, INDEX_ENTRY.size * (count - number)))):
            at = chunk.find(nothing)
            while at >= 0:
                if at % INDEX_ENTRY.size == 0:
                    yield number + at // INDEX_ENTRY.size
                at = chunk.find(nothing, at + 1)
            number += len(chunk) // INDEX_ENTRY.size


def _offsets_around(path: Path, slots: int, count: int, number: int) -> Iterator[int]:
    """Yield the commit log offsets in the entries before and behind one."""
    with open_regular(path) as file:
        for beside in (number - 1, number + 1):
            if 0 < beside < count:
                file.seek(_entries_at(slots) + INDEX_ENTRY.size * beside)
                yield INDEX_ENTRY.unpack(file.read(INDEX_ENTRY.size))[1]


def _strayed(path: Path, slots: int, count: int) -> Iterator[str]:
    """Yield a line for each entry out of order and each slot with a wrong entry."""
    newest: dict[int, int] = {}
    reached = 0
    with open_regular(path) as file:
        file.seek(INDEX_HEADER.size)
        table = file.read(INDEX_SLOT.size * slots)
        file.seek(_entries_at(slots) + INDEX_ENTRY.size)
        entries = file.read(INDEX_ENTRY.size * (count - 1))
    for number, (hashed, offset, _, before) in enumerate(INDEX_ENTRY.iter_unpack(entries), 1):
        slot = hashed % slots
        if before != newest.get(slot, 0):
            yield (
                f"its entry {number}, of the message at {offset}, leads to entry {before}, and the one before it in its"
                f" hash slot is {newest.get(slot, 0)}: queries do not find all keys of the slot"
            )
        if offset < reached:
            yield f"its entry {number} is of a message at {offset}, and the entry before it of one at {reached}"
        newest[slot], reached = number, offset
    for slot, number in newest.items():
        (stated,) = INDEX_SLOT.unpack_from(table, INDEX_SLOT.size * slot)
        if stated != number:
            yield (
                f"its hash slot {slot} leads to entry {stated}, and the newest one of the slot is {number}: queries do"
                " not find all of its keys"
            )


def _entries_at(slots: int) -> int:
    return INDEX_HEADER.size + INDEX_SLOT.size * slots
