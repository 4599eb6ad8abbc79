"""Where two logs part, found by asking about single records: a search without I/O.

A commit log only grows, so two logs that were one are equal up to some offset and differ from there on. Records are
asked about from the end backwards, in steps that double, then halve: of a log of millions some forty are looked at.
What differs further down while the end is equal, as 4.9 leaves behind when a master passes the end of a slave that is
ahead, is not found.
"""

from collections.abc import Callable, Generator

import attrs

_FIRST_STEP = 64 * 1024


@attrs.frozen
class Span:
    """A record: where it lies in the commit log, and its size in bytes."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Where the next one may begin."""
        return self.start + self.size


_NOTHING = Span(-1, 1)
"""Before all records: the same in all logs."""

RecordBefore = Callable[[int], Span | None]
"""The last record that ends at or before an offset."""
Question = Generator[Span, bool, int | None]
"""Yields a record, is sent whether the other log has the same; returns where the common part ends, None without one."""


def common_end(record_before: RecordBefore, end: int) -> Question:
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
    """Halve what lies between a record that is the same and one that is not."""
    while (span := _middle(record_before, same, different)) is not None:
        if (yield span):
            same = span
        else:
            different = span
    return same.end


def _middle(record_before: RecordBefore, same: Span, different: Span) -> Span | None:
    """A record about halfway between two; None if there is none at all."""
    low = same.end
    while low < different.start:
        low = (low + different.start + 1) // 2  # ends at different.start at the latest: then it is the one before that
        span = record_before(low)
        if span is not None and span.start > same.start:
            return span
    return None
