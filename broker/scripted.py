"""For tests: stand-ins of a broker's clock, peers, tasks and replication."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from rmqlab.broker.ha.settings import HaSettings
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.command import ONEWAY, Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.dispatch import Buffer
from rmqlab.runtime.net.remoting_errors import RequestTimeoutError


@attrs.define(eq=False)
class ScriptedClock:
    """A clock that a test sets: its seconds and milliseconds advance together."""

    seconds: float = 1000.0
    wall_epoch_millis: int = 1_800_000_000_000

    def now(self) -> float:
        """Seconds, as for deadlines."""
        return self.seconds

    def now_millis(self) -> int:
        """Wall time in ms."""
        return self.wall_epoch_millis + int(self.seconds * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@attrs.define(eq=False)
class RecordingRegistration:
    """Stand-in for a Registration: records registrations."""

    config: Any
    ha_address: str
    calls: list[tuple[str | None, bool]] = attrs.field(factory=list)
    """Topic, oneway."""

    registered: set[str] = attrs.field(factory=set)
    """Addresses of nameservers."""
    is_slow: bool = False
    pending: list[Callable[[], None]] = attrs.field(factory=list)
    """What is called once the nameservers have replied, if they are slow."""

    def register_soon(
        self, topic: str | None = None, *, oneway: bool = False, then: Callable[[], None] = lambda: None
    ) -> None:
        """Record it, and call `then` at once, unless the nameservers are slow."""
        self.calls.append((topic, oneway))
        if self.is_slow:
            self.pending.append(then)
        else:
            then()


@attrs.define(eq=False)
class RecordingReplication:
    """Stand-in for both sides of replication and for AppendFollowUp."""

    settings: HaSettings
    has_slave: bool = False
    acknowledged: dict[int, int] = attrs.field(factory=dict)
    """Offsets by number of copies. A test sets it, and then lets the waiting sends advance."""
    appends: int = 0

    def replace_settings(self, settings: HaSettings) -> None:
        """Note them."""
        self.settings = settings

    def is_slave_ok(self, _record_end: int, _copies: int) -> bool:
        """As the test has set it."""
        return self.has_slave

    def has_enough(self, _copies: int) -> bool:
        """As the test has set it."""
        return self.has_slave

    def copied_offset(self, copies: int) -> int:
        """As the test has set it; -1 by default."""
        return self.acknowledged.get(copies, -1)

    def explain(self, _record_end: int, _copies: int) -> str | None:
        """As 4.9: without a cause."""
        return None

    def snapshot(self) -> dict[str, object]:
        """Without connections."""
        return {}

    def appended(self, size: int = 0) -> None:  # noqa: ARG002 -- as AppendFollowUp.appended
        """Note it."""
        self.appends += 1


@attrs.define(eq=False)
class ScriptedPeer:
    """Stand-in for a Channel: records frames, replies to requests from a script."""

    peer: str = "127.0.0.1:50001"
    scripted_replies: dict[int, Command] = attrs.field(factory=dict)
    """Replies by request code. Requests of other codes time out."""
    replies: list[Command] = attrs.field(factory=list)
    asked: list[Command] = attrs.field(factory=list)
    """Requests of the broker, oneway ones too."""
    is_closed: bool = False
    is_congested: bool = False
    drained: list[Callable[[], None]] = attrs.field(factory=list)
    close_reason: str | None = None
    _decoder: FrameDecoder = attrs.field(factory=FrameDecoder, init=False)

    def write(self, *buffers: Buffer) -> None:
        """Decode frames of replies."""
        for frame in self._decoder.feed(b"".join(map(bytes, buffers))):
            self.replies.append(decode_command(frame))

    def when_drained(self, fn: Callable[[], None]) -> None:
        """Note it."""
        self.drained.append(fn)

    def send_oneway(self, command: Command) -> None:
        """Record a oneway request."""
        command.flag |= ONEWAY
        self.asked.append(over_the_wire(command))

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - the real one's form
        """Return the scripted reply, or raise RequestTimeoutError."""
        self.asked.append(over_the_wire(command))
        reply = self.scripted_replies.get(command.code)
        if reply is None:
            raise RequestTimeoutError(f"{self.peer} did not reply within {timeout:g} s")
        return reply

    def close(self, reason: str) -> None:
        """Note it."""
        self.is_closed, self.close_reason = True, reason


def over_the_wire(command: Command) -> Command:
    """Encode and decode a command, as its receiver gets it."""
    (frame,) = FrameDecoder().feed(encode_command(command))
    return decode_command(frame)


@attrs.define(eq=False)
class ScriptedPass:
    """Stand-in for a reactor, whose pass began now or as long ago as the test sets."""

    waited: float = 0.0
    """Seconds of the wall's time."""
    worked: float = 0.0
    """Seconds of this thread's work."""

    @property
    def pass_began(self) -> float:
        """Begin of the pass in wall time."""
        return stopwatch.wall() - self.waited

    @property
    def pass_began_cpu(self) -> float:
        """Begin of the pass in the thread's CPU time."""
        return stopwatch.cpu() - self.worked


@attrs.define(eq=False)
class ScriptedTasks:
    """Stand-in for BackgroundTasks: collects tasks, or runs each to its end."""

    runs_at_once: bool = False
    """For tests that are no coroutines."""
    started: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...]]] = attrs.field(factory=list)

    def start_soon(self, fn: Callable[..., Awaitable[object]], /, *args: object) -> None:
        """Run it, or leave it to `run_all`."""
        if self.runs_at_once:
            trio.run(fn, *args)
        else:
            self.started.append((fn, args))

    async def run_all(self) -> None:
        """Run the collected tasks to their ends."""
        started, self.started = self.started, []
        async with trio.open_nursery() as nursery:
            for fn, args in started:
                nursery.start_soon(fn, *args)


@attrs.define(eq=False)
class ScriptedTurns:
    """Stand-in for Reactor.again: calls at once, or collects the calls."""

    is_collecting: bool = False
    waiting: list[Callable[[], None]] = attrs.field(factory=list)

    def later(self, fn: Callable[[], None]) -> None:
        """Call it, or leave it to `run_all`."""
        if self.is_collecting:
            self.waiting.append(fn)
        else:
            fn()

    def run_all(self) -> int:
        """Run all turns, also those added meanwhile; return their number."""
        turns = 0
        while self.waiting:
            self.waiting.pop(0)()
            turns += 1
        return turns
