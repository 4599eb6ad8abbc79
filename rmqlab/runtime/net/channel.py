"""A channel: one TCP connection for commands in both directions.

Bytes written during a pass of the event loop are sent together at its end. The bytes owed to a peer are those written
but not yet sent: above a limit the channel serves no further request of that peer, neither received nor unread ones.
Requests are served in portions, so that one peer does not delay the others (issue 12.6).
"""

import logging
import socket
from collections.abc import Callable

import trio

from rmqlab.remoting.codec import decode_command, encode_command, encode_head
from rmqlab.remoting.command import ONEWAY, Command
from rmqlab.remoting.frame import ForeignProtocolError, Frame, FrameDecoder, RemoteProtocolError
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.address import address_text
from rmqlab.runtime.net.channel_limits import (
    FRAMES_AT_ONCE,
    HIGH_WATER,
    MAX_OWED,
    MAX_PARKED,
    PARKED_COST,
    PASS_SECONDS,
    PROCESS_HIGH_WATER,
    PROCESS_MAX_BUFFERED,
    PROCESS_MAX_KEPT,
    PROCESS_MAX_OWED,
    PROCESS_MAX_PARKED,
    RECEIVE_SIZE,
    SCARCE_HIGH_WATER,
    SCARCE_MAX_PARKED,
    SCARCE_RECEIVE,
    SECONDS_AT_ONCE,
)
from rmqlab.runtime.net.dispatch import Buffer, Request
from rmqlab.runtime.net.fault_hooks import Transport
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.open_requests import OnReply, OpenRequests
from rmqlab.runtime.net.reactor import READ, WRITE, Reactor
from rmqlab.runtime.net.receive_size import ReceiveSize
from rmqlab.runtime.net.remoting_errors import ConnectionLostError, RequestTimeoutError
from rmqlab.runtime.net.sendbuffer import SendBuffer
from rmqlab.runtime.text.time_text import no_response

log = logging.getLogger(__name__)


class Channel:
    """Passes a peer's requests to `serve`, and its responses to their callbacks."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        serve: "Callable[[Channel, Command], Request | None]",
        *,
        meter: Meter | None = None,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.peer = address_text(sock.getpeername())
        self.local = address_text(sock.getsockname())
        self.on_close: list[Callable[[], None]] = []
        self.is_closed = False
        self.close_reason: str | None = None
        self.last_active_at = now()
        """Time of the last send or receive, in seconds of the process's clock."""
        self._now = now
        self._meter = meter or reactor.meter
        self._reactor = reactor
        self._serve = serve
        self._decoder = FrameDecoder()
        self._receive_size = ReceiveSize()
        self._kept: list[Frame] = []  # received frames that wait to be served
        self.has_spoken = self._has_ended = self._is_resuming = self._is_dirty = False  # spoken: sent a whole frame
        self._buffered = 0  # bytes of an incomplete frame, included in the reactor's total
        self._out = SendBuffer()
        self._owed = self._parked = 0
        self._on_drained: list[Callable[[], None]] = []
        self._interest = READ
        self._requests = OpenRequests()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = reactor.links.attach(self, sock)
        reactor.register(self._sock, READ, self._on_ready)

    def __repr__(self) -> str:
        return f"<Channel {self.local} {self.peer}{' closed' if self.is_closed else ''}>"

    # -- sending ---------------------------------------------------------------------------------

    def write(self, *buffers: Buffer) -> None:
        """Send buffers at the end of this pass. On a closed channel they are dropped.

        Views must stay valid until the end of the pass: unsent ones are then copied.
        """
        if self.is_closed:
            return
        self._out.buffers += buffers
        size = sum(map(len, buffers))
        self._owed += size
        self._reactor.owed += size
        if not self._is_dirty:
            self._is_dirty = True
            self._reactor.defer(self._flush)

    @property
    def is_congested(self) -> bool:
        """True while bytes owed to the peer should delay large replies (`when_drained`)."""
        limit = HIGH_WATER if self._reactor.owed < PROCESS_HIGH_WATER else SCARCE_HIGH_WATER
        return self._owed >= limit

    def when_drained(self, fn: Callable[[], None]) -> None:
        """Call `fn` once, in a later pass, when the channel can serve (and is open)."""
        self._on_drained.append(fn)

    def send_oneway(self, command: Command) -> None:
        """Send a oneway request: it has no response."""
        command.opaque = self._requests.next_opaque()
        command.flag |= ONEWAY
        self.write(encode_head(command, len(command.body)))
        if command.body:
            self.write(command.body)  # as its own buffer, which can be shared between peers

    def send_request(self, command: Command, on_reply: OnReply) -> int:
        """Send a request and return its opaque, for `forget`.

        Calls back with the response, or with None if the channel closes first.
        """
        command.opaque = self._requests.next_opaque()
        if self.is_closed:
            on_reply(None)
        else:
            self._requests.callbacks[command.opaque] = on_reply
            self.write(encode_command(command))
        return command.opaque

    def forget(self, opaque: int) -> None:
        """Stop waiting for a response; a late response is dropped (remoting#9)."""
        self._requests.callbacks.pop(opaque, None)

    async def request(self, command: Command, timeout: float, whole: float | None = None) -> Command:  # noqa: ASYNC109 - the timeout is the protocol's, and names itself in the error, as by `time_text`
        """Return the response. ConnectionLostError, RequestTimeoutError without one."""
        answered = trio.Event()
        got: list[Command | None] = []

        def on_reply(response: Command | None) -> None:
            got.append(response)
            answered.set()

        opaque = self.send_request(command, on_reply)
        with trio.move_on_after(timeout):
            await answered.wait()
        if not got:
            self.forget(opaque)
            raise RequestTimeoutError(f"{self.peer}: {no_response(command.code, timeout, whole)}")
        if got[0] is None:
            raise ConnectionLostError(f"connection to {self.peer} closed before the response: {self.close_reason}")
        return got[0]

    def replace_transport(self, sock: Transport) -> None:
        """Use this transport instead of the current one, when a fault begins or ends."""
        self._sock = sock

    # -- life ------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Call pending requests back with None, then the `on_close` functions."""
        if self.is_closed:
            return
        self.is_closed = True
        self.close_reason = reason
        self._reactor.unregister(self._sock)
        self._sock.close()
        self._decoder, self._out = FrameDecoder(), SendBuffer()
        self._keep([])
        self._on_drained.clear()
        self._reactor.owed -= self._owed
        self._reactor.buffered -= self._buffered
        self._reactor.parked -= self._parked
        self._owed = self._buffered = self._parked = 0
        errors = self._reactor.errors
        self._requests.fail_all(errors)
        # These functions refer to the channel: a reference cycle, which only the garbage collector would free. That
        # rarely runs in an idle process.
        on_close, self.on_close = self.on_close, []
        for fn in on_close:
            errors.call("on_close", fn)

    def _on_ready(self, events: int) -> None:
        try:
            if not events:  # a reset is reported even if no events are watched, again in each pass
                self.close("reset by the peer")
            if events & WRITE:
                self._flush()
            if events & READ and not self.is_closed:
                self._receive()
        except Exception as exc:  # noqa: BLE001 - a boundary, such as for MemoryError: an open socket would stay ready
            self._fail("received bytes", exc)

    def _receive(self) -> None:
        try:
            size = SCARCE_RECEIVE if self._reactor.kept >= PROCESS_MAX_KEPT else self._receive_size.bytes
            data = self._sock.recv(max(size, min(self._decoder.missing, RECEIVE_SIZE)))
        except BlockingIOError:
            return
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        if not data:
            self._end()
            return
        self.last_active_at = self._now()
        self._meter.received += len(data)
        try:
            frames = self._decoder.feed(data)
        except RemoteProtocolError as exc:
            self._reject(exc)
            return
        self._receive_size.fit(len(data), len(frames))
        if self._decoder.buffered != self._buffered and not self._count_buffered():
            return
        if self._kept:  # this event was selected before the channel stopped reading
            self._keep(self._kept + frames)
        else:
            self._serve_frames(frames)

    def _end(self) -> None:
        """Close at the peer's end of stream, once it has what it is owed."""
        if self._requests.callbacks or not (self._out.buffers or self._kept):  # their responses will not come
            self.close("closed by the peer")
        elif not self._kept:  # otherwise the end is read again later
            self._has_ended = True
            self._follow_up()

    def _count_buffered(self) -> bool:
        """Count incomplete frames; above the process's limit, close and return False."""
        buffered = self._decoder.buffered
        grown, self._buffered = buffered - self._buffered, buffered
        self._reactor.buffered += grown
        if grown > 0 and self._reactor.buffered > PROCESS_MAX_BUFFERED:
            self._evict(f"{self._reactor.buffered} bytes of incomplete frames are too many for this process")
        return not self.is_closed

    def _serve_frames(self, frames: list[Frame]) -> None:
        """Serve a portion of the frames; keep the others until a later pass."""
        served, until = 0, stopwatch.wall() + min(SECONDS_AT_ONCE, PASS_SECONDS / self._reactor.sharers)
        self._reactor.serves_one = len(frames) == self._reactor.sharers == 1
        try:
            for frame in frames:
                is_near_limit = self._owed >= SCARCE_HIGH_WATER or self._parked >= SCARCE_MAX_PARKED
                is_enough = served == FRAMES_AT_ONCE or (served and stopwatch.wall() > until)
                if is_enough or (is_near_limit and not self._may_serve):
                    break
                served += 1
                self.has_spoken = True
                command = decode_command(frame)
                if command.flag & 1:
                    on_reply = self._requests.callbacks.pop(command.opaque, None)
                    if on_reply is not None:
                        on_reply(command)
                else:
                    parked = self._serve(self, command)
                    if parked is not None:
                        self._park(parked, PARKED_COST + len(frame.header) + len(command.body))
                if self.is_closed:
                    return
        except RemoteProtocolError as exc:
            self._reject(exc)
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._fail("received frame", exc)
        else:
            if served < len(frames):
                self._keep(frames[served:])
                self._follow_up()

    def _keep(self, frames: list[Frame]) -> list[Frame]:
        """Keep these frames until a later pass, instead of those that it returns."""
        former, self._kept = self._kept, frames
        self._reactor.kept += len(frames) - len(former)
        return former

    @property
    def _may_serve(self) -> bool:
        """False while too many bytes are owed or too many of its requests are parked."""
        if self._owed >= SCARCE_HIGH_WATER and self.is_congested:
            return False
        limit = MAX_PARKED if self._reactor.parked < PROCESS_MAX_PARKED else SCARCE_MAX_PARKED
        return self._parked < limit

    def _park(self, request: Request, size: int) -> None:
        request.parked_size = size
        self._parked += size
        self._reactor.parked += size

    def unpark(self, request: Request) -> None:
        """Remove a parked request from the totals: it is replied to, or needs no reply."""
        size, request.parked_size = request.parked_size, 0
        if not self.is_closed:
            self._parked -= size
            self._reactor.parked -= size
            if self._kept or not self._interest & READ:
                self._reactor.defer(self._follow_up)

    def _resume(self) -> None:
        """Serve the next portion of the kept frames."""
        self._is_resuming = False
        frames = self._keep([])
        if frames and not self.is_closed:
            self._serve_frames(frames)
            self._follow_up()

    def _reject(self, exc: RemoteProtocolError) -> None:
        if not isinstance(exc, ForeignProtocolError):
            log.warning("%s violated the protocol: %s", self.peer, exc)
        elif self._reactor.foreign_hosts.is_first(self.peer):
            log.warning("%s sent %s", self.peer, exc)
        self.close(f"protocol error: {exc}")

    def _evict(self, reason: str) -> None:
        self._reactor.evictions.note("closed", self.peer, reason, self._now())
        self.close(reason)

    def _fail(self, place: str, exc: Exception) -> None:
        """Close after an unexpected exception, which leaves the state undefined.

        First, because to log it may fail, too, when no memory is left.
        """
        self.close(f"{type(exc).__name__}: {exc}")
        self._reactor.errors.caught(place, exc, self.peer)

    def _flush(self) -> None:
        self._is_dirty = False
        if self.is_closed:
            return
        try:
            self._send()
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._fail("sent frame", exc)
            return
        owed = self._out.unsent()
        self._reactor.owed -= self._owed - owed
        self._owed = owed
        if owed > MAX_OWED or (self._reactor.owed > PROCESS_MAX_OWED and self.is_congested):
            self._evict(f"the peer does not read: {owed} bytes owed to it, {self._reactor.owed} to all peers")
        elif self._has_ended and not owed:
            self.close("closed by the peer")
        else:
            self._follow_up()

    def _send(self) -> None:
        """Send as much as the system accepts, and copy the rest.

        Views are valid until the end of the pass only.
        """
        try:
            while self._out.buffers:
                self._meter.sent += self._out.send(self._sock)
                self.last_active_at = self._now()
        except BlockingIOError:
            self._out.own(self._reactor.copied)

    def _follow_up(self) -> None:
        """Resume after a change of bytes owed or frames kept; update watched events."""
        if self.is_closed:
            return
        may_serve = self._may_serve
        if may_serve and self._on_drained:
            drained, self._on_drained = self._on_drained, []
            for fn in drained:
                self._reactor.again(fn)
        if may_serve and self._kept and not self._is_resuming:
            self._is_resuming = True
            self._reactor.again(self._resume)
        interest = (WRITE if self._out.buffers else 0) | (
            READ if may_serve and not (self._kept or self._has_ended) else 0
        )
        if interest != self._interest:
            self._interest = interest
            self._reactor.modify(self._sock, interest, self._on_ready)
