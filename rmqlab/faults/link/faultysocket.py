"""A socket behind a bad network: replaces the real one while rules impair it.

It never blocks, as the real one does not, and calls its owner back when bytes arrive. Under a blackhole it does not
read what arrives, the end of the stream included, and keeps what is sent: so neither side sees a close. One thing is
not simulated: acknowledgements pass, so a blackhole in one direction does not stall the other.
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

from rmqlab.faults.link.netem import Impairment, LinkDirection
from rmqlab.runtime.net.timers import Timers

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE
ORPHAN_SECONDS: Final = 100.0
"""How long the system retransmits for a process that has closed (Linux: 8 attempts, about 100 s)."""
_PIECE: Final = 256 * 1024
_SO_BUF_LOCK: Final = 72
"""Linux's value; Python's socket module lacks it."""
_ABORT: Final = struct.pack("ii", 1, 0)

Callback = Callable[[int], None]


class FaultySocket:
    """Owns its socket from now on.

    `on_transparent` is called when the real socket would do as well.
    """

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        timers: Timers,
        *,
        on_transparent: "Callable[[FaultySocket], None]",
        on_gone: "Callable[[FaultySocket], None]",
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.raw = sock
        self.inbound, self.outbound = LinkDirection(), LinkDirection()
        self.is_lingering = False
        """True if its owner has closed it, and its peer must not see that yet."""
        self._selector = selector
        self._timers = timers
        self._on_transparent = on_transparent
        self._on_gone = on_gone
        self._now = now
        self._callback: Callback | None = None
        self._wanted = 0
        self._registered = 0
        self._is_full = False  # the system accepts no more at the moment
        self._timer_at = math.inf
        self._error: OSError | None = None
        self._closed_at: float | None = None
        self._own_window = 0  # the receive buffer before a fault made it small

    # ---- faults ----

    def set_impairments(self, inbound: Impairment, outbound: Impairment) -> None:
        """Apply these effects from now on."""
        now = self._now()
        self._set_window(inbound.window)
        self.inbound.set_impairment(inbound, now)
        self.outbound.set_impairment(outbound, now)
        if self._closed_at is not None and now - self._closed_at > ORPHAN_SECONDS and not outbound.is_blocked:
            self._abort()  # the system has aborted: the peer gets a reset for its next packet
        else:
            self._update()

    def reset(self) -> None:
        """Reset the connection: both sides get an error."""
        if self._error is None:
            self._error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._abort()
            self._call_at(self._now())

    def take_over(self, events: int, callback: Callback) -> None:
        """Watch these events instead of the real socket, which is no longer registered."""
        self._wanted, self._callback = events, callback
        self._update()

    def give_back(self) -> tuple[int, Callback | None]:
        """Stop watching.

        Return what the owner waits for and its callback, to register the real socket.
        """
        wanted, callback = self._wanted, self._callback
        self.unwatch()
        return wanted, callback

    # ---- called by the reactor ----

    def watch(self, events: int, callback: Callback) -> None:
        """Call back with those of these events that are ready."""
        self._wanted, self._callback = events, callback
        self._update()

    def unwatch(self) -> None:
        """Stop calling back."""
        self._wanted, self._callback = 0, None
        self._register(0)

    # ---- called by the owner, as of a real socket ----

    def recv(self, size: int) -> bytes:
        """As of a socket."""
        if self._error is not None:
            raise self._error
        now = self._now()
        if self.inbound.is_transparent(now):
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
        if self.outbound.is_transparent(self._now()):
            return self._send_directly(buffers)
        if self.outbound.impairment.is_reset:
            self.reset()
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        parts, room = list[bytes | memoryview](), self.outbound.room
        for buffer in buffers:
            parts.append(buffer[:room])
            room -= len(parts[-1])
            if not room:
                break
        data = b"".join(parts)  # a copy: the owner's buffers live for this pass only
        if not data:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self.outbound.push(data, self._now())
        self._update()
        return len(data)

    def close(self) -> None:
        """Close, but keep the system's connection open if the peer must not see it yet."""
        if self._closed_at is not None:
            return
        self._closed_at = self._now()
        if self._error is None and (self.outbound.impairment.is_blocked or self.outbound.size):
            self.is_lingering = True
            self.outbound.push_end(None, self._closed_at)
            self._update()
        elif self.inbound.is_cut:
            self._abort()  # the peer that was cut off gets a reset
        else:
            self._close_raw()

    def abandon(self) -> None:
        """Close at once, and drop bytes in flight."""
        self._closed_at = self._closed_at or self._now()
        self._close_raw()

    # ---- bytes ----

    def _send_directly(self, buffers: Sequence[bytes | memoryview]) -> int:
        try:
            return self.raw.sendmsg(buffers)
        except (BrokenPipeError, ConnectionResetError):
            if self.inbound.impairment.is_blocked:  # the close of the peer is not visible yet: act as if sent
                return sum(map(len, buffers))
            raise

    def _on_raw(self, events: int) -> None:
        now = self._now()
        ready = 0
        if events & READ:
            if self.inbound.is_transparent(now):
                ready |= READ
            else:
                self._pull_in(now)
        if events & WRITE:
            self._is_full = False
            if self.outbound.is_transparent(now):
                ready |= WRITE
        self._go_on(ready & self._wanted)

    def _pull_in(self, now: float) -> None:
        """Receive arrived bytes, or, under a blackhole, record that bytes arrived."""
        direction = self.inbound
        if direction.impairment.is_blocked:
            direction.lose(now)
            return
        if direction.impairment.is_reset:
            self.reset()
            return
        try:
            data = self.raw.recv(min(max(direction.room, 1), _PIECE))
        except BlockingIOError:
            return
        except OSError as exc:
            direction.push_end(exc, now)
            return
        if data:
            direction.push(data, now)
        else:
            direction.push_end(None, now)

    def _push_out(self, now: float) -> None:
        direction = self.outbound
        while not self._is_full and (piece := direction.take(_PIECE, now)) is not None:
            sent = 0
            try:
                sent = self.raw.send(piece)
            except BlockingIOError:
                self._is_full = True
            except OSError:  # the peer is gone: drop the rest; the owner notices when it reads
                direction.drop()
                return
            if sent < len(piece):
                direction.untake(piece[sent:], now)
                self._is_full = True
            if direction.impairment.segment:
                break  # the next one in a send of its own, a little later
        if direction.is_cut or (self.is_lingering and direction.is_ended(now)):
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
        """Send the bytes that are due, and call the owner back with the ready events."""
        if self.raw.fileno() >= 0:
            self._push_out(self._now())
        ready |= self._ready() & self._wanted
        if ready and self._callback is not None:
            self._callback(ready)
        if self._transparent_at() <= self._now():
            self._on_transparent(self)
        else:
            self._update()

    def _ready(self) -> int:
        """Return the events that are ready now."""
        if self._error is not None:
            return READ | WRITE
        now, ready = self._now(), 0
        if self.inbound.next_at() <= now or self.inbound.is_cut:
            ready |= READ
        if not self.outbound.is_transparent(now) and self.outbound.room:
            ready |= WRITE
        return ready

    def _transparent_at(self) -> float:
        """Return from when on the real socket does as well."""
        if self._error is not None or self._closed_at is not None:
            return math.inf
        return max(self.inbound.transparent_at(), self.outbound.transparent_at())

    def _update(self) -> None:
        """Wait for the next event: on the real socket, or at a time."""
        if self.raw.fileno() < 0:
            return
        self._register(self._raw_interest())
        if self._ready() & self._wanted:
            self._call_at(self._now())
        moment = math.inf if self._is_full else self.outbound.next_at()
        if self._wanted & READ:
            moment = min(moment, self.inbound.next_at())
        self._call_at(min(moment, self._transparent_at()))

    def _raw_interest(self) -> int:
        inbound, interest, now = self.inbound, 0, self._now()
        if self._closed_at is not None:
            pass
        elif inbound.is_transparent(now):
            interest |= self._wanted & READ
        elif inbound.impairment.is_blocked:
            interest |= 0 if inbound.is_anything_lost else READ
        elif inbound.room and not inbound.has_end and not inbound.is_cut:
            interest |= READ
        if self._is_full:
            interest |= WRITE
        elif self.outbound.is_transparent(now):
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

    def _set_window(self, window: int) -> None:
        """Make the receive buffer small, or as large as it was: 0."""
        if window == self.inbound.impairment.window or self.raw.fileno() < 0:
            return
        self._own_window = self._own_window or self.raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window or self._own_window)
        if not window:
            with contextlib.suppress(OSError):  # Linux before 5.14: the buffer no longer grows by itself
                self.raw.setsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK, 0)

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
