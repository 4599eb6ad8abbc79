"""Sends that wait for a flush, for a slave's acknowledgement, or for both.

There is one queue for flushes and one for acknowledgements. Commit log offsets and deadlines only rise, so due sends
are at the head: one acknowledgement releases all sends before its offset. No function here awaits; a loop of the broker
calls `expire` (store-and-ha section 4.7; classes GroupTransferService, FlushDiskWatcher).
"""

import collections
from collections.abc import Callable

import attrs
import msgspec

from rmqlab.store.results import PutStatus


class WaitingSend(msgspec.Struct, eq=False):
    """A stored message whose reply is held until all its waits have ended.

    `send_reply` sends the reply, from status and cause. It must not refer to this object: a reference cycle for each
    send would be work for the garbage collector.
    """

    send_reply: Callable[[PutStatus, str | None], None]
    waits: int = 0
    status: PutStatus = PutStatus.PUT_OK
    cause: str | None = None
    """Why the status is not PUT_OK; None without an explanation."""

    def settle(self, status: PutStatus, cause: str | None = None) -> None:
        """End one wait. A slave's failure outweighs the disk's (store-ha#56)."""
        if status is not PutStatus.PUT_OK and self.status in (PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT):
            self.status, self.cause = status, cause
        self.waits -= 1
        if self.waits == 0:
            self.send_reply(self.status, self.cause)


@attrs.define(eq=False)
class PendingAcks:
    """Sends that wait until an offset is flushed or acknowledged by a slave.

    `timeout` is in seconds. `late`: status returned on timeout.
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
        """Release all sends up to this offset. A lower offset than before is ignored."""
        if reached <= self.reached:
            return
        self.reached = reached
        waiting = self._waiting
        while waiting and waiting[0][0] <= reached:
            waiting.popleft()[2].settle(PutStatus.PUT_OK)

    def expire(self, now: float, explain: Callable[[int], str | None] = lambda _end_offset: None) -> None:
        """Release the sends whose deadline has passed.

        `explain` returns the cause for an end offset.
        """
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            end_offset, _, send = waiting.popleft()
            send.settle(self.late, explain(end_offset))

    def fail(self, status: PutStatus, cause: str) -> None:
        """Release all sends with this status: the acknowledgement cannot arrive."""
        waiting = self._waiting
        while waiting:
            waiting.popleft()[2].settle(status, cause)

    @property
    def next_deadline(self) -> float | None:
        """The deadline of the first waiting send; None if no send waits."""
        return self._waiting[0][1] if self._waiting else None
