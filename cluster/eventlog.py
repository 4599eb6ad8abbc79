"""What happened in a cluster, in the order in which the supervisor learnt it: kept, written down, followed.

The journal is a file of msgpack maps, one per event: `v` (1), `at` (milliseconds of the cluster's clock), `node`
(empty for the cluster itself), `kind`, `fields`. It may end in the middle of a map: who reads it stops there.
"""

import collections
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgpack
import trio

VERSION = 1
RING_EVENTS = 20_000
MESSAGE_KINDS = frozenset({"sent", "delivered", "attempt_failed"})
"""Events of single messages: there may be thousands a second."""
FOLLOWER_EVENTS = 20_000


@attrs.frozen
class Recorded:
    """One event."""

    at_millis: int
    node: str
    kind: str
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Flat. A field of the name of a column gives way to it."""
        columns = {"at": self.at_millis, "node": self.node, "kind": self.kind}
        return {**columns, **self.fields, **columns}


@attrs.define(eq=False)
class EventLog:
    """The latest events in memory, all of them in the journal. Iterating gives those in memory, oldest first."""

    journal: int | None = None
    """A file descriptor to append to."""
    _ring: collections.deque[Recorded] = attrs.field(factory=lambda: collections.deque(maxlen=RING_EVENTS), init=False)
    _followers: set[trio.MemorySendChannel[Recorded]] = attrs.field(factory=set, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __iter__(self) -> Iterator[Recorded]:
        return iter(tuple(self._ring))

    def record(self, event: Recorded) -> None:
        self._ring.append(event)
        if self.journal is not None:
            os.write(self.journal, journal_entry(event))
        for follower in tuple(self._followers):
            try:
                follower.send_nowait(event)
            except trio.WouldBlock:  # it reads too slowly, and is told by the end of its events
                self._followers.discard(follower)
                follower.close()
        self.pulse()

    def pulse(self) -> None:
        """Wake those who wait for any change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_changed(self) -> None:
        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def follow(self, *, replay: bool = False) -> AsyncIterator[trio.MemoryReceiveChannel[Recorded]]:
        """All events from now on, after those in memory where asked. Ends early for a reader that falls far behind."""
        past = tuple(self._ring) if replay else ()
        send, receive = trio.open_memory_channel[Recorded](FOLLOWER_EVENTS + len(past))
        for event in past:
            send.send_nowait(event)
        self._followers.add(send)
        try:
            with send, receive:
                yield receive
        finally:
            self._followers.discard(send)

    async def wait_event(self, matches: Callable[[Recorded], bool]) -> Recorded:
        """The first event that matches, past ones in memory included."""
        async with self.follow(replay=True) as events:
            async for event in events:
                if matches(event):
                    return event
        raise RuntimeError("events came faster than they were looked at")


def journal_entry(event: Recorded) -> bytes:
    entry = {"v": VERSION, "at": event.at_millis, "node": event.node, "kind": event.kind, "fields": event.fields}
    packed: bytes = msgpack.packb(entry, default=str)
    return packed


def open_journal(path: Path) -> int:
    """Begin a new journal; that of the last time is kept beside it as `.old`."""
    if path.exists():
        path.replace(path.with_name(path.name + ".old"))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def read_journal(data: bytes) -> Iterator[Recorded]:
    """The events of a journal, up to its end or to where it is torn."""
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    with contextlib.suppress(ValueError, KeyError, TypeError, msgpack.UnpackException):
        for entry in unpacker:
            yield Recorded(entry["at"], entry["node"], entry["kind"], entry["fields"])
