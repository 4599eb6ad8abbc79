"""Sends that wait: for the disk, for a slave, or for both side by side.

One queue for each thing that is waited for. Commit log offsets only rise, and so do deadlines, so whatever is
due stands at the head: an ack of many messages answers them all in one go. Nothing here awaits; the deadlines
are looked at by the loop that owns the queue (store-and-ha section 4.7; classes GroupTransferService,
FlushDiskWatcher).
"""

import collections
from collections.abc import Callable
from typing import Protocol

import attrs
import msgspec

from rmqlab.store.results import PutStatus


class TimeoutExplainer(Protocol):
    """Knows why a record has not reached enough copies."""

    def explain(self, record_end: int, /) -> str | None:
        """Return the cause, for the sender; None where 4.9 reports none."""


class WaitingSend(msgspec.Struct, eq=False):
    """A stored message whose reply is held until every wait that was started for it has ended.

    `answer` gets the status and its cause, and must not refer to this: a cycle for each send is work for the collector.
    """

    answer: Callable[[PutStatus, str | None], None]
    waits: int = 0
    status: PutStatus = PutStatus.PUT_OK
    cause: str | None = None
    """Why it is not PUT_OK, where somebody wants to know."""

    def settle(self, status: PutStatus, cause: str | None = None) -> None:
        """End one wait. A slave's failure outweighs the disk's (store-ha#56)."""
        if status is not PutStatus.PUT_OK and self.status in (PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT):
            self.status, self.cause = status, cause
        self.waits -= 1
        if self.waits == 0:
            self.answer(self.status, self.cause)


@attrs.define(eq=False)
class PendingAcks:
    """Sends that wait until an offset is reached: flushed to disk, or acknowledged by a slave.

    `timeout` is in seconds, `late` is what a send is told that waited in vain.
    """

    timeout: float
    late: PutStatus
    reached: int = 0
    _waiting: collections.deque[tuple[int, float, WaitingSend]] = attrs.field(factory=collections.deque, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, send: WaitingSend, *, now: float) -> None:
        """Wait for the byte before `end_offset`, at most until `now + timeout`."""
        if end_offset <= self.reached:
            return
        send.waits += 1
        self._waiting.append((end_offset, now + self.timeout, send))

    def advance(self, reached: int) -> None:
        """Answer all that have what they wait for. An offset that falls is ignored."""
        if reached <= self.reached:
            return
        self.reached = reached
        waiting = self._waiting
        while waiting and waiting[0][0] <= reached:
            waiting.popleft()[2].settle(PutStatus.PUT_OK)

    def expire(self, now: float, explainer: TimeoutExplainer | None = None) -> None:
        """Answer the sends whose timeout has passed, with the explainer's cause."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            end_offset, _, send = waiting.popleft()
            send.settle(self.late, None if explainer is None else explainer.explain(end_offset))

    def fail(self, status: PutStatus, cause: str) -> None:
        """Answer all: what they wait for cannot come."""
        waiting = self._waiting
        while waiting:
            waiting.popleft()[2].settle(status, cause)

    @property
    def next_deadline(self) -> float | None:
        """When the first of them has waited long enough."""
        return self._waiting[0][1] if self._waiting else None
