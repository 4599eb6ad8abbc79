"""A server on loopback that echoes, notes and fails, with a client of plain TCP."""

import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import trio
import trio.testing

from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import VERSION, RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.remoting.header import Header, JavaBoolean
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.server import Server


class EchoHeader(Header, frozen=True, kw_only=True):
    """Three types of value."""

    topic: str | None = None
    queue_id: int | None = None
    is_new: JavaBoolean | None = None


def echo(_seen: list[str], header: EchoHeader, asked: Request) -> Reply:
    """Return the received header and body."""
    return Reply(header=header, body=asked.command.body)


def note(seen: list[str], _header: None, asked: Request) -> Reply:
    """Record the request; reply with empty ext fields."""
    seen.append(asked.channel.peer)
    return Reply(header={})


def fail(_seen: list[str], _header: None, _asked: Request) -> Reply:
    """Go wrong."""
    raise RuntimeError("broken")


TABLE = handler_table(
    [
        Route(RequestCode.SEND_MESSAGE, EchoHeader, echo),
        Route(RequestCode.HEART_BEAT, None, note),
        Route(RequestCode.PULL_MESSAGE, None, fail),
    ]
)


class Running:
    """A server, and clients of its own kind: plain TCP."""

    def __init__(self, server: Server[list[str]], dispatcher: Dispatcher[list[str]], port: int) -> None:
        self.server = server
        self.dispatcher = dispatcher
        self.port = port
        self.streams: list[trio.SocketStream] = []

    async def connect(self) -> "Peer":
        """Open a connection; it is closed with the server."""
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return Peer(self.streams[-1])


class Peer:
    """One end of a TCP connection that speaks frames, or anything else."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder()
        self._commands: list[Command] = []

    async def send(self, *commands: Command) -> None:
        """Send commands in one piece."""
        await self.stream.send_all(b"".join(map(encode_command, commands)))

    async def next(self) -> Command:
        """Give the next command of the other side."""
        while not self._commands:
            data = await self.stream.receive_some()
            assert data, "closed"
            self._commands += map(decode_command, self._decoder.feed(bytes(data)))
        return self._commands.pop(0)

    async def wait_closed(self) -> bytes:
        """Return all bytes up to the end of the connection.

        A reset is an end too.
        """
        got = b""
        with contextlib.suppress(trio.BrokenResourceError):
            while data := await self.stream.receive_some():
                got += data
        return got


@contextlib.asynccontextmanager
async def serving(max_connections: int | None = None) -> AsyncIterator[Running]:
    """Serve the table above."""
    reactor = Reactor()
    dispatcher: Dispatcher[list[str]] = Dispatcher(TABLE, [])
    server = Server(reactor, dispatcher, max_connections=max_connections)
    _, port = server.listen("127.0.0.1", 0)
    running = Running(server, dispatcher, port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reactor.run_forever)
        nursery.start_soon(server.close_idle_forever)
        yield running
        nursery.cancel_scope.cancel()
    server.close()
    reactor.close()
    for stream in running.streams:
        stream.socket.close()


def json_frame(header: str | dict[str, Any], body: bytes = b"") -> bytes:
    """Frame an unchanged JSON header."""
    raw = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack(">iI", 4 + len(raw) + len(body), len(raw)) + raw + body


def binary_header(
    *, code: int = 10, opaque: int = 7, language: int = 0, fields: bytes = b"", remark: bytes = b""
) -> bytes:
    """Give a binary header as Java writes it."""
    fixed = struct.pack(">hBhiii", code, language, VERSION, opaque, 0, len(remark))
    return fixed + remark + struct.pack(">i", len(fields)) + fields


def binary_frame(header: bytes) -> bytes:
    """Frame a binary header."""
    return struct.pack(">iI", 4 + len(header), 1 << 24 | len(header)) + header


def field(key: bytes, value: bytes) -> bytes:
    """Give one entry of a binary ext block."""
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value
