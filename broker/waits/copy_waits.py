"""Sends that wait for slaves, by the number of copies that each of them needs.

The broker's settings demand one number for all messages, and a message may demand a higher one (`MIN_COPIES`). Each
number has a queue of its own, because its sends are released at an offset of their own.
"""

import functools
from typing import Protocol

import attrs

from rmqlab.broker.waits.pending_acks import PendingAcks, WaitingSend
from rmqlab.store.results import PutStatus


class CopyCounter(Protocol):
    """Counts the copies of the log.

    `copies` includes the master's own log: 2 is one slave. 0 is 4.9's rule for one slave.
    """

    def copied_offset(self, copies: int, /) -> int:
        """Return the end of the bytes that `copies` logs have; -1 with fewer logs."""

    def has_enough(self, copies: int, /) -> bool:
        """Return True while there are `copies` logs, the master's included."""

    def explain(self, record_end: int, copies: int, /) -> str | None:
        """Return why a record has too few copies; None if 4.9 reports no cause."""


@attrs.define(eq=False)
class CopyWaits:
    """One queue of waiting sends for each number of copies.

    The numbers are limited by the connected slaves: a send that demands more does not wait.
    """

    timeout: float
    """Seconds until a waiting send returns FLUSH_SLAVE_TIMEOUT."""
    _queues: dict[int, PendingAcks] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def set_timeout(self, seconds: float) -> None:
        """Change the timeout of sends that begin to wait from now on."""
        self.timeout = seconds
        for queue in self._queues.values():
            queue.timeout = seconds

    def add(self, end_offset: int, send: WaitingSend, counter: CopyCounter, copies: int, *, now: float) -> None:
        """Wait until `copies` logs have all bytes before `end_offset`."""
        queue = self._queues.get(copies)
        if queue is None:
            reached = max(counter.copied_offset(copies), 0)
            queue = self._queues[copies] = PendingAcks(self.timeout, PutStatus.FLUSH_SLAVE_TIMEOUT, reached)
        queue.add(end_offset, send, now=now)

    def advance(self, counter: CopyCounter) -> None:
        """Release the sends whose copies have been acknowledged."""
        for copies, queue in self._queues.items():
            queue.advance(counter.copied_offset(copies))

    def expire(self, now: float, counter: CopyCounter) -> None:
        """Release the sends whose deadline has passed."""
        for copies, queue in self._queues.items():
            queue.expire(now, functools.partial(_cause, counter, copies))

    def fail_lost(self, counter: CopyCounter, cause: str) -> None:
        """Release the sends for which too few slaves are left."""
        for copies, queue in self._queues.items():
            if not counter.has_enough(copies):
                queue.fail(PutStatus.SLAVE_NOT_AVAILABLE, cause)


def _cause(counter: CopyCounter, copies: int, record_end: int) -> str | None:
    return counter.explain(record_end, copies)
