"""Serves HTTP/1.1 on trio, with h11.

A connection carries one request, as on the command socket. Everything that a client sends or leaves unread has a limit:
bytes of head and body, seconds for the request and for each part of the response, connections, streams. A client that
closes its connection cancels its request, after the time in which one that closed only its sending half gets a response.
"""

import http
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import attrs
import h11
import trio

from rmqlab.cluster.control.app import Admitted, ControlApp
from rmqlab.cluster.control.messages import (
    EVENTS_TYPE,
    GONE,
    JSON_TYPE,
    EventStream,
    GoneError,
    Head,
    Rejected,
    Reply,
    Response,
    error_response,
)
from rmqlab.cluster.jsontext import json_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.exceptiongroups import leaves

CHUNK = 64 * 2**10
_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Connection", "close"))


@attrs.frozen(kw_only=True)
class Limits:
    """Limits of the server. Seconds are real."""

    head_bytes: int = 32 * 2**10
    body_bytes: int = 2**20
    connections: int = 64
    """The next one replaces the oldest that has not sent its request. If all have, it gets 503; beyond twice the number
    it is closed."""
    streams: int = 32
    """Maximum number of connections for streams: the others stay free for commands."""
    request_seconds: float = 10.0
    """For a whole request: head and body."""
    send_seconds: float = 10.0
    """For each 64 KiB of a response."""
    half_closed_seconds: float = 2.0
    """For a response after the end of what the client sends: it may have closed only its sending half."""
    linger_seconds: float = 2.0
    """Time to read the rest of a request whose client gets an error."""
    ping_seconds: float = 15.0
    """Between comments on a silent stream, so that a client that is gone is noticed."""
    end_seconds: float = 0.5
    """For the end of a stream, or a last response, when the cluster stops."""


@attrs.define(eq=False)
class ControlServer:
    """Serves the control API on a listening socket."""

    app: ControlApp
    limits: Limits = attrs.field(factory=Limits)
    _connections: int = attrs.field(default=0, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _receiving: dict["_Connection", trio.CancelScope] = attrs.field(factory=dict, init=False)
    """Connections whose request is incomplete, oldest first."""

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled. Nothing that arrives ends more than its connection."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        await trio.serve_listeners(self.serve_connection, [listener])

    async def serve_connection(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serve the one request of a connection."""
        self._connections += 1
        try:
            async with stream:
                if self._connections <= 2 * self.limits.connections:
                    await _Connection(self, stream).run(is_full=self._connections > self.limits.connections)
        except* (GoneError, *GONE):
            pass  # the client is gone, or does not read
        except* Exception as group:  # noqa: BLE001 -- a boundary
            for exc in leaves(group):
                self.app.cluster.supervisor.processes.errors.caught("control API connection", exc)
        finally:
            self._connections -= 1

    def close_oldest_receiving(self) -> bool:
        """Close the oldest connection that has not sent its request.

        Return False if there is none.
        """
        oldest = next(iter(self._receiving), None)
        if oldest is None:
            return False
        self._receiving.pop(oldest).cancel()
        return True

    @contextmanager
    def receiving(self, connection: "_Connection") -> Iterator[None]:
        """Receive a request. GoneError if another connection replaces it."""
        with trio.CancelScope() as scope:
            self._receiving[connection] = scope
            try:
                yield
            finally:
                self._receiving.pop(connection, None)
        if scope.cancelled_caught:
            raise GoneError

    @asynccontextmanager
    async def stream_slot(self) -> AsyncIterator[bool]:
        """Hold one of the streams. Yields False if all are in use."""
        is_free = self._streams < self.limits.streams
        self._streams += is_free
        try:
            yield is_free
        finally:
            self._streams -= is_free


@attrs.define(eq=False)
class _Connection:
    server: ControlServer
    stream: trio.abc.HalfCloseableStream
    http: h11.Connection = attrs.field(init=False)
    _has_body: bool = attrs.field(default=True, init=False)
    """Whether the response has a body: not after HEAD."""
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _is_client_gone: bool = attrs.field(default=False, init=False)
    _is_between_events: bool = attrs.field(default=True, init=False)
    """False while bytes of an event are being sent, and if that was interrupted."""

    def __attrs_post_init__(self) -> None:
        # h11 accepts a head of any size in one piece, so no more than the limit is received before its end. It rejects
        # an incomplete one beyond its own limit, which is one byte lower: at ours, nothing more would be received.
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=self.server.limits.head_bytes - 1)

    async def run(self, *, is_full: bool) -> None:
        limits = self.server.limits
        if is_full and not self.server.close_oldest_receiving():
            text = f"more than {limits.connections} connections"
            await self._reject(error_response(503, "too_many_connections", text))
            return
        try:
            with self.server.receiving(self), trio.fail_after(real_seconds(limits.request_seconds)):
                admitted, body = await self._receive()
        except trio.TooSlowError:
            text = f"the request was not complete after {limits.request_seconds:g} s"
            await self._reject(error_response(408, "too_slow", text))
        except h11.RemoteProtocolError as exc:
            status = exc.error_status_hint if exc.error_status_hint in (400, 431) else 400
            await self._reject(error_response(status, "invalid_http", f"the request is not valid HTTP/1.1: {exc}"))
        except Rejected as exc:
            await self._reject(exc.response)
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_at_end, nursery.cancel_scope)
                await self._reply(await self._respond(admitted, body))
                nursery.cancel_scope.cancel()

    # ---- the request ---------------------------------------------------------------------------

    async def _receive(self) -> tuple[Admitted, bytes]:
        """Return a request and its body. `Rejected` as soon as it is known to be invalid."""
        head = await self._next_event()
        assert isinstance(head, h11.Request), "h11 begins with the head"
        self._has_body = head.method != b"HEAD"
        admitted = self.server.app.admit(_head_of(head))
        self._check_length(int(dict(head.headers).get(b"content-length", b"0")))
        body = bytearray()
        while not isinstance(event := await self._next_event(), h11.EndOfMessage):
            assert isinstance(event, h11.Data), "h11 continues with the body"
            body += event.data
            self._check_length(len(body))
        return admitted, bytes(body)

    def _check_length(self, length: int) -> None:
        if length > (most := self.server.limits.body_bytes):
            raise Rejected(error_response(413, "too_large", f"the body has more than {most} bytes"))

    async def _next_event(self) -> h11.Event:
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                if self.http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                data = bytes(await self._receive_some())
                self.http.receive_data(data)
            elif isinstance(event, h11.ConnectionClosed):
                raise GoneError
            else:
                assert isinstance(event, h11.Event), "a connection carries one request"
                return event

    async def _receive_some(self) -> bytes | bytearray:
        try:
            return await self.stream.receive_some(self._acceptable_bytes())
        except trio.BrokenResourceError:
            raise GoneError from None

    def _acceptable_bytes(self) -> int:
        if self.http.their_state is not h11.IDLE:
            return CHUNK
        buffered, _ = self.http.trailing_data
        return self.server.limits.head_bytes - len(buffered)

    async def _cancel_at_end(self, scope: trio.CancelScope) -> None:
        """Cancel the request some time after the client closed the connection.

        TCP shows no difference between that and a half-close until something is sent. A reset cancels at once. Bytes
        that the client sends meanwhile are dropped.
        """
        while await self.stream.receive_some(CHUNK):
            pass
        await trio.sleep(real_seconds(self.server.limits.half_closed_seconds))
        self._is_client_gone = True
        scope.cancel()

    # ---- the response --------------------------------------------------------------------------

    async def _respond(self, admitted: Admitted, body: bytes) -> Reply:
        """Return the reply. If the cluster stops meanwhile, send 503."""
        try:
            return await self.server.app.respond(admitted, body)
        except BaseException:  # Cancelled, alone or in groups: the app turns other exceptions into responses
            if not self._is_client_gone:
                with self._sending_at_stop():
                    await self._send_response(error_response(503, "stopping", "the cluster stops"))
            raise

    @contextmanager
    def _sending_at_stop(self) -> Iterator[None]:
        """Send in spite of the cancellation, for a short time."""
        seconds = real_seconds(self.server.limits.end_seconds)
        with trio.move_on_after(seconds, shield=True), suppress(*GONE, GoneError):
            yield

    async def _reply(self, reply: Reply) -> None:
        if isinstance(reply, Response):
            await self._send_response(reply)
            return
        async with self.server.stream_slot() as is_free:
            if is_free:
                await self._send_stream(reply)
            else:
                text = f"more than {self.server.limits.streams} streams of events"
                await self._send_response(error_response(503, "too_many_streams", text))

    async def _reject(self, response: Response) -> None:
        """Send an error to a client that may still be sending.

        Read what it sends: closing a socket with unread bytes resets it, and the error is lost.
        """
        await self._send_response(response)
        with trio.move_on_after(real_seconds(self.server.limits.linger_seconds)):
            await self.stream.send_eof()
            left = 4 * self.server.limits.body_bytes
            while left > 0 and (data := await self.stream.receive_some(CHUNK)):
                left -= len(data)

    async def _send_response(self, response: Response) -> None:
        headers = [("Content-Type", JSON_TYPE), ("Content-Length", str(len(response.body))), *response.headers.items()]
        await self._send(_start(response.status, headers))
        for at in range(0, len(response.body) if self._has_body else 0, CHUNK):
            await self._send(h11.Data(data=response.body[at : at + CHUNK]))
        await self._send(h11.EndOfMessage())

    async def _send_stream(self, reply: EventStream) -> None:
        await self._send(_start(200, [("Content-Type", EVENTS_TYPE)]))

        async def send_item(item: object) -> None:
            await self._send(h11.Data(data=f"data: {json_text(item)}\n\n".encode()))

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ping)
                failure = await reply.run(send_item)
                nursery.cancel_scope.cancel()
        except BaseException:
            await self._end_cut_stream()
            raise
        if failure is not None:
            await self._send(h11.Data(data=b"event: error\ndata: " + failure.body + b"\n"))
        await self._send(h11.EndOfMessage())

    async def _end_cut_stream(self) -> None:
        """Send the last chunk of a stream that the stop of the cluster ends.

        Without it, the client treats the end as a broken connection.
        """
        with self._sending_at_stop():
            if self._is_between_events:
                await self._send(h11.EndOfMessage())

    async def _ping(self) -> None:
        while True:
            await trio.sleep(real_seconds(self.server.limits.ping_seconds))
            await self._send(h11.Data(data=b":\n\n"))

    async def _send(self, event: h11.Event) -> None:
        async with self._sending:
            if data := self.http.send(event):
                self._is_between_events = False
                with trio.fail_after(real_seconds(self.server.limits.send_seconds)):
                    await self.stream.send_all(data)
                self._is_between_events = True


def _start(status: int, headers: Sequence[tuple[str, str]]) -> h11.Response:
    return h11.Response(
        status_code=status, headers=[*headers, *_HEADERS], reason=http.HTTPStatus(status).phrase.encode()
    )


def _head_of(request: h11.Request) -> Head:
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in request.headers:
        key = name.decode("latin-1")
        headers[key] = (*headers.get(key, ()), value.decode("latin-1"))
    return Head(method=request.method.decode("ascii"), target=request.target.decode("latin-1"), headers=headers)
