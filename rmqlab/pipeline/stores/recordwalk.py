"""Find where many records begin, with numpy.

`recordlayout.walk` reads three fields of each record in a loop. Here the loop reads sizes only, and it skips a run of
records with one size. The other fields of all records are then compared at once.
"""

import struct
import sys
from typing import Final

import numpy as np

from rmqlab.pipeline.stores.bytecolumns import numbers
from rmqlab.pipeline.stores.recordlayout import NUMBER_FIELDS, walk
from rmqlab.remoting.message import FIXED_SIZE, MESSAGE_MAGIC

_SIZE: Final = struct.Struct(">i")
_MAGIC_AT: Final = 4
_PLACE: Final = NUMBER_FIELDS["physical_offset"]
_RUN: Final = 64
"""Records of one size in a row after which more of that size are expected."""


def walk_many(
    data: memoryview, at: int, end: int, base: int | None = None, most: int = sys.maxsize
) -> tuple[np.ndarray, int]:
    """Return the result of `recordlayout.walk`, with the positions in an array."""
    raw = np.frombuffer(data, np.uint8)
    starts, stop = _follow_sizes(data, raw, at, min(end, len(data) - FIXED_SIZE + 1), most)
    sound = numbers(raw, starts + _MAGIC_AT, ">i4") == MESSAGE_MAGIC
    if base is not None:
        sound &= numbers(raw, starts + _PLACE.at, _PLACE.kind) - starts == base
    if len(starts) and stop > len(data):
        sound[-1] = False
    if not sound.all():
        count = int(np.argmin(sound))
        starts, stop = starts[:count], int(starts[count])
    # The header of a DLedger entry ends a chain of sizes; `walk` skips it.
    rest, stop = walk(data, stop, end, base, most - len(starts))
    return (np.append(starts, rest) if rest else starts), stop


def _follow_sizes(data: memoryview, raw: np.ndarray, at: int, end: int, most: int) -> tuple[np.ndarray, int]:
    """Return positions that sizes lead to, up to `end`, and the one after them.

    Stops at a size that is too small for a record.
    """
    found, left = [np.empty(0, np.int64)], most
    while left > 0:
        starts, at = _next_sizes(data, at, end, min(_RUN, left))
        found.append(np.array(starts, np.int64))
        left -= len(starts)
        if len(starts) < _RUN:
            break
        size = at - starts[-1]
        if starts[-1] - starts[0] == size * (_RUN - 1):
            run = np.arange(at, at + size * left if left < (end - at) // size else end, size)
            is_other = numbers(raw, run, ">i4") != size
            run = run[: np.argmax(is_other)] if is_other.any() else run
            found.append(run)
            left -= len(run)
            at += size * len(run)
    return np.concatenate(found), at


def _next_sizes(data: memoryview, at: int, end: int, most: int) -> tuple[list[int], int]:
    starts: list[int] = []
    unpack, least = _SIZE.unpack_from, FIXED_SIZE
    for _ in range(most):
        if at >= end:
            break
        (size,) = unpack(data, at)
        if size < least:
            break
        starts.append(at)
        at += size
    return starts, at
