"""The process's end of the control channel to its supervisor.

Records the events of the process in its journal, sends them to the supervisor, and replies to its requests
(`rmqlab.runtime.node.controlmessages`).
"""

import collections
import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import attrs
import trio

from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.bounds import EVENT, SNAPSHOT, bounded, bounded_fields, cut_text
from rmqlab.runtime.clock import cluster_millis
from rmqlab.runtime.identity import process_id
from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS, JournalEntry
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.runtime.node.controlmessages import (
    CONTROL,
    Event,
    Hello,
    LogMark,
    Message,
    Ready,
    RulesSet,
    SetRules,
    Snapshot,
    SnapshotRequest,
    Stopping,
)
from rmqlab.runtime.node.event_budget import LIMITED_KINDS, RATE, EventBudget
from rmqlab.runtime.node.mapcodec import ControlError
from rmqlab.runtime.node.mapstream import receive_messages
from rmqlab.runtime.text.printable import printable

log = logging.getLogger(__name__)

MAX_QUEUED_EVENTS = 10_000
MAX_QUEUED_BYTES = 16 * 2**20
"""Maximum bytes of events that wait for a slow supervisor."""


@attrs.define(eq=False)
class ControlLink:
    """The process's end of the channel.

    Its methods never block; call them in the trio thread only.

    Every event is appended to the process's journal. The supervisor receives all events except those of single
    messages, which are counted in the snapshot. Without a supervisor (`limit=0`) events are logged.
    """

    name: str = "standalone"
    limit: int = MAX_QUEUED_EVENTS
    journal: JournalWriter | None = None
    faults: NodeFaults = attrs.field(factory=NodeFaults)
    """The fault rules of the process, which the supervisor sends."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """The internal errors of the process: part of every snapshot."""
    on_snapshot: list[Callable[[], Mapping[str, object]]] = attrs.field(factory=list, init=False)
    """Functions that return the live facts of parts of the process: plain values, fast, without side effects."""
    is_ready: bool = attrs.field(default=False, init=False)
    is_stopping: bool = attrs.field(default=False, init=False)
    _replies: collections.deque[bytes] = attrs.field(factory=collections.deque, init=False)
    _events: collections.deque[bytes] = attrs.field(factory=collections.deque, init=False)
    _queued_bytes: int = attrs.field(default=0, init=False)
    _ready: bytes = attrs.field(default=b"", init=False)
    _dropped: int = attrs.field(default=0, init=False)
    _counts: collections.Counter[str] = attrs.field(factory=collections.Counter, init=False)
    _budget: EventBudget = attrs.field(factory=EventBudget, init=False)
    _left_out: collections.Counter[str] = attrs.field(factory=collections.Counter, init=False)
    _appended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _queued: trio.Event = attrs.field(factory=trio.Event, init=False)
    _written: trio.Event = attrs.field(factory=trio.Event, init=False)

    def emit(self, kind: str, **fields: object) -> None:
        """Record an event of a kind that `rmqlab.runtime.journals.schema` lists.

        If the supervisor is too slow, the oldest events are dropped and their number is reported. Never raises, because
        events are emitted everywhere, with fields from peers.
        """
        try:
            self._record(kind, fields)
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught("event", exc, kind)

    def _record(self, kind: str, all_fields: dict[str, object]) -> None:
        at_millis, fields = cluster_millis(), bounded_fields(all_fields)
        if self.journal is not None:
            if kind not in LIMITED_KINDS:
                self.journal.append(JournalEntry(at_millis, self.name, kind, fields))
            elif self._budget.admits(kind, at_millis):
                self._budget.spend(kind, self.journal.append(JournalEntry(at_millis, self.name, kind, fields)))
            else:
                self._leave_out(self.journal, kind)
                return
            self._appended.set()
        if kind in MESSAGE_KINDS:
            self._counts[f"{kind}.{outcome}" if (outcome := fields.get("outcome")) else kind] += 1
        elif self.limit == 0:
            text = " ".join(f"{key}={value}" for key, value in fields.items())
            log.info("%s %s", kind, text, extra={"group": kind})
        else:
            self._queue_event(Event(at_millis, kind, fields))

    def _leave_out(self, journal: JournalWriter, kind: str) -> None:
        """Leave out an event that exceeds the budget of its kind: its number is missing."""
        journal.skip()
        self._left_out[kind] += 1
        if self._left_out[kind] == 1:
            log.warning("too many events of kind %s: the journal lacks those above %d bytes/s", kind, RATE)

    def _queue_event(self, event: Event) -> None:
        encoded = CONTROL.encode(event)
        self._events.append(encoded)
        self._queued_bytes += len(encoded)
        while len(self._events) > self.limit or self._queued_bytes > MAX_QUEUED_BYTES:
            self._queued_bytes -= len(self._events.popleft())
            self._dropped += 1
        self._wake()

    async def write_journal_forever(self) -> NoReturn:
        """Flush the journal after each pass of the event loop that appended to it."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            if self.journal is not None:
                self.journal.flush()

    def ready(self, **facts: object) -> None:
        """Report that this process serves, which the supervisor waits for. Call it once."""
        self.is_ready = True
        log.info("ready %s", " ".join(f"{key}={value}" for key, value in facts.items()))
        if self.limit:
            self._ready = CONTROL.encode(Ready(bounded(facts, EVENT)))
            self._wake()

    def stopping(self) -> None:
        """Report that this process is stopping, so that it no longer counts as ready.

        Idempotent.
        """
        if self.limit and not self.is_stopping:
            self._replies.append(CONTROL.encode(Stopping()))
            self._wake()
        self.is_stopping = True

    async def attend(self, stream: trio.abc.Stream) -> None:
        """Exchange messages with the supervisor until the stream ends."""
        self._replies.appendleft(CONTROL.encode(Hello(self.name, process_id())))
        with self.faults.observing_spent(lambda fault: self.emit("fault_spent", id=fault)):
            await self._exchange(stream)

    async def _exchange(self, stream: trio.abc.Stream) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_forever, stream)
                try:
                    await receive_messages(stream, CONTROL, self._handle)
                except ControlError as exc:  # the rest of the stream cannot be decoded: treat it as ended
                    self.errors.caught("control message", exc)
                nursery.cancel_scope.cancel()
        finally:
            self.limit = 0  # from now on events are logged
            self._written.set()

    async def wait_written(self) -> None:
        """Wait until everything queued is sent to the supervisor."""
        while not self._written.is_set():
            await self._written.wait()

    def take(self) -> bytes:
        """Remove and return the bytes to send.

        First replies, because the supervisor waits for them, then events, then Ready.
        """
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self._replies.append(CONTROL.encode(Event(cluster_millis(), "events_dropped", {"count": lost})))
        data = b"".join((*self._replies, *self._events, self._ready))
        self._replies.clear()
        self._events.clear()
        self._queued_bytes = 0
        self._ready = b""
        return data

    def _handle(self, message: Message) -> None:
        match message:
            case SnapshotRequest(id=number):
                self._replies.append(self._encode_snapshot(number))
            case SetRules(id=number, rules=rules):
                self.errors.call("fault rules", self.faults.set, rules)
                self._replies.append(CONTROL.encode(RulesSet(number)))
            case LogMark(text=text):
                log.info("mark: %s", printable(cut_text(text, EVENT.text)))
            case _:
                raise ControlError(f"unexpected {type(message).__name__} from the supervisor")
        self._wake()

    def _encode_snapshot(self, number: int) -> bytes:
        try:
            return CONTROL.encode(Snapshot(number, bounded(self.snapshot(), SNAPSHOT)))
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught("snapshot", exc)
            return CONTROL.encode(Snapshot(number, {"error": cut_text(repr(exc), EVENT.text)}))

    def snapshot(self) -> dict[str, Any]:
        """Return internal errors, the counts of message events, and the live facts.

        In this order: one that is too large for its message loses its last members.
        """
        facts: dict[str, Any] = {}
        try:
            for source in self.on_snapshot:
                facts.update(source())
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught("snapshot", exc)
            facts = {"error": cut_text(repr(exc), EVENT.text)}
        counts = {"internal_errors": dict(self.errors.counts), "messages": dict(self._counts)}
        return {name: count for name, count in counts.items() if count} | facts

    def _wake(self) -> None:
        if self._written.is_set():
            self._written = trio.Event()
        self._queued.set()

    async def _write_forever(self, stream: trio.abc.SendStream) -> NoReturn:
        try:
            while True:
                while data := self.take():
                    await stream.send_all(data)
                self._written.set()
                self._queued = trio.Event()
                await self._queued.wait()
        except trio.BrokenResourceError:
            await trio.sleep_forever()  # the reader detects the end of the stream and ends `attend`
