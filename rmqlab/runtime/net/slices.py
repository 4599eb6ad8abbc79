"""Long requests in slices, so that they do not delay other requests.

Such requests cover all queues of a topic, all groups, or all topics of a broker. A handler that may take long is a
generator: it yields after each unit of work, of some 10 us, and returns its reply. The first slice runs at once, so
that most requests are served within their pass. Between later slices, sockets, timers and tasks are served; only one
such request is continued at a time (issue 12.6).
"""

import collections
import functools
from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

import attrs

from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.frame import MAX_FRAME
from rmqlab.remoting.header import HeaderError
from rmqlab.runtime import stopwatch
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.dispatch import OVERLOAD, Refusal, Reply, Request, failed

UNITS_AT_ONCE = 500
SECONDS_AT_ONCE = 0.005
"""By stopwatch.wall: a unit may have to read from the disk."""
MAX_WAITING = 100
"""Requests that wait for their next slice, at most."""

Work = Generator[None, None, Reply]
Later = Callable[[Callable[[], None]], None]
"""Calls a function once sockets, timers and tasks had their turn, as `Reactor.again` does."""


@attrs.define(eq=False)
class Slices:
    """Continues long requests, one after the other."""

    later: Later
    errors: InternalErrors
    _waiting: collections.deque[tuple[Work, Request]] = attrs.field(factory=collections.deque, init=False)

    def begin(self, work: Work, request: Request) -> Reply | None:
        """Run the first slice.

        Return the reply if that was all. Raises Refusal if too many others wait.
        """
        if (reply := _slice(work)) is not None:
            return reply
        if len(self._waiting) >= MAX_WAITING:
            work.close()
            raise Refusal(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self._waiting.append((work, request))
        if len(self._waiting) == 1:
            self.later(self._continue)
        return None

    def _continue(self) -> None:
        work, request = self._waiting[0]
        reply = None if request.channel.is_closed else self._next(work, request)
        if reply is not None:
            request.reply(reply)
        is_over = reply is not None or request.channel.is_closed
        if is_over:
            self._waiting.popleft()
        if self._waiting:
            self.later(self._continue)
        if is_over:
            work.close()  # others may wait until its turn ends

    def _next(self, work: Work, request: Request) -> Reply | None:
        try:
            return _slice(work)
        except Refusal as exc:
            return Reply(exc.code, remark=str(exc))
        except (HeaderError, BodyError) as exc:
            return failed(request.command, str(exc))
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught(f"request {request.command.code}", exc, f"from {request.channel.peer}")
            return failed(request.command, f"{type(exc).__name__}: {exc}")


@attrs.define(eq=False)
class Parts:
    """Parts of a reply, encoded one by one.

    Raises Refusal if they exceed the size of a frame.
    """

    _parts: list[bytes] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)

    def add(self, part: bytes) -> None:
        """Append a part."""
        self._size += len(part)
        if self._size > MAX_FRAME:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the reply would exceed the frame limit of {MAX_FRAME} bytes")
        self._parts.append(part)

    def joined(self) -> bytes:
        """Return the parts with commas between them."""
        return b",".join(self._parts)


def _slice(work: Work) -> Reply | None:
    """Run some units. Return the reply if the generator has ended."""
    until = stopwatch.wall() + SECONDS_AT_ONCE
    try:
        for _ in range(UNITS_AT_ONCE):
            next(work)
            if stopwatch.wall() > until:
                break
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    return None


class HasSlices(Protocol):
    """The part of a server's state that a sliced handler needs."""

    @property
    def slices(self) -> "Slices": ...


B = TypeVar("B", bound=HasSlices)
H = TypeVar("H")


def in_slices(handle: Callable[[B, H, Request], Work]) -> Callable[[B, H, Request], Reply | None]:
    """Return a handler that runs a generator in slices."""

    @functools.wraps(handle)
    def begin(state: B, header: H, request: Request) -> Reply | None:
        return state.slices.begin(handle(state, header, request), request)

    return begin
