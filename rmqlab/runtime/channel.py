"""A channel: one TCP connection that carries commands both ways.

What is written during a pass leaves in one send at its end. What a peer is owed counts from the moment it is
written: above a limit no request of that peer is served, whether it is still in the socket or was received in the same
pass with others. Requests are served in portions, so that one peer does not hold up the others (issue 12.6).
"""

import logging
import socket
from collections.abc import Callable
from time import perf_counter

import trio

from rmqlab.remoting.codec import decode_command, encode_command, encode_head
from rmqlab.remoting.command import ONEWAY, Command
from rmqlab.remoting.frame import Frame, FrameDecoder, RemoteProtocolError, StrangerError
from rmqlab.runtime.dispatch import Buffer, Request
from rmqlab.runtime.fault_hooks import Transport
from rmqlab.runtime.reactor import READ, WRITE, Reactor

log = logging.getLogger(__name__)

RECEIVE_SIZE = 256 * 1024
"""Bytes asked for in one receive, at most."""
FRAMES_PER_PASS = 24
"""Where a receive brings more frames than this, less is asked for next time.

A client with many threads sends their requests together, gets the replies together, and waits meanwhile: so do we
and the slave. In portions all three work at once, which is worth a fifth of the rate at 64 threads.
"""
_SMALLEST_RECEIVE = 4 * 1024
FRAMES_AT_ONCE = 2 * FRAMES_PER_PASS
"""Frames of one channel that are served in one pass, at most; the others wait for the next pass."""
SECONDS_AT_ONCE = 0.02
"""Seconds after which the other frames of a channel wait too: some requests take a hundred times as long as others."""
HIGH_WATER = 8 * 2**20
"""Bytes owed to a peer above which its requests are neither read nor served."""
SCARCE_HIGH_WATER = 64 * 2**10
"""The same while the process owes more than PROCESS_HIGH_WATER to all peers together."""
PROCESS_HIGH_WATER = 256 * 2**20
MAX_OWED = 256 * 2**20
"""Bytes owed to a peer above which its connection is closed."""
PROCESS_MAX_OWED = 768 * 2**20
"""Bytes owed to all peers above which a congested connection is closed."""
PROCESS_MAX_BUFFERED = 512 * 2**20
"""Bytes of unfinished frames of all peers above which a connection that adds to them is closed."""
PARKED_COST = 1024
"""Bytes that a request with an outstanding reply counts for, besides its own."""
MAX_PARKED = 128 * 2**20
"""Bytes of one peer's parked requests above which no other is served."""
SCARCE_MAX_PARKED = 2**20
"""The same while those of all peers count for more than PROCESS_MAX_PARKED."""
PROCESS_MAX_PARKED = 512 * 2**20
_JOIN_BELOW = 128 * 1024
_MAX_BUFFERS = 512  # below IOV_MAX, which is 1024 on the systems that matter


class RemotingError(Exception):
    """A request that got no response. The message names the address and what happened."""


class ConnectError(RemotingError):
    """No connection: the request was certainly not received."""


class ConnectionLostError(RemotingError):
    """The connection ended before the response came: the request may have been carried out."""


class RequestTimeoutError(RemotingError):
    """No response in time: the request may have been carried out."""


class Channel:
    """One connection. `serve` gets each request of the peer; responses go to those who wait for them."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        serve: "Callable[[Channel, Command], Request | None]",
        *,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.peer = _text(sock.getpeername())
        self.local = _text(sock.getsockname())
        self.on_close: list[Callable[[], None]] = []
        self.is_closed = False
        self.close_reason: str | None = None
        self.last_active_at = now()
        """When bytes last went either way, in seconds of the process's clock."""
        self._now = now
        self._reactor = reactor
        self._serve = serve
        self._decoder = FrameDecoder()
        self._receive_size = RECEIVE_SIZE
        self._kept: list[Frame] = []  # received, not served yet
        self._is_resuming = False
        self._buffered = 0  # bytes of an unfinished frame, as counted in the reactor
        self._out: list[Buffer] = []
        self._skip = 0  # bytes of the first of these that were sent
        self._owed = 0
        self._parked = 0
        self._on_drained: list[Callable[[], None]] = []
        self._is_dirty = False
        self._interest = READ
        self._opaque = 0
        self._pending: dict[int, Callable[[Command | None], None]] = {}
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = reactor.links.attach(self, sock)
        reactor.register(self._sock, READ, self._on_ready)

    def __repr__(self) -> str:
        return f"<Channel {self.local} {self.peer}{' closed' if self.is_closed else ''}>"

    # -- sending ---------------------------------------------------------------------------------

    def write(self, *buffers: Buffer) -> None:
        """Send at the end of this pass. Views are used until then and not kept. Dropped on a closed channel."""
        if self.is_closed:
            return
        self._out += buffers
        size = sum(map(len, buffers))
        self._owed += size
        self._reactor.owed += size
        if not self._is_dirty:
            self._is_dirty = True
            self._reactor.defer(self._flush)

    @property
    def is_congested(self) -> bool:
        """True while the peer is owed so much that replies that can wait should wait (see `when_drained`)."""
        limit = HIGH_WATER if self._reactor.owed < PROCESS_HIGH_WATER else SCARCE_HIGH_WATER
        return self._owed >= limit

    def when_drained(self, fn: Callable[[], None]) -> None:
        """Call once, in a later pass, when the peer has taken enough of what it is owed. Never if the channel closes."""
        self._on_drained.append(fn)

    def send_oneway(self, command: Command) -> None:
        """Send a request that nobody answers."""
        command.opaque = self._next_opaque()
        command.flag |= ONEWAY
        self.write(encode_head(command, len(command.body)))
        if command.body:
            self.write(command.body)  # apart: it may go to many peers

    def send_request(self, command: Command, on_reply: Callable[[Command | None], None]) -> int:
        """Send a request; call back with its response, or with None when the channel closes first.

        Answers the opaque, for `forget`.
        """
        command.opaque = self._next_opaque()
        if self.is_closed:
            on_reply(None)
        else:
            self._pending[command.opaque] = on_reply
            self.write(encode_command(command))
        return command.opaque

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF  # 32 bits on the wire, and a long-lived channel uses them up
        return self._opaque

    def forget(self, opaque: int) -> None:
        """Wait no longer for a response; should it come, it is dropped (remoting#9)."""
        self._pending.pop(opaque, None)

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - the timeout is the protocol's, and names itself in the error
        """Send a request and wait for its response. ConnectionLostError or RequestTimeoutError where none comes."""
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
            raise RequestTimeoutError(f"{self.peer} did not answer request code {command.code} within {timeout:.3g} s")
        if got[0] is None:
            raise ConnectionLostError(f"{self.peer} closed before it answered: {self.close_reason}")
        return got[0]

    def replace_transport(self, sock: Transport) -> None:
        """Go on with this in the place of the socket: a fault begins or ends."""
        self._sock = sock

    # -- life ------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Close at once. Those who wait for a response are told; then the functions of `on_close` run."""
        if self.is_closed:
            return
        self.is_closed = True
        self.close_reason = reason
        self._reactor.unregister(self._sock)
        self._sock.close()
        self._out.clear()
        self._kept.clear()
        self._on_drained.clear()
        self._reactor.owed -= self._owed
        self._reactor.buffered -= self._buffered
        self._reactor.parked -= self._parked
        self._owed = self._buffered = self._parked = 0
        pending, self._pending = self._pending, {}
        errors = self._reactor.errors
        for on_reply in pending.values():
            errors.call("lost reply", on_reply, None)
        for fn in self.on_close:
            errors.call("on_close", fn)

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events & READ and not self.is_closed:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(max(self._receive_size, min(self._decoder.missing, RECEIVE_SIZE)))
        except BlockingIOError:
            return
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        if not data:
            self.close("closed by the peer")
            return
        self.last_active_at = self._now()
        try:
            frames = self._decoder.feed(data)
        except RemoteProtocolError as exc:
            self._reject(exc)
            return
        self._fit_receive_size(len(data), len(frames))
        if self._decoder.buffered != self._buffered and not self._count_buffered():
            return
        if self._kept:  # an event of this pass from before reading stopped
            self._kept += frames
        else:
            self._serve_frames(frames)

    def _count_buffered(self) -> bool:
        """Count the unfinished frame with those of all other peers. False if there are too many: closed."""
        buffered = self._decoder.buffered
        grown, self._buffered = buffered - self._buffered, buffered
        self._reactor.buffered += grown
        if grown > 0 and self._reactor.buffered > PROCESS_MAX_BUFFERED:
            self.close(f"{self._reactor.buffered} bytes of unfinished frames are held in this process")
        return not self.is_closed

    def _serve_frames(self, frames: list[Frame]) -> None:
        """Serve a portion of these; keep the others until the next pass, or until the peer takes what it is owed."""
        served, until = 0, perf_counter() + SECONDS_AT_ONCE
        try:
            for frame in frames:
                is_near_limit = self._owed >= SCARCE_HIGH_WATER or self._parked >= SCARCE_MAX_PARKED
                is_enough = served == FRAMES_AT_ONCE or (served and perf_counter() > until)
                if is_enough or (is_near_limit and not self._may_serve):
                    break
                served += 1
                command = decode_command(frame)
                if command.flag & 1:
                    on_reply = self._pending.pop(command.opaque, None)
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
                self._kept = frames[served:]
                self._follow_up()

    @property
    def _may_serve(self) -> bool:
        """False while the peer is owed too much, in bytes or in replies that are outstanding."""
        if self._owed >= SCARCE_HIGH_WATER and self.is_congested:
            return False
        limit = MAX_PARKED if self._reactor.parked < PROCESS_MAX_PARKED else SCARCE_MAX_PARKED
        return self._parked < limit

    def _park(self, request: Request, size: int) -> None:
        request.parked_size = size
        self._parked += size
        self._reactor.parked += size

    def unpark(self, request: Request) -> None:
        """A request that was parked needs its reply no longer."""
        size, request.parked_size = request.parked_size, 0
        if not self.is_closed:
            self._parked -= size
            self._reactor.parked -= size
            if self._kept or not self._interest & READ:
                self._reactor.defer(self._follow_up)

    def _resume(self) -> None:
        """Serve the next portion of what was kept."""
        self._is_resuming = False
        frames, self._kept = self._kept, []
        if frames and not self.is_closed:
            self._serve_frames(frames)
            self._follow_up()

    def _reject(self, exc: RemoteProtocolError) -> None:
        if not isinstance(exc, StrangerError):
            log.warning("%s broke the protocol: %s", self.peer, exc)
        elif self._reactor.strangers.is_first(self.peer):
            log.warning("%s speaks %s", self.peer, exc)
        self.close(f"protocol error: {exc}")

    def _fail(self, place: str, exc: Exception) -> None:
        """Close after an unexpected exception: the state of this connection is unknown, that of others is not."""
        self._reactor.errors.caught(place, exc, self.peer)
        self.close(f"{type(exc).__name__}: {exc}")

    def _fit_receive_size(self, received: int, frames: int) -> None:
        if frames > FRAMES_PER_PASS:
            self._receive_size = max(received // frames * FRAMES_PER_PASS, _SMALLEST_RECEIVE)
        elif frames < FRAMES_PER_PASS // 4 and received == self._receive_size < RECEIVE_SIZE:
            self._receive_size *= 2  # larger frames than before

    def _flush(self) -> None:
        self._is_dirty = False
        if self.is_closed:
            return
        try:
            while self._out:
                self._send_some()
        except BlockingIOError:
            # Views must not outlive the pass: the file behind them may be closed or rolled over.
            self._out = [self._reactor.copied(one) if isinstance(one, memoryview) else one for one in self._out]
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._fail("sent frame", exc)
            return
        owed = sum(map(len, self._out)) - self._skip
        self._reactor.owed -= self._owed - owed
        self._owed = owed
        if owed > MAX_OWED or (self._reactor.owed > PROCESS_MAX_OWED and self.is_congested):
            self.close(f"takes nothing: {owed} bytes owed, {self._reactor.owed} to all peers")
        else:
            self._follow_up()

    def _follow_up(self) -> None:
        """After a change of what is owed or kept: wait for the right events, and go on with what can go on."""
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
        interest = (WRITE if self._out else 0) | (READ if may_serve and not self._kept else 0)
        if interest != self._interest:
            self._interest = interest
            self._reactor.modify(self._sock, interest, self._on_ready)

    def _send_some(self) -> None:
        out = self._out
        if len(out) > 1 and sum(map(len, out)) < _JOIN_BELOW:
            out[:] = [b"".join(out)]
        buffers = out[:_MAX_BUFFERS]
        if self._skip:
            buffers[0] = memoryview(out[0])[self._skip :]
        sent = self._sock.sendmsg(buffers) if len(buffers) > 1 else self._sock.send(buffers[0])
        self.last_active_at = self._now()
        sent += self._skip
        done = 0
        for buffer in out:
            size = len(buffer)
            if sent < size:
                break
            sent -= size
            done += 1
        del out[:done]
        self._skip = sent


def _text(address: tuple[str, int] | str) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
