"""A socket behind a bad network: in the place of the real one for as long as rules want it.

It never blocks, as the real one does not, and calls its owner back when something comes out of the pipe. Under a
blackhole it does not look at what arrives, the end of the stream included, and keeps what is sent: so neither side
sees a close. One thing is not played: acknowledgements pass, so that a stream of which only the other direction is
a blackhole is not held up by it.
"""

import contextlib
import errno
import math
import os
import selectors
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

import trio

from rmqlab.runtime.netem import Impairment, LinkDirection
from rmqlab.runtime.timers import Timers

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE
ORPHAN_SECONDS: Final = 100.0
"""How long the system goes on sending for a process that has closed (Linux: 8 attempts, some 100 s)."""
_PIECE: Final = 256 * 1024
_ABORT: Final = struct.pack("ii", 1, 0)

Callback = Callable[[int], None]


class FaultySocket:
    """Owns its socket from now on. `on_straight` is called when the real one would do as well."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        timers: Timers,
        *,
        on_straight: "Callable[[FaultySocket], None]",
        on_gone: "Callable[[FaultySocket], None]",
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.raw = sock
        self.inbound, self.outbound = LinkDirection(), LinkDirection()
        self.is_lingering = False
        """Its owner has closed it, and its peer must not know yet."""
        self._selector = selector
        self._timers = timers
        self._on_straight = on_straight
        self._on_gone = on_gone
        self._now = now
        self._callback: Callback | None = None
        self._wanted = 0
        self._registered = 0
        self._is_full = False  # the system takes no more at the moment
        self._timer_at = math.inf
        self._error: OSError | None = None
        self._closed_at: float | None = None

    # ---- what rules want ----

    def set_impairments(self, inbound: Impairment, outbound: Impairment) -> None:
        """Do something else from now on."""
        now = self._now()
        self.inbound.set_impairments(inbound, now)
        self.outbound.set_impairments(outbound, now)
        if self._closed_at is not None and now - self._closed_at > ORPHAN_SECONDS and not outbound.is_blocked:
            self._abort()  # the system has given up long ago: the peer hears of it when it next says something
        else:
            self._update()

    def reset(self) -> None:
        """Reset the connection: either side gets an error."""
        if self._error is None:
            self._error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._abort()
            self._call_at(self._now())

    def take_over(self, events: int, callback: Callback) -> None:
        """Be watched instead of the real one, which is no longer registered."""
        self._wanted, self._callback = events, callback
        self._update()

    def give_back(self) -> tuple[int, Callback | None]:
        """What its owner waits for, and whom to call: the real one takes over, unregistered."""
        wanted, callback = self._wanted, self._callback
        self.unwatch()
        return wanted, callback

    # ---- what a reactor asks ----

    def watch(self, events: int, callback: Callback) -> None:
        """Call back with the events that are ready."""
        self._wanted, self._callback = events, callback
        self._update()

    def unwatch(self) -> None:
        """Call back no more."""
        self._wanted, self._callback = 0, None
        self._register(0)

    # ---- what an owner asks, as of a real socket ----

    def recv(self, size: int) -> bytes:
        """As of a socket."""
        if self._error is not None:
            raise self._error
        now = self._now()
        if self.inbound.is_straight(now):
            return self.raw.recv(size)
        data = self.inbound.take(size, now)
        if data is not None:
            return bytes(data)
        if not self.inbound.is_ended(now):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if self.inbound.error is not None:
            raise self.inbound.error
        return b""

    def recv_into(self, buffer: memoryview) -> int:
        """As of a socket."""
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: bytes | memoryview) -> int:
        """As of a socket."""
        return self.sendmsg([data])

    def sendmsg(self, buffers: Sequence[bytes | memoryview]) -> int:
        """As of a socket."""
        if self._error is not None:
            raise self._error
        if self.outbound.is_straight(self._now()):
            return self._send_straight(buffers)
        if self.outbound.shape.is_reset:
            self.reset()
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        sent = 0
        for buffer in buffers:
            part = bytes(buffer[: self.outbound.room])  # a copy: the owner's buffers live for this pass only
            if part:
                self.outbound.push(part, self._now())
                sent += len(part)
        if not sent:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._update()
        return sent

    def close(self) -> None:
        """Close. Where the peer must not hear of it yet, the system's side of the connection lives on."""
        if self._closed_at is not None:
            return
        self._closed_at = self._now()
        if self._error is None and (self.outbound.shape.is_blocked or self.outbound.size):
            self.is_lingering = True
            self.outbound.push_end(None, self._closed_at)
            self._update()
        elif self.inbound.is_cut:
            self._abort()  # who was cut off hears of it
        else:
            self._close_raw()

    def abandon(self) -> None:
        """Close at once, whatever is under way."""
        self._closed_at = self._closed_at or self._now()
        self._close_raw()

    # ---- bytes ----

    def _send_straight(self, buffers: Sequence[bytes | memoryview]) -> int:
        try:
            return self.raw.sendmsg(buffers)
        except (BrokenPipeError, ConnectionResetError):
            if self.inbound.shape.is_blocked:  # that the peer has gone is not known here: it is as if it were sent
                return sum(map(len, buffers))
            raise

    def _on_raw(self, events: int) -> None:
        now = self._now()
        ready = 0
        if events & READ:
            if self.inbound.is_straight(now):
                ready |= READ
            else:
                self._pull_in(now)
        if events & WRITE:
            self._is_full = False
            if self.outbound.is_straight(now):
                ready |= WRITE
        self._go_on(ready & self._wanted)

    def _pull_in(self, now: float) -> None:
        """Take what has arrived, or, under a blackhole, note that something did."""
        pipe = self.inbound
        if pipe.shape.is_blocked:
            pipe.lose(now)
            return
        if pipe.shape.is_reset:
            self.reset()
            return
        try:
            data = self.raw.recv(min(max(pipe.room, 1), _PIECE))
        except BlockingIOError:
            return
        except OSError as exc:
            pipe.push_end(exc, now)
            return
        if data:
            pipe.push(data, now)
        else:
            pipe.push_end(None, now)

    def _push_out(self, now: float) -> None:
        pipe = self.outbound
        while not self._is_full and (piece := pipe.take(_PIECE, now)) is not None:
            sent = 0
            try:
                sent = self.raw.send(piece)
            except BlockingIOError:
                self._is_full = True
            except OSError:  # the peer has gone: what is left goes nowhere, and reading tells the owner
                pipe.drop()
                return
            if sent < len(piece):
                pipe.untake(piece[sent:], now)
                self._is_full = True
            if pipe.shape.segment:
                break  # the next one in a send of its own, a little later
        if pipe.is_cut or (self.is_lingering and pipe.is_ended(now)):
            self._end_outbound()

    def _end_outbound(self) -> None:
        if self._error is None and not self.is_lingering:
            self._error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._call_at(self._now())
        self._close_raw()

    # ---- time and readiness ----

    def _on_time(self) -> None:
        self._timer_at = math.inf
        self._go_on(0)

    def _go_on(self, ready: int) -> None:
        """Move what is due, and call the owner back with what is ready besides."""
        if self.raw.fileno() >= 0:
            self._push_out(self._now())
        ready |= self._ready() & self._wanted
        if ready and self._callback is not None:
            self._callback(ready)
        if self._straight_at() <= self._now():
            self._on_straight(self)
        else:
            self._update()

    def _ready(self) -> int:
        """What comes out of the pipes now."""
        if self._error is not None:
            return READ | WRITE
        now, ready = self._now(), 0
        if self.inbound.next_at() <= now or self.inbound.is_cut:
            ready |= READ
        if not self.outbound.is_straight(now) and self.outbound.room:
            ready |= WRITE
        return ready

    def _straight_at(self) -> float:
        """From when on the real socket does as well."""
        if self._error is not None or self._closed_at is not None:
            return math.inf
        return max(self.inbound.straight_at(), self.outbound.straight_at())

    def _update(self) -> None:
        """Wait for what may happen next: at the real socket, or in time."""
        if self.raw.fileno() < 0:
            return
        self._register(self._raw_interest())
        if self._ready() & self._wanted:
            self._call_at(self._now())
        moment = math.inf if self._is_full else self.outbound.next_at()
        if self._wanted & READ:
            moment = min(moment, self.inbound.next_at())
        self._call_at(min(moment, self._straight_at()))

    def _raw_interest(self) -> int:
        inbound, interest, now = self.inbound, 0, self._now()
        if self._closed_at is not None:
            pass
        elif inbound.is_straight(now):
            interest |= self._wanted & READ
        elif inbound.shape.is_blocked:
            interest |= 0 if inbound.is_anything_lost else READ
        elif inbound.room and not inbound.has_end and not inbound.is_cut:
            interest |= READ
        if self._is_full:
            interest |= WRITE
        elif self.outbound.is_straight(now):
            interest |= self._wanted & WRITE
        return interest

    def _register(self, interest: int) -> None:
        if interest == self._registered:
            return
        if not interest:
            self._selector.unregister(self.raw)
        elif not self._registered:
            self._selector.register(self.raw, interest, self._on_raw)
        else:
            self._selector.modify(self.raw, interest, self._on_raw)
        self._registered = interest

    def _call_at(self, moment: float) -> None:
        if moment < self._timer_at:
            self._timer_at = moment
            self._timers.call_at(moment, self._on_time)

    def _abort(self) -> None:
        with contextlib.suppress(OSError):
            self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._close_raw()

    def _close_raw(self) -> None:
        if self.raw.fileno() >= 0:
            self._register(0)
            self.raw.close()
        if self._closed_at is not None:
            self._on_gone(self)
