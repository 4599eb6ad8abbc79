"""Comparison of two commit logs: common range, differing bytes, their messages.

Only reads files, of running or stopped brokers, ours or RocketMQ's. A log ends after its last whole
record; bytes before it that are no record, such as a zeroed one, do not end it (see rmqlab/store/offline/scan.py).
"""

import contextlib
import enum
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from rmqlab.remoting.message import (
    BLANK_SIZE,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
    RecordError,
    decode_message,
)
from rmqlab.store.files.disk import StoreError
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.log.loglayout import entry_header_at, files_in, is_unused, load_record, log_directory
from rmqlab.store.log.recovery import record_size
from rmqlab.store.offline.scan import begins_record, next_record

BLOCK: Final = 1 << 20
_HEAD: Final = struct.Struct(">ii")
UNREADABLE: Final = "(unreadable)"
"""The topic of a record whose lengths contradict each other."""
SHOWN: Final = 5
"""Records listed of each side, unless asked for more."""


class Verdict(enum.StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    """The same bytes over the common range, and the same end. One may begin later than the other."""
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """The logs have no common range."""


@attrs.frozen
class Record:
    """The identifying fields of one message of a log. Times in ms."""

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
    """True if the body matches the CRC."""


@attrs.frozen
class RecordRange:
    """Several records of one log, in log order."""

    offset: int
    """Commit log offset of the first record."""
    byte_count: int
    """Total size of the records."""
    record_count: int
    first: tuple[Record, ...]
    """The first records, at most the number asked for."""


@attrs.frozen
class Side:
    """One of the two logs in a comparison."""

    directory: str
    file_count: int
    min_offset: int
    max_offset: int
    differing: RecordRange | None
    """Records with a byte that differs from the other log's byte at the same offset."""
    beyond: RecordRange | None
    """Records from the other log's end on."""


@attrs.frozen
class Comparison:
    """Offsets are bytes of the commit log."""

    verdict: Verdict
    reason: str
    common_from: int
    common_to: int
    """Start and end of the range that both logs have; empty range if start equals end."""
    first_difference: int | None
    """Offset of the first byte that differs."""
    differing_bytes: int
    """Bytes of the common range that differ, each compared with that of the same offset."""
    last_common: Record | None
    """The last whole record before it."""
    a: Side
    b: Side


@attrs.define(eq=False)
class LogImage:
    """One commit log, open for reading. Reads raise OSError."""

    directory: Path
    firsts: list[int]
    """Commit log offset of each file's first byte."""
    images: list[FileImage]
    """Its files."""
    max_offset: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.max_offset = self._end()

    @classmethod
    @contextlib.contextmanager
    def open(cls, directory: Path) -> Iterator[Self]:
        """Open a commit log: the directory of its files, or the root of its store.

        StoreError if it is missing; OSError.
        """
        folder = directory if _files(directory) else log_directory(directory)
        files = _files(folder)
        if not folder.is_dir() and not (directory / "lock").exists():  # a store without a message has no log yet
            raise StoreError(
                f"{directory} is not a store: no commitlog/ and no dledger-*/data/ below it, and no commit log files in"
                " it"
            )
        with contextlib.ExitStack() as stack:
            images = [stack.enter_context(FileImage.open(path)) for path in files]
            log = cls(folder, [int(path.name) for path in files], images)
            for first, image, following in zip(log.firsts, images, log.firsts[1:], strict=False):
                if first + image.size != following:
                    raise StoreError(f"{folder}: between {first + image.size} and {following} a file is missing")
            yield log

    @property
    def min_offset(self) -> int:
        return self.firsts[0] if self.firsts else 0

    @property
    def is_empty(self) -> bool:
        return self.max_offset == self.min_offset

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset`, never across the end of a file."""
        number = self._number(offset)
        at, image = offset - self.firsts[number], self.images[number]
        image.load(at, at + size)
        return bytes(image.view[at : at + size])

    def starts(self, offset: int) -> Iterator[int]:
        """Yield the start of each record from `offset` on.

        The first record is the one that holds `offset`, or else the first after it.
        """
        return (start for start, _ in self.extents(offset))

    def extents(self, offset: int) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each record from `offset` on, as `starts` does."""
        for number in range(self._number(offset), len(self.images)):
            for start, end in self._records(number):
                if end > offset and start < self.max_offset:
                    yield start, end

    def _records(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each record of one file, by their heads.

        Bytes that are no record are skipped.
        """
        image, first, at = self.images[number], self.firsts[number], 0
        view = image.view
        while at + BLANK_SIZE <= image.size:
            load_record(image, at)
            at += entry_header_at(view, at, first)
            if begins_record(view, at, first):
                end = self._record_end(number, at)
                yield first + at, first + end
                at = end
            elif is_unused(view, at):
                return
            else:
                at = next_record(image, at + 1, first)

    def _record_end(self, number: int, at: int) -> int:
        """Return the end of a record, as a position in its file.

        If the length leads to no record, it may be wrong: the next record bounds it.
        """
        image, first = self.images[number], self.firsts[number]
        view = image.view
        end: int = at + _HEAD.unpack_from(view, at)[0]
        if end + BLANK_SIZE <= image.size and not begins_record(view, end + entry_header_at(view, end, first), first):
            end = min(end, next_record(image, at + 1, first))
        return end

    def _end(self) -> int:
        """Return the end of the last record with consistent lengths.

        Return the begin of the log if it has no such record.
        """
        for number in reversed(range(len(self.images))):
            view, first = self.images[number].view, self.firsts[number]
            whole = (end for start, end in self._records(number) if record_size(view, start - first, check_crc=False))
            if end := max(whole, default=0):
                return end
        return self.min_offset

    def record(self, offset: int) -> Record:
        """Return the record that begins here.

        For a record with inner damage, only offset and size are set.
        """
        number = self._number(offset)
        image, at = self.images[number], offset - self.firsts[number]
        load_record(image, at)
        view = image.view
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

    def record_range(self, extents: Iterator[tuple[int, int]], shown: int) -> RecordRange | None:
        """Summarize records of this log; None for no records."""
        begin, byte_count, record_count = 0, 0, 0
        first: list[Record] = []
        for start, end in extents:
            begin = begin if record_count else start
            byte_count += end - start
            record_count += 1
            if len(first) < shown:
                first.append(self.record(start))
        return RecordRange(begin, byte_count, record_count, tuple(first)) if record_count else None

    def last_before(self, offset: int) -> Record | None:
        """Return the last record that ends at or before `offset`."""
        for number in range(self._number(offset), -1, -1):
            last = max((start for start, end in self._records(number) if end <= offset), default=-1)
            if last >= 0:
                return self.record(last)
        return None

    def _number(self, offset: int) -> int:
        """Return the number of the file for an offset."""
        return max(0, bisect_right(self.firsts, offset) - 1)


def compare_logs(a: LogImage, b: LogImage, *, shown: int = SHOWN) -> Comparison:
    """Compare two logs, the common range byte by byte."""
    low, high = max(a.min_offset, b.min_offset), min(a.max_offset, b.max_offset)
    if high <= low and not (a.is_empty or b.is_empty):
        reason = f"one has {a.min_offset}..{a.max_offset}, the other {b.min_offset}..{b.max_offset}: no byte in common"
        sides = _side(a, b, range(0), 0), _side(b, a, range(0), 0)
        return Comparison(Verdict.UNKNOWN, reason, low, low, None, 0, None, *sides)
    difference = first_difference(a, b, low, high)
    unequal = range(0) if difference is None else range(difference, high)
    byte_count = differing_bytes(a, b, unequal.start, unequal.stop)
    verdict, reason = Verdict.DIFFERENT, f"{byte_count} bytes differ, the first at offset {difference}"
    if difference is None:
        verdict, reason = Verdict.EQUAL, "the same bytes, and the same end"
        if a.max_offset != b.max_offset:
            verdict, reason = Verdict.DIFFERENT, f"the same bytes up to offset {high}, where one log ends"
    return Comparison(
        verdict,
        reason,
        low,
        max(low, high),
        difference,
        byte_count,
        a.last_before(difference) if difference is not None else None,
        _side(a, b, unequal, shown),
        _side(b, a, unequal, shown),
    )


def first_difference(a: LogImage, b: LogImage, low: int, high: int) -> int | None:
    """Return the first offset in [low, high) where the bytes of two logs differ."""
    return next((at + _first_unequal(ours, theirs, len(ours)) for at, ours, theirs in _blocks(a, b, low, high)), None)


def differing_bytes(a: LogImage, b: LogImage, low: int, high: int) -> int:
    """Count the offsets in [low, high) at which two logs have different bytes."""
    return sum(_count_unequal(ours, theirs) for _, ours, theirs in _blocks(a, b, low, high))


def _blocks(a: LogImage, b: LogImage, low: int, high: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the blocks of [low, high) that differ.

    Each is its start and the same number of bytes of each log.
    """
    while low < high:
        wanted = min(BLOCK, high - low)
        ours, theirs = a.read(low, wanted), b.read(low, wanted)
        size = min(len(ours), len(theirs))  # their files may have different lengths
        if ours[:size] != theirs[:size]:
            yield low, ours[:size], theirs[:size]
        low += size


def _count_unequal(ours: bytes, theirs: bytes) -> int:
    size = len(ours)
    return size - (int.from_bytes(ours) ^ int.from_bytes(theirs)).to_bytes(size).count(0)


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


def _side(image: LogImage, other: LogImage, unequal: range, shown: int) -> Side:
    """Return one log's part of the comparison.

    `unequal` are the offsets from the first difference to the end of the common range.
    """
    differing = (
        (start, end)
        for start, end in image.extents(unequal.start)
        if first_difference(image, other, max(start, unequal.start), min(end, unequal.stop)) is not None
    )
    return Side(
        directory=str(image.directory),
        file_count=len(image.images),
        min_offset=image.min_offset,
        max_offset=image.max_offset,
        differing=image.record_range(differing, shown) if unequal else None,
        beyond=image.record_range(image.extents(max(other.max_offset, image.min_offset)), shown),
    )


def _files(directory: Path) -> Sequence[Path]:
    return [path for path in files_in(directory) if path.stat().st_size]
