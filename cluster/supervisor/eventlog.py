"""What happened in a cluster, in the order in which the supervisor learnt it: kept in memory, and followed.

Single messages are not among it (`rmqlab.runtime.journal.MESSAGE_KINDS`): their processes write them down, and who wants
them reads the journals.
"""

import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import attrs
import trio

from rmqlab.runtime.journal import JournalEntry, JournalWriter, pack_entry

RING_EVENTS = 20_000
RING_BYTES = 64 * 2**20
"""Of the events in memory, as the journal encodes them."""
FOLLOWER_EVENTS = 20_000


@attrs.define(eq=False)
class EventLog:
    """The latest events. Iterating gives them, oldest first."""

    journal: JournalWriter | None = None
    """Where the supervisor's own events are written."""
    _ring: collections.deque[JournalEntry] = attrs.field(factory=collections.deque, init=False)
    _weights: collections.deque[int] = attrs.field(factory=collections.deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _followers: set[trio.MemorySendChannel[JournalEntry]] = attrs.field(factory=set, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(tuple(self._ring))

    def record(self, event: JournalEntry) -> None:
        """Take an event of the supervisor's own, and write it down."""
        if self.journal is not None:
            self.journal.append(event)
            self.journal.flush()
        self.heard(event)

    def heard(self, event: JournalEntry) -> None:
        """Take an event that another process has written down."""
        self._keep(event)
        for follower in tuple(self._followers):
            try:
                follower.send_nowait(event)
            except trio.WouldBlock:  # it reads too slowly, and is told by the end of its events
                self._followers.discard(follower)
                follower.close()
        self.pulse()

    def _keep(self, event: JournalEntry) -> None:
        """Add an event to those in memory, and forget the oldest beyond their limits."""
        weight = len(pack_entry(event))
        self._ring.append(event)
        self._weights.append(weight)
        self._bytes += weight
        while len(self._ring) > RING_EVENTS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            self._ring.popleft()
            self._bytes -= self._weights.popleft()

    def pulse(self) -> None:
        """Wake those who wait for any change."""
        self._changed.set()
        self._changed = trio.Event()

    @property
    def changed(self) -> trio.Event:
        """Set at the next change: who takes it before a look misses nothing that happens during the look."""
        return self._changed

    async def wait_changed(self) -> None:
        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def follow(self, *, replay: bool = False) -> AsyncIterator[trio.MemoryReceiveChannel[JournalEntry]]:
        """All events from now on, after those in memory where asked. Ends early for a reader that falls far behind."""
        past = tuple(self._ring) if replay else ()
        send, receive = trio.open_memory_channel[JournalEntry](FOLLOWER_EVENTS + len(past))
        for event in past:
            send.send_nowait(event)
        self._followers.add(send)
        try:
            with send, receive:
                yield receive
        finally:
            self._followers.discard(send)

    async def wait_event(self, matches: Callable[[JournalEntry], bool]) -> JournalEntry:
        """The first event that matches, past ones in memory included."""
        async with self.follow(replay=True) as events:
            async for event in events:
                if matches(event):
                    return event
        raise RuntimeError("events came faster than they were looked at")
