"""The pulled, unconsumed messages of one queue (class ProcessQueue). Pure.

The lowest offset still held may be committed: messages are consumed in any order, and after a crash all messages from
the committed offset on are delivered again.
"""

import bisect
from collections.abc import Iterable, Sequence

import attrs

from rmqlab.client.message import ReceivedMessage
from rmqlab.remoting.bodies.queue import MessageQueue

_LEAST_SHARE = 2**20


@attrs.frozen(kw_only=True)
class FlowLimits:
    """Limits for pulling ahead in a queue (defaults of class DefaultMQPushConsumer)."""

    messages: int = 1000
    size: int = 100 * 2**20
    span: int = 2000
    """Largest distance between the first and the last offset held; only for concurrent consumers."""
    shared_messages: int | None = None
    """Limit of messages of all queues together, of which each queue has an equal share (pullThresholdForTopic)."""
    shared_size: int | None = None
    """The same for bytes; each queue has at least 1 MiB (pullThresholdSizeForTopic)."""
    polled_messages: int = 10_000
    """For lite pull consumers: messages of all queues that wait for `poll`, if each pull found as many as it may
    (pullThresholdForAll)."""

    def shared_by(self, queues: int) -> "FlowLimits":
        """Return the limits of each of so many queues."""
        limits = self
        if self.shared_messages is not None:
            limits = attrs.evolve(limits, messages=max(1, self.shared_messages // queues))
        if self.shared_size is not None:
            limits = attrs.evolve(limits, size=max(_LEAST_SHARE, self.shared_size // queues))
        return limits


@attrs.define(eq=False)
class ProcessQueue:
    """One queue that rebalance has assigned to this consumer."""

    queue: MessageQueue
    next_offset: int
    """The offset of the next pull."""
    is_dropped: bool = False
    is_locked: bool = False
    """For orderly consumers: the broker has granted the queue to us."""
    locked_at: float = 0.0
    last_pull_at: float = 0.0
    last_consume_at: float = 0.0
    held_bytes: int = 0
    _held: dict[int, ReceivedMessage] = attrs.field(factory=dict, init=False)
    _offsets: list[int] = attrs.field(factory=list, init=False)
    _highest: int = attrs.field(default=-1, init=False)
    _taken: dict[int, ReceivedMessage] = attrs.field(factory=dict, init=False)

    def put(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Add messages; return those that were not held before, in order."""
        fresh: list[ReceivedMessage] = []
        for message in messages:
            if message.queue_offset in self._held:
                continue
            fresh.append(message)
            self._held[message.queue_offset] = message
            self.held_bytes += len(message.body)
            if self._offsets and message.queue_offset < self._offsets[-1]:
                bisect.insort(self._offsets, message.queue_offset)
            else:
                self._offsets.append(message.queue_offset)
        if messages:
            self._highest = max(self._highest, messages[-1].queue_offset)
        return fresh

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Remove consumed messages.

        Return the offset to commit, -1 if no message was ever held.
        """
        for message in messages:
            if self._held.pop(message.queue_offset, None) is not None:
                self.held_bytes -= len(message.body)
        self._drop_removed()
        return self._offsets[0] if self._offsets else self._highest + 1 if self._highest >= 0 else -1

    def _drop_removed(self) -> None:
        # Only the front is checked: a message consumed out of order stays in the list until it is at the front.
        gone = 0
        while gone < len(self._offsets) and self._offsets[gone] not in self._held:
            gone += 1
        if gone:
            del self._offsets[:gone]

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def span(self) -> int:
        return self._offsets[-1] - self._offsets[0] if self._offsets else 0

    @property
    def first_held(self) -> ReceivedMessage | None:
        """The oldest message still held."""
        return self._held[self._offsets[0]] if self._offsets else None

    @property
    def lowest_offset(self) -> int:
        return self._offsets[0] if self._offsets else 0

    @property
    def highest_offset(self) -> int:
        return self._offsets[-1] if self._offsets else 0

    def is_full(self, limits: FlowLimits, *, is_orderly: bool = False) -> bool:
        """Return True if pulling must wait."""
        return (
            self.count > limits.messages
            or self.held_bytes > limits.size
            or (not is_orderly and self.span > limits.span)
        )

    # -- orderly consumption: messages are taken in order, and kept until they are committed ------

    def take(self, count: int) -> list[ReceivedMessage]:
        """Return the next messages in order; they stay held until `commit` or `put_back`."""
        taken: list[ReceivedMessage] = []
        for offset in self._offsets:
            if len(taken) == count:
                break
            if offset not in self._taken:
                self._taken[offset] = self._held[offset]
                taken.append(self._held[offset])
        return taken

    def commit(self) -> int:
        """Remove the taken messages; return the offset to commit."""
        taken = list(self._taken.values())
        self._taken.clear()
        return self.remove(taken)

    def put_back(self) -> None:
        """Let `take` return the same messages again."""
        self._taken.clear()
