"""A live server on loopback: what section 7 of remoting-and-nameserver asks of framing and headers."""

import contextlib
import json
import os
import resource
import socket
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis import strategies as st

from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import VERSION, RequestCode, ResponseCode
from rmqlab.remoting.command import ONEWAY, Command, request
from rmqlab.remoting.frame import JSON, MAX_FRAME, ROCKETMQ, Frame, FrameDecoder, RemoteProtocolError
from rmqlab.remoting.header import Header, JavaBoolean
from rmqlab.runtime.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.reactor import Reactor
from rmqlab.runtime.server import Acceptor, AddressTakenError, Server, open_listener


class EchoHeader(Header, frozen=True, kw_only=True):
    """Three types of value."""

    topic: str | None = None
    queue_id: int | None = None
    is_new: JavaBoolean | None = None


def echo(_seen: list[str], header: EchoHeader, asked: Request) -> Reply:
    """Answer what came."""
    return Reply(header=header, body=asked.command.body)


def note(seen: list[str], _header: None, asked: Request) -> Reply:
    """Say that a request came; answer with empty ext fields."""
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
        """Give all that still comes before the end of the connection; a reset is an end too."""
        got = b""
        with contextlib.suppress(trio.BrokenResourceError):
            while data := await self.stream.receive_some():
                got += data
        return got


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Running]:
    """Serve the table above."""
    reactor = Reactor()
    dispatcher: Dispatcher[list[str]] = Dispatcher(TABLE, [])
    server = Server(reactor, dispatcher)
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
    """Frame a JSON header as it stands."""
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


async def test_the_largest_frame_is_served() -> None:
    """remoting#1: length 16777212."""
    async with serving() as running:
        peer = await running.connect()
        header = b'{"code":34}'
        body_size = MAX_FRAME - 8 - len(header)
        await peer.stream.send_all(struct.pack(">iI", MAX_FRAME - 4, len(header)) + header + bytes(body_size))
        assert (await peer.next()).code == 0


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(struct.pack(">i", MAX_FRAME - 3), id="one byte too long (remoting#1)"),
        pytest.param(struct.pack(">i", 3), id="shorter than its own header field (remoting#2)"),
        pytest.param(struct.pack(">i", -1), id="negative (remoting#2)"),
        pytest.param(struct.pack(">iI", 10, 7) + bytes(6), id="header longer than the frame (remoting#2)"),
        pytest.param(struct.pack(">iI", 6, 2 << 24 | 2) + b"{}", id="serialize type 2 (remoting#2)"),
        pytest.param(json_frame("null"), id="a JSON null for a header (remoting#2)"),
        pytest.param(json_frame(""), id="an empty JSON header (remoting#2)"),
        pytest.param(json_frame("[1]"), id="a JSON list for a header (remoting#2)"),
        pytest.param(json_frame('{"code":'), id="half a JSON header (remoting#2)"),
        pytest.param(json_frame('{"code":"x"}'), id="a code that is no number (remoting#2)"),
        pytest.param(json_frame('{"code":2147483648}'), id="a code of more than 32 bits (remoting#2)"),
        pytest.param(json_frame('{"code":34,"version":1e999}'), id="a version of more than 32 bits (remoting#2)"),
        pytest.param(struct.pack(">iI", 7, 3) + b"\xff\xfe\xfd", id="a JSON header that is no text (remoting#2)"),
        pytest.param(json_frame('{"code":34,"a":' + "[" * 90_000), id="lists in lists without end (remoting#2)"),
        pytest.param(json_frame('{"extFields":' + '{"a":' * 20_000), id="objects in objects without end (remoting#2)"),
        pytest.param(binary_frame(b""), id="an empty binary header (remoting#2)"),
        pytest.param(binary_frame(binary_header()[:-1]), id="a binary header cut short (remoting#2)"),
        pytest.param(binary_frame(binary_header(fields=b"\0")), id="a binary key cut short (remoting#2)"),
        pytest.param(binary_frame(binary_header(fields=b"\0\x09ab")), id="a binary key over the end (remoting#2)"),
        pytest.param(
            binary_frame(binary_header(fields=b"\0\1a\0\0\1\0")), id="a binary value over the end (remoting#2)"
        ),
        pytest.param(binary_frame(binary_header(fields=b"\0\1a\xff\xff\xff\xff")), id="a negative size (remoting#2)"),
        pytest.param(
            binary_frame(binary_header()[:13] + b"\xff" * 4 + bytes(4)), id="a remark of a negative size (remoting#2)"
        ),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="a TLS handshake (remoting#12)"),
    ],
)
async def test_what_cannot_be_a_frame_closes_the_connection_without_a_reply(hostile: bytes) -> None:
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(hostile)
        assert await peer.wait_closed() == b""
        other = await running.connect()
        await other.send(request(10, {}))
        assert (await other.next()).code == 0


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (struct.pack(">i", -1), f"length -1: expected 4 to {MAX_FRAME - 4}"),
        (
            struct.pack(">iI", 10, 7),
            f"header size 7, serialize type 0: expected at most {MAX_FRAME - 4}, a header that",
        ),
    ],
)
def test_what_cannot_be_a_frame_is_told_with_what_was_expected(hostile: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        FrameDecoder().feed(hostile)


@hypothesis.given(st.sampled_from([JSON, ROCKETMQ]), st.binary(max_size=80), st.binary(max_size=9))
def test_any_header_is_a_command_or_a_protocol_error(serialize_type: int, header: bytes, tail: bytes) -> None:
    """remoting#2: nothing else may come out, for it would end the process."""
    for raw in (header, binary_header(fields=header) + tail, b'{"code":34,"extFields":' + header):
        with contextlib.suppress(RemoteProtocolError):
            decode_command(Frame(serialize_type, raw))


async def test_each_request_is_answered_in_its_own_codec() -> None:
    """remoting#3."""
    async with serving() as running:
        peer = await running.connect()
        for serialize_type in (JSON, ROCKETMQ, JSON):
            await peer.send(request(10, {"topic": "t"}, serialize_type=serialize_type))
            reply = await peer.next()
            assert (reply.serialize_type, reply.ext_fields) == (serialize_type, {"topic": "t"})
            await peer.send(request(9999, serialize_type=serialize_type))
            assert (await peer.next()).serialize_type == serialize_type


@pytest.mark.parametrize("opaque", [0, 1, -1, 2**31 - 1, -(2**31)])
async def test_a_reply_has_the_requests_opaque_flag_one_and_nothing_that_is_null(opaque: int) -> None:
    """remoting#4, read from the bytes."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(json_frame({"code": 10, "opaque": opaque, "flag": 0, "extFields": {"topic": "t"}}))
        raw = await peer.stream.receive_some()
        length, header_size = struct.unpack(">iI", raw[:8])
        assert (length, header_size) == (len(raw) - 4, len(raw) - 8)
        header = json.loads(raw[8:])
        assert header == {
            "code": 0,
            "extFields": {"topic": "t"},
            "flag": 1,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 409,
        }


async def test_an_empty_header_class_gives_empty_ext_fields_and_none_gives_none() -> None:
    """remoting#4."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(request(34))
        assert json.loads((await peer.stream.receive_some())[8:])["extFields"] == {}
        await peer.send(request(9999))
        assert "extFields" not in json.loads((await peer.stream.receive_some())[8:])


async def test_values_of_any_json_type_are_read_as_text_and_answered_as_text() -> None:
    """remoting#5, #6."""
    async with serving() as running:
        peer = await running.connect()
        fields = {"topic": 7, "queueId": 3, "isNew": True}
        await peer.stream.send_all(json_frame({"code": 10, "extFields": fields}))
        raw = await peer.stream.receive_some()
        assert json.loads(raw[8:])["extFields"] == {"topic": "7", "queueId": "3", "isNew": "true"}


@pytest.mark.parametrize(
    "header",
    [
        '{"code":34}',
        '{"code":34,"language":"COBOL"}',
        '{"code":34,"language":77}',
        '{"code":34.0,"flag":null,"version":"","remark":[5],}',
        '{"code":34,"version":409.9,/* hello */"remark":true}',
        '{"code":"34","opaque":"5","flag":"0","version":"401"}',
        "{code:34,'opaque':5}",
        '{"code":34}\n',
        '{"code":34,"someFutureMember":{"a":[1]}}',
        '{"code":34,"remark":null,"extFields":null,"language":null}',
    ],
)
async def test_a_header_is_served_whatever_it_leaves_out_or_adds(header: str) -> None:
    """remoting#7, and the habits of section 1.4."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(json_frame(header))
        assert (await peer.next()).code == 0


async def test_a_header_in_another_encoding_than_utf8_is_served() -> None:
    """Java reads what is no text with replacement characters; native clients write remarks in their own encoding."""
    async with serving() as running:
        peer = await running.connect()
        raw = '{"code":34,"remark":"中"}'.encode("gbk")
        await peer.stream.send_all(struct.pack(">iI", 4 + len(raw), len(raw)) + raw)
        assert (await peer.next()).code == 0
        raw = '{"code":10,"extFields":{"topic":"中"}}'.encode("gbk")
        await peer.stream.send_all(struct.pack(">iI", 4 + len(raw), len(raw)) + raw)
        assert "\ufffd" in (await peer.next()).ext_fields["topic"]
        for topic in (b"\xff", b"a", b"b", b"c"):
            fields = field("键".encode("gbk"), b"v") + field(b"topic", topic)
            await peer.stream.send_all(binary_frame(binary_header(code=10, fields=fields, remark=b"\xff")))
            assert (await peer.next()).ext_fields["topic"] == topic.decode("utf-8", "replace")


async def test_an_unknown_language_byte_is_served() -> None:
    """remoting#7."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(binary_frame(binary_header(code=34, language=200)))
        assert (await peer.next()).code == 0


async def test_a_binary_header_is_21_bytes_and_what_varies_and_empty_values_are_null() -> None:
    """remoting#8."""
    async with serving() as running:
        peer = await running.connect()
        fields = field(b"topic", b"") + field(b"queueId", b"3") + field(b"", b"x")
        await peer.stream.send_all(binary_frame(binary_header(opaque=0x3F2, fields=fields, remark=b"why")))
        raw = bytes(await peer.stream.receive_some())
        expected = field(b"queueId", b"3")
        assert len(raw) == 8 + 21 + len(expected)
        assert raw[8:] == bytes.fromhex("0000 00 0199 000003f2 00000001 00000000") + struct.pack(">i", 14) + expected


async def test_a_response_to_nothing_is_ignored() -> None:
    """remoting#9."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(Command(0, opaque=12345, flag=1), request(34))
        assert (await peer.next()).code == 0


async def test_oneway_requests_are_never_answered() -> None:
    """remoting#10: neither on success nor on failure, nor for an unknown code."""
    async with serving() as running:
        peer = await running.connect()
        oneway = [request(code, {}, oneway=True) for code in (34, 10, 11, 9999)]
        await peer.send(*oneway, Command(34, opaque=99))
        assert (await peer.next()).opaque == 99
        assert len(running.dispatcher.state) == 2
        assert all(command.flag == ONEWAY for command in oneway)


async def test_pipelined_requests_are_all_answered() -> None:
    """remoting#11."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(*(Command(10, opaque=opaque, raw_fields={"queueId": str(opaque)}) for opaque in range(500)))
        replies = [await peer.next() for _ in range(500)]
        assert sorted(reply.opaque for reply in replies) == list(range(500))
        assert all(reply.ext_fields == {"queueId": str(reply.opaque)} for reply in replies)


async def test_a_frame_may_come_byte_by_byte() -> None:
    async with serving() as running:
        peer = await running.connect()
        for byte in json_frame({"code": 34}):
            await peer.stream.send_all(bytes([byte]))
        assert (await peer.next()).code == 0


async def test_a_connection_without_traffic_is_closed_after_two_minutes(mock_clock: trio.testing.MockClock) -> None:
    """remoting#13."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(request(34))
        await peer.next()
        mock_clock.jump(119)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await peer.send(request(34))
        assert (await peer.next()).code == 0
        mock_clock.jump(119)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(running.server.channels) == 1
        mock_clock.jump(2)
        assert await peer.wait_closed() == b""
        assert running.server.channels == set()


@pytest.mark.parametrize("_time", range(5))
async def test_what_came_while_the_server_stood_still_is_read_before_it_looks_for_idle_connections(
    mock_clock: trio.testing.MockClock, _time: int
) -> None:
    """remoting#13. Which task runs first is chance: hence several times."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(request(34))
        await peer.next()
        os.write(
            peer.stream.socket.fileno(), encode_command(request(34))
        )  # at once: nobody else runs between this and the jump
        mock_clock.jump(200)
        assert (await peer.next()).code == 0
        mock_clock.jump(2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(running.server.channels) == 1


async def test_an_unknown_code_is_answered_at_once_and_counted() -> None:
    """remoting#14."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(Command(9999, opaque=3), Command(9999, opaque=4))
        reply = await peer.next()
        assert (reply.code, reply.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 3)
        assert reply.remark == " request type 9999 not supported"
        assert (await peer.next()).opaque == 4
        assert running.dispatcher.unserved == {("127.0.0.1", 9999): 2}


async def test_a_handler_that_fails_is_code_1_and_the_connection_lives() -> None:
    async with serving() as running:
        peer = await running.connect()
        await peer.send(request(11))
        reply = await peer.next()
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "RuntimeError: broken")
        await peer.send(request(10, {"queueId": "many"}))  # a number that is none counts as missing: this one may be
        reply = await peer.next()
        assert (reply.code, reply.ext_fields) == (ResponseCode.SUCCESS, {})
        await peer.send(request(34))
        assert (await peer.next()).code == 0


async def test_a_taken_address_is_an_error_that_names_it() -> None:
    async with serving() as running:
        with pytest.raises(AddressTakenError, match=f"127.0.0.1:{running.port}"):
            open_listener("127.0.0.1", running.port)


def test_a_process_that_may_open_no_more_files_turns_peers_away_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise what waits in the backlog would wake the reactor for ever."""
    reactor, accepted = Reactor(), list[socket.socket]()
    acceptor = Acceptor(reactor, open_listener("127.0.0.1", 0), accepted.append)
    peers = [socket.create_connection(acceptor.address) for _ in range(20)]
    lowest_free = os.dup(0)
    os.close(lowest_free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        reactor.run_pass()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert accepted == []
    assert [peer.recv(1) for peer in peers] == [b""] * 20
    assert [record.message for record in caplog.records] == [
        f"cannot accept at {acceptor.address}: Too many open files: peers are turned away"
    ]
    peers.append(socket.create_connection(acceptor.address))
    reactor.run_pass()
    assert len(accepted) == 1
    acceptor.close()
    reactor.close()
    for sock in [*peers, *accepted]:
        sock.close()


def test_a_pass_tells_when_it_began() -> None:
    """What waits in it is as old as that: for a fault's late requests, too, which come in a pass of their own."""
    reactor = Reactor()
    told: list[tuple[float, float]] = []
    for make in (reactor.run_pass, lambda: reactor.run(lambda: told.append((reactor.pass_began, time.perf_counter())))):
        before = time.perf_counter()
        make()
        assert before <= reactor.pass_began <= time.perf_counter()
        assert reactor.pass_began_cpu <= time.thread_time()
    assert told[0][0] <= told[0][1]
    reactor.close()
