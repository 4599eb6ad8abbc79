"""The events of a cluster in order of receipt, kept in memory, with followers.

It excludes events of single messages (`MESSAGE_KINDS` of `rmqlab.runtime.journals.journalentry`), which
are only in the journals of their processes.
"""

import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import attrs
import trio

from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalwriter import JournalWriter

RING_EVENTS = 20_000
RING_BYTES = 64 * 2**20
"""Maximum bytes of the events in memory, as encoded in the journal."""
FOLLOWER_EVENTS = 20_000


@attrs.define(eq=False)
class EventLog:
    """The latest events. Iteration yields them, oldest first."""

    journal: JournalWriter | None = None
    """The journal of the supervisor's own events."""
    _ring: collections.deque[JournalEntry] = attrs.field(factory=collections.deque, init=False)
    _weights: collections.deque[int] = attrs.field(factory=collections.deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _followers: dict[trio.MemorySendChannel[JournalEntry], None] = attrs.field(factory=dict, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(tuple(self._ring))

    def record(self, event: JournalEntry) -> None:
        """Add an event of the supervisor, and append it to the journal."""
        if self.journal is not None:
            self.journal.append(event)
            self.journal.flush()
        self.append(event)

    def append(self, event: JournalEntry) -> None:
        """Add an event that is in the journal of another process."""
        self._keep(event)
        for follower in tuple(self._followers):
            try:
                follower.send_nowait(event)
            except trio.WouldBlock:  # too slow: the end of its stream signals this
                self._followers.pop(follower, None)
                follower.close()
        self.pulse()

    def _keep(self, event: JournalEntry) -> None:
        """Keep an event in memory, and drop the oldest above the limits."""
        weight = len(pack_entry(event))
        self._ring.append(event)
        self._weights.append(weight)
        self._bytes += weight
        while len(self._ring) > RING_EVENTS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            self._ring.popleft()
            self._bytes -= self._weights.popleft()

    def pulse(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    @property
    def changed(self) -> trio.Event:
        """An event set at the next change.

        Get it before reading state, so that no change is missed.
        """
        return self._changed

    async def wait_changed(self) -> None:
        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def follow(self, *, replay: bool = False) -> AsyncIterator[trio.MemoryReceiveChannel[JournalEntry]]:
        """Open a stream of all events from now on, with `replay` after those in memory.

        The stream ends early for a reader that falls far behind.
        """
        past = tuple(self._ring) if replay else ()
        send, receive = trio.open_memory_channel[JournalEntry](FOLLOWER_EVENTS + len(past))
        for event in past:
            send.send_nowait(event)
        self._followers[send] = None
        try:
            with send, receive:
                yield receive
        finally:
            self._followers.pop(send, None)

    async def wait_event(self, matches: Callable[[JournalEntry], bool]) -> JournalEntry:
        """Return the first event that matches, including past ones in memory."""
        async with self.follow(replay=True) as events:
            async for event in events:
                if matches(event):
                    return event
        raise RuntimeError("events arrived faster than they were read")
