"""Where two commit logs part: their common range, the first byte that differs, and whose messages lie there.

Reads files and changes none: beside running brokers or long after, ours or real ones'. A log is taken to end where a
start would find its end (section 3.5), after the last whole record; a record that is spoilt ends it only if the
consume queues do not go on beyond. Source: issue 3 item 7.
"""

import contextlib
import enum
import itertools
import mmap
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from rmqlab.remoting.message import (
    BLANK_SIZE,
    MESSAGE_MAGIC,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
    RecordError,
    decode_message,
)
from rmqlab.store.disk import StoreError
from rmqlab.store.queuefile import last_end_of, last_queue_files
from rmqlab.store.recovery import log_end

BLOCK: Final = 1 << 20
_HEAD: Final = struct.Struct(">ii")
UNREADABLE: Final = "(unreadable)"
"""The topic of a record whose lengths contradict each other."""
SHOWN: Final = 5
"""Records listed of each side, unless asked for more."""


class Verdict(enum.StrEnum):
    """What became of the comparison."""

    EQUAL = "equal"
    """The same bytes over the common range, and the same end. One may begin later than the other."""
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """There is nothing that both have."""


@attrs.frozen
class Record:
    """One message of a log, as far as it helps to find it elsewhere. Times in ms."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    """The producer's unique id (UNIQ_KEY); empty without one."""
    offset_message_id: str
    keys: str
    born_millis: int
    stored_millis: int
    body_size: int
    is_intact: bool
    """Its body is what its CRC says."""


@attrs.frozen
class Stretch:
    """A part of one log, up to its end."""

    offset: int
    """Where its first record begins."""
    byte_count: int
    record_count: int
    first: tuple[Record, ...]
    """The first few of its records."""


@attrs.frozen
class Side:
    """What one of the two logs has."""

    directory: str
    file_count: int
    min_offset: int
    max_offset: int
    differing: Stretch | None
    """From the record on that holds the first differing byte."""
    beyond: Stretch | None
    """From the other log's end on."""


@attrs.frozen
class Comparison:
    """Offsets are bytes of the commit log."""

    verdict: Verdict
    reason: str
    common_from: int
    common_to: int
    """The range that both have; empty where these are equal."""
    first_difference: int | None
    """Offset of the first byte that differs."""
    last_common: Record | None
    """The last whole record before it."""
    a: Side
    b: Side


@attrs.define(eq=False)
class LogImage:
    """One commit log, mapped for reading."""

    directory: Path
    firsts: list[int]
    """Commit log offset of each file's first byte."""
    views: list[memoryview]
    queues_end: int = 0
    """Where the last record ends that is in a consume queue."""
    max_offset: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        if self.views:
            start = next((at for at in reversed(range(len(self.views))) if any(self.views[at][:BLANK_SIZE])), 0)
            self.max_offset = log_end(self.views, self.firsts, start, check_crc=True)
            if self.max_offset < self.queues_end:
                self.max_offset = log_end(self.views, self.firsts, start, check_crc=False)

    @classmethod
    @contextlib.contextmanager
    def open(cls, directory: Path) -> Iterator[Self]:
        """Map a commit log: the directory of its files, or the root of its store. StoreError if there is none."""
        place = directory if _files(directory) else directory / "commitlog"
        files = _files(place)
        if not place.is_dir() and not (directory / "lock").exists():  # a store without a message has no log yet
            raise StoreError(f"{directory} is no store: no commitlog/ below it, and no commit log files in it")
        with contextlib.ExitStack() as stack:
            views = [stack.enter_context(_mapped(path)) for path in files]
            queues_end = max(map(last_end_of, last_queue_files(place.parent)), default=0)
            image = cls(place, [int(path.name) for path in files], views, queues_end)
            for first, view, following in zip(image.firsts, views, image.firsts[1:], strict=False):
                if first + len(view) != following:
                    raise StoreError(f"{place}: between {first + len(view)} and {following} a file is missing")
            yield image

    @property
    def min_offset(self) -> int:
        return self.firsts[0] if self.firsts else 0

    @property
    def is_empty(self) -> bool:
        return self.max_offset == self.min_offset

    def read(self, offset: int, size: int) -> bytes:
        """At most so many bytes from here on, never across the end of a file."""
        number = self._number(offset)
        at = offset - self.firsts[number]
        return bytes(self.views[number][at : at + size])

    def starts(self, offset: int) -> Iterator[int]:
        """Where records begin: the one that holds `offset` or the first after it, and all that follow."""
        for number in range(self._number(offset), len(self.views)):
            first = self.firsts[number]
            for start, end in _records(self.views[number], self.max_offset - first):
                if first + end > offset:
                    yield first + start

    def record(self, offset: int) -> Record:
        """The record that begins here. Of one that is spoilt inside only the place and the size are known."""
        number = self._number(offset)
        view, at = self.views[number], offset - self.firsts[number]
        try:
            message = decode_message(view, at)
        except RecordError:
            size = _HEAD.unpack_from(view, at)[0]
            return Record(offset, size, UNREADABLE, -1, -1, "", "", "", 0, 0, 0, is_intact=False)
        return Record(
            offset=offset,
            size=message.store_size,
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            message_id=message.properties.get(PROPERTY_UNIQ_KEY, ""),
            offset_message_id=message.offset_message_id,
            keys=message.properties.get(PROPERTY_KEYS, ""),
            born_millis=message.born_timestamp,
            stored_millis=message.store_timestamp,
            body_size=len(message.body),
            is_intact=message.is_intact,
        )

    def stretch(self, offset: int, shown: int) -> Stretch | None:
        """What there is from the record that holds `offset`; None at or beyond the end."""
        if offset >= self.max_offset:
            return None
        starts = self.starts(offset)
        first = list(itertools.islice(starts, max(shown, 1)))
        begin = min(first, default=offset)  # without a record, a blank is all there is
        count = len(first) + sum(1 for _ in starts)
        return Stretch(begin, self.max_offset - begin, count, tuple(map(self.record, first[:shown])))

    def last_before(self, offset: int) -> Record | None:
        """The last record that ends at or before `offset`."""
        for number in range(self._number(offset), -1, -1):
            last, first = -1, self.firsts[number]
            for start, end in _records(self.views[number], offset - first):
                if first + end <= offset:
                    last = first + start
            if last >= 0:
                return self.record(last)
        return None

    def _number(self, offset: int) -> int:
        """Of the file that holds an offset, or would."""
        return max(0, bisect_right(self.firsts, offset) - 1)


def compare_logs(a: LogImage, b: LogImage, *, shown: int = SHOWN) -> Comparison:
    """Hold two logs against each other, the common range byte by byte."""
    low, high = max(a.min_offset, b.min_offset), min(a.max_offset, b.max_offset)
    if high <= low and not (a.is_empty or b.is_empty):
        reason = f"one has {a.min_offset}..{a.max_offset}, the other {b.min_offset}..{b.max_offset}: no byte in common"
        return Comparison(Verdict.UNKNOWN, reason, low, low, None, None, _side(a, b, None, 0), _side(b, a, None, 0))
    difference = first_difference(a, b, low, high)
    verdict, reason = Verdict.DIFFERENT, f"they differ from offset {difference} on"
    if difference is None:
        verdict, reason = Verdict.EQUAL, "the same bytes, and the same end"
        if a.max_offset != b.max_offset:
            verdict, reason = Verdict.DIFFERENT, f"the same bytes up to {high}, where one ends"
    return Comparison(
        verdict,
        reason,
        low,
        max(low, high),
        difference,
        a.last_before(difference) if difference is not None else None,
        _side(a, b, difference, shown),
        _side(b, a, difference, shown),
    )


def first_difference(a: LogImage, b: LogImage, low: int, high: int) -> int | None:
    """The first offset in [low, high) where the bytes of two logs differ."""
    while low < high:
        wanted = min(BLOCK, high - low)
        ours, theirs = a.read(low, wanted), b.read(low, wanted)
        size = min(len(ours), len(theirs))  # their files may have different lengths
        if ours[:size] != theirs[:size]:
            return low + _first_unequal(ours, theirs, size)
        low += size
    return None


def _first_unequal(ours: bytes, theirs: bytes, size: int) -> int:
    low = 0
    while size > 1:
        half = size // 2
        if ours[low : low + half] == theirs[low : low + half]:
            low += half
            size -= half
        else:
            size = half
    return low


def _side(image: LogImage, other: LogImage, difference: int | None, shown: int) -> Side:
    return Side(
        directory=str(image.directory),
        file_count=len(image.views),
        min_offset=image.min_offset,
        max_offset=image.max_offset,
        differing=None if difference is None else image.stretch(difference, shown),
        beyond=image.stretch(max(other.max_offset, image.min_offset), shown),
    )


def _records(view: memoryview, limit: int) -> Iterator[tuple[int, int]]:
    """Where each record of a file that begins below `limit` begins and ends.

    Only heads are looked at: the log's end is known, and what is before it is whole.
    """
    at, last, unpack = 0, min(len(view) - BLANK_SIZE, limit - 1), _HEAD.unpack_from
    while at <= last:
        size, magic = unpack(view, at)
        if magic != MESSAGE_MAGIC or size <= 0:
            return
        yield at, at + size
        at += size


def _files(directory: Path) -> Sequence[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.isdigit() and path.stat().st_size)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    with mapped, memoryview(mapped) as view:
        yield view
