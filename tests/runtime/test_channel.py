"""Channels and the client on top of them, over loopback sockets."""

import errno
import socket

import pytest
import trio
import trio.testing

from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.net.channel_limits import FRAMES_PER_PASS, HIGH_WATER
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Route, handler_table
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import ConnectError, ConnectionLostError, RequestTimeoutError
from rmqlab.runtime.net.server import AddressTakenError, open_listener
from tests.runtime.channels import BLOB, ECHO, FAIL, PARK, Peer


@pytest.mark.parametrize("serialize_type", [0, 1])
async def test_the_reply_uses_the_codec_of_the_request(peer: Peer, client: RemotingClient, serialize_type: int) -> None:
    """remoting#3."""
    reply = await client.request(peer.address, request(ECHO, {"a": "b"}, b"body", serialize_type=serialize_type), 3)
    assert (reply.serialize_type, reply.ext_fields, reply.body) == (serialize_type, {"a": "b"}, b"body")
    assert reply.flag == 1


async def test_replies_find_their_requests_in_any_order(peer: Peer, client: RemotingClient) -> None:
    got: dict[str, bytes] = {}

    async def ask(name: str) -> None:
        reply = await client.request(peer.address, request(PARK, {"name": name}), 3)
        got[name] = reply.body

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(ask, name)
        while len(peer.parked) < 3:
            await trio.lowlevel.checkpoint()
        for parked in reversed(peer.parked):
            parked.reply(Reply(body=parked.command.ext_fields["name"].encode()))
    assert got == {"a": b"a", "b": b"b", "c": b"c"}


async def test_concurrent_requests_share_one_connection(peer: Peer, client: RemotingClient) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(client.request, peer.address, request(ECHO), 3)
    assert len(peer.server.channels) == 1


async def test_a_client_that_is_closed_connects_no_more(peer: Peer, client: RemotingClient) -> None:
    """A connect that ends late must not leave an open connection behind."""
    async with trio.open_nursery() as nursery:
        failures: list[str] = []

        async def connect() -> None:
            try:
                await client.channel(peer.address)
            except ConnectError as exc:
                failures.append(str(exc))

        nursery.start_soon(connect)
        await trio.lowlevel.checkpoint()
        client.close()
    await connect()
    assert len(failures) == 2
    assert all("the client is closed" in failure for failure in failures)


async def test_a_oneway_request_is_carried_out_and_never_answered(peer: Peer, client: RemotingClient) -> None:
    """remoting#10."""
    await client.send_oneway(peer.address, request(ECHO, {"quiet": "yes"}))
    reply = await client.request(peer.address, request(ECHO, {"loud": "yes"}), 3)
    assert [command.ext_fields for command in peer.received] == [{"quiet": "yes"}, {"loud": "yes"}]
    assert reply.ext_fields == {"loud": "yes"}


async def test_losing_the_connection_ends_the_wait_at_once(peer: Peer, client: RemotingClient) -> None:
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ConnectionLostError):
                await client.request(peer.address, request(PARK), 60)

        nursery.start_soon(ask)
        while not peer.parked:
            await trio.lowlevel.checkpoint()
        peer.server.close()
    assert client.connected(peer.address) is None


async def test_a_timed_out_request_closes_the_connection(peer: Peer, client: RemotingClient) -> None:
    with pytest.raises(RequestTimeoutError, match=r"within (the \d ms left of )?10 ms$"):
        await client.request(peer.address, request(PARK), 0.01)
    assert client.connected(peer.address) is None


async def test_several_requests_at_once_get_their_own_responses(peer: Peer, client: RemotingClient) -> None:
    commands = [request(ECHO, {"number": str(number)}) for number in range(50)]
    replies = await client.request_all(peer.address, commands, 3)
    assert [reply and reply.ext_fields["number"] for reply in replies] == [str(number) for number in range(50)]
    assert await client.request_all(peer.address, [], 3) == []
    assert client.connected(peer.address) is not None


async def test_requests_at_once_that_time_out_close_the_connection(peer: Peer, client: RemotingClient) -> None:
    await client.channel(peer.address)
    assert await client.request_all(peer.address, [request(PARK), request(PARK)], 0.01) == [None, None]
    assert client.connected(peer.address) is None


async def test_requests_at_once_end_with_their_connection(peer: Peer, client: RemotingClient) -> None:
    replies: list[Command | None] = []

    async def ask() -> None:
        replies.extend(await client.request_all(peer.address, [request(ECHO), request(PARK)], 60))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not peer.parked:
            await trio.lowlevel.checkpoint()
        peer.server.close()
    assert [reply is None for reply in replies] == [False, True]


async def test_all_requests_waiting_for_a_connection_get_its_failure(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each task would wait for a connect time-out of its own, in turn."""
    attempts: list[str] = []

    async def fail(address: str, **_settings: object) -> None:
        attempts.append(address)
        await trio.testing.wait_all_tasks_blocked()
        raise ConnectError("nobody there")

    monkeypatch.setattr("rmqlab.runtime.net.remoting_client.open_connection", fail)
    client = RemotingClient(reactor)
    failures: list[str] = []

    async def ask() -> None:
        try:
            await client.channel("127.0.0.1:1")
        except ConnectError as exc:
            failures.append(str(exc))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert failures == ["nobody there"] * 5
    assert attempts == ["127.0.0.1:1"]


async def test_a_peer_that_resets_at_once_is_a_connect_error(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(_address: str, **_settings: object) -> socket.socket:
        await trio.lowlevel.checkpoint()
        return socket.socket()  # has no peer, as one that was reset

    monkeypatch.setattr("rmqlab.runtime.net.remoting_client.open_connection", connect)
    with pytest.raises(ConnectError):
        await client.channel("127.0.0.1:1")


async def test_a_refused_connection_raises_a_connect_error(client: RemotingClient, own_host: str) -> None:
    free = open_listener(own_host, 0)
    address = "{}:{}".format(*free.getsockname())
    free.close()
    with pytest.raises(ConnectError, match=address):
        await client.request(address, request(ECHO), 3)


async def test_a_process_without_a_free_descriptor_gets_a_connect_error(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.14: background loops handle connect errors, and end at any other."""

    def fail(*_args: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("trio.socket.socket", fail)
    with pytest.raises(ConnectError, match="Too many open files"):
        await client.request("127.0.0.1:1", request(ECHO), 3)


async def test_a_handler_that_fails_is_answered_with_code_one(peer: Peer, client: RemotingClient) -> None:
    """broker-requests#8: and the connection lives on."""
    for _ in range(2):
        reply = await client.request(peer.address, request(FAIL), 3)
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "RuntimeError: on purpose")
    assert len(peer.server.channels) == 1


class NoMemory:
    """The size of a receive that fails."""

    @property
    def bytes(self) -> int:
        raise MemoryError


async def test_a_channel_that_has_no_memory_is_closed(
    peer: Peer, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed ready, and failed in each pass of the event loop."""
    await client.request(peer.address, request(ECHO), 3)
    (channel,) = peer.server.channels
    monkeypatch.setattr(channel, "_receive_size", NoMemory())
    with pytest.raises(ConnectionLostError):
        await client.request(peer.address, request(ECHO), 3)
    assert channel.is_closed
    assert (await client.request(peer.address, request(ECHO), 3)).code == ResponseCode.SUCCESS


async def test_a_peer_that_does_not_read_is_not_read_from_either(peer: Peer) -> None:
    """Data for the peer is bounded: no request is served until it reads its replies."""
    async with await trio.open_tcp_stream(*_host_port(peer.address)) as stream:
        asked = 0
        while not any(channel._owed >= HIGH_WATER for channel in peer.server.channels):
            await stream.send_all(encode_command(request(BLOB)))
            asked += 1
            await trio.lowlevel.checkpoint()
        (channel,) = peer.server.channels
        for _ in range(100):  # these it could read, if it wanted to
            await stream.send_all(encode_command(request(BLOB)))
            await trio.lowlevel.checkpoint()
        assert channel._owed < 4 * HIGH_WATER
        assert not channel.is_closed


async def test_many_requests_at_once_are_handled_in_portions(peer: Peer) -> None:
    """So that the first replies leave while the last requests still wait.

    A large frame in between changes little.
    """
    small, large = (encode_command(request(ECHO, body=b"x" * size)) for size in (300, 2**20))
    async with await trio.open_tcp_stream(*_host_port(peer.address)) as stream:
        for data, replies in ((small * 200, 200), (small * 200, 200), (large, 1), (small * 200, 200)):
            handled_before, decoder, got = peer.in_pass.copy(), FrameDecoder(), 0
            await stream.send_all(data)
            while got < replies:
                got += len(decoder.feed(await stream.receive_some()))
            portions = (peer.in_pass - handled_before).values()
            assert sum(portions) == replies
    assert max(portions) <= 2 * FRAMES_PER_PASS


async def test_a_taken_port_is_named() -> None:
    with open_listener("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressTakenError, match=f"127.0.0.1:{port}"):
            open_listener("127.0.0.1", port)


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        "x",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "127.0.0.1:65536",
        "[::1]:99999",
        "\0:1",
        "a" * 5000 + ":1",
    ],
)
async def test_an_invalid_address_is_an_error_that_names_it(client: RemotingClient, address: str) -> None:
    """A nameserver sends what brokers registered."""
    with pytest.raises(ConnectError) as caught:
        await client.request(address, request(ECHO), 3)
    assert str(caught.value) == f"no connection to {shown(address)}: expected host:port"


async def test_a_server_may_ask_its_client(peer: Peer, reactor: Reactor) -> None:
    """remoting-and-nameserver section 1.2: both sides send requests with own opaques."""
    answers = Route[object](ECHO, None, lambda _state, _header, _request: Reply(body=b"from the client"))
    client = RemotingClient(reactor, Dispatcher(handler_table([answers]), None))
    await client.request(peer.address, request(ECHO), 3)
    (channel,) = peer.server.channels
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.request, peer.address, request(ECHO), 3)
        reply = await channel.request(request(ECHO), 3)
    assert reply.body == b"from the client"
    client.close()


async def test_an_unreadable_response_closes_only_its_connection(peer: Peer, client: RemotingClient) -> None:
    def choke(_response: Command | None) -> None:
        raise ValueError("unreadable")

    channel = await client.channel(peer.address)
    channel.send_request(request(ECHO), choke)
    with pytest.raises(ConnectionLostError, match="unreadable"):
        await channel.request(request(PARK), 3)
    assert (await client.request(peer.address, request(ECHO), 3)).code == ResponseCode.SUCCESS


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


async def test_opaques_wrap_around_before_they_exceed_32_bits(peer: Peer, client: RemotingClient) -> None:
    channel = await client.channel(peer.address)
    channel._requests._last = 0x7FFFFFFE
    for _ in range(3):
        reply = await client.request(peer.address, request(ECHO, serialize_type=1), 3)
        assert 0 <= reply.opaque <= 0x7FFFFFFF


@pytest.mark.parametrize("arrives", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_foreign_protocol_is_closed_and_logged_once_per_host(
    peer: Peer, client: RemotingClient, caplog: pytest.LogCaptureFixture, arrives: bytes
) -> None:
    """issue 12.15"""
    for _ in range(3):
        stream = await trio.open_tcp_stream(*_host_port(peer.address))
        async with stream:
            await stream.send_all(arrives)
            with trio.fail_after(10):
                assert await stream.receive_some() == b""
    assert caplog.text.count("sent HTTP") == 1
    assert (await client.request(peer.address, request(ECHO), 3)).code == ResponseCode.SUCCESS
