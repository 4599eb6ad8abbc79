"""Search for the common end of two logs by comparing single records, without I/O.

A commit log only grows, so two logs with a common past are equal up to some offset and differ from there on. The search
compares records from the end backwards, in steps that double, then halve: about forty in a log of millions. It does not
find differences before an equal end, which 4.9 causes when a master's log outgrows that of a slave that was ahead.
"""

from collections.abc import Callable, Generator

import attrs

_FIRST_STEP = 64 * 1024


@attrs.frozen
class Span:
    """A record: its commit log offset and its size in bytes."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """The offset after the record."""
        return self.start + self.size


_NOTHING = Span(-1, 1)
"""Before all records: the same in all logs."""

RecordBefore = Callable[[int], Span | None]
"""The last record that ends at or before an offset."""
CommonEndSearch = Generator[Span, bool, int | None]
"""Yields a record and receives whether the other log has the same; returns the common end, or None if there is none."""


def common_end(record_before: RecordBefore, end: int) -> CommonEndSearch:
    """Search below `end`, the end of the shorter log."""
    last = record_before(end)
    if last is None:
        return None
    if (yield last):
        return last.end
    different, step = last, _FIRST_STEP
    while (span := record_before(max(different.start - step, 0))) is not None:
        if (yield span):
            return (yield from _between(record_before, span, different))
        different, step = span, step * 2
    found = yield from _between(record_before, _NOTHING, different)
    return None if found == _NOTHING.end else found


def _between(record_before: RecordBefore, same: Span, different: Span) -> Generator[Span, bool, int]:
    """Bisect between an equal and a differing record."""
    while (span := _middle(record_before, same, different)) is not None:
        if (yield span):
            same = span
        else:
            different = span
    return same.end


def _middle(record_before: RecordBefore, same: Span, different: Span) -> Span | None:
    """Return a record about halfway between two.

    None if there is no record between them.
    """
    low = same.end
    while low < different.start:
        low = (low + different.start + 1) // 2  # ends at different.start at the latest: then it is the one before that
        span = record_before(low)
        if span is not None and span.start > same.start:
            return span
    return None
