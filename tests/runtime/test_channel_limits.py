"""What a channel owes its peer is limited, and one peer does not hold up another."""

import contextlib
import gc
import socket
import struct
import weakref

import pytest
import trio
import trio.testing

from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.command import request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.net.channel_limits import FRAMES_AT_ONCE, HIGH_WATER, PARKED_COST
from rmqlab.runtime.net.dispatch import Reply
from rmqlab.runtime.net.reactor import Reactor
from tests.runtime.channels import BLOB, ECHO, PARK, Peer


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


def _dial(address: str, data: bytes) -> socket.socket:
    """Connect and send before the event loop runs: the server reads all in one pass."""
    sock = socket.create_connection(_host_port(address))
    sock.setblocking(False)
    sent = sock.send(data)
    assert sent == len(data)
    return sock


async def _read_replies(sock: socket.socket, wanted: int) -> int:
    decoder, got = FrameDecoder(), 0
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    while got < wanted:
        got += len(decoder.feed(await stream.receive_some()))
    return got


async def _all_quiet(reactor: Reactor) -> None:
    """Wait until the reactor has nothing to do."""
    while reactor._again or reactor._selector.select(0):
        await trio.lowlevel.checkpoint()


async def _wait_for_ten_parked(peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until ten requests are parked, which is the limit from now on."""
    monkeypatch.setattr("rmqlab.runtime.net.channel.MAX_PARKED", 10 * PARKED_COST)
    monkeypatch.setattr("rmqlab.runtime.net.channel.SCARCE_MAX_PARKED", 10 * PARKED_COST)
    while len(peer.parked) < 10:
        await trio.lowlevel.checkpoint()
    await _all_quiet(reactor)


async def test_replies_written_in_one_pass_count_at_once(peer: Peer, reactor: Reactor) -> None:
    """Requests that arrive together wait while the first replies are not read."""
    requests = 60
    with _dial(peer.address, encode_command(request(BLOB)) * requests) as sock:
        while not any(channel.is_congested for channel in peer.server.channels):
            await trio.lowlevel.checkpoint()
        await _all_quiet(reactor)
        (channel,) = peer.server.channels
        assert channel._owed <= 2 * HIGH_WATER
        assert reactor.owed == channel._owed
        assert not channel.is_closed
        assert await _read_replies(sock, requests) == requests
        assert reactor.owed == channel._owed == 0


async def test_one_peer_with_many_requests_does_not_hold_up_another(peer: Peer) -> None:
    many = encode_command(request(ECHO, {"from": "many"})) * 1000
    with _dial(peer.address, many) as first, _dial(peer.address, encode_command(request(ECHO, {"from": "one"}))):
        await _read_replies(first, 1000)
    order = [command.ext_fields["from"] for command in peer.received]
    assert order.index("one") <= 2 * FRAMES_AT_ONCE
    assert len(order) == 1001


@pytest.mark.parametrize(("of_a_channel", "of_a_pass"), [(0.0, 60.0), (60.0, 0.0)])
async def test_one_peer_with_long_requests_does_not_hold_up_another(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, of_a_channel: float, of_a_pass: float
) -> None:
    """200 pipelined requests of 40 ms each stopped a nameserver for a second.

    That occurred with few requests per pass, too. 3000 peers with 20 ms each stopped it for 10 s.
    """
    monkeypatch.setattr("rmqlab.runtime.net.channel.SECONDS_AT_ONCE", of_a_channel)
    monkeypatch.setattr("rmqlab.runtime.net.channel.PASS_SECONDS", of_a_pass)
    many = encode_command(request(ECHO, {"from": "many"})) * 40
    with _dial(peer.address, many) as first, _dial(peer.address, encode_command(request(ECHO, {"from": "one"}))):
        await _read_replies(first, 40)
    order = [command.ext_fields["from"] for command in peer.received]
    assert order.index("one") < 20
    assert len(order) == 41


async def test_received_frames_of_all_peers_that_wait_are_limited(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peers with 4000 small frames each took gigabytes.

    The frames waited as objects.
    """
    monkeypatch.setattr("rmqlab.runtime.net.channel.SECONDS_AT_ONCE", 0.0)
    monkeypatch.setattr("rmqlab.runtime.net.channel.PROCESS_MAX_KEPT", 100)
    frame = encode_command(request(ECHO))
    monkeypatch.setattr("rmqlab.runtime.net.channel.SCARCE_RECEIVE", 2 * len(frame))
    with _dial(peer.address, frame * 500), _dial(peer.address, frame * 500), _dial(peer.address, frame * 500) as third:
        while len(peer.server.channels) < 3:
            await trio.lowlevel.checkpoint()
        most = 0
        while not peer.received:
            most = max(most, reactor.kept)
            await trio.lowlevel.checkpoint()
        assert max(most, reactor.kept) < 600
        await _read_replies(third, 500)
        peer.server.close()
        assert reactor.kept == 0


async def test_requests_with_outstanding_replies_are_limited(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _dial(peer.address, encode_command(request(PARK)) * 30) as sock:
        await _wait_for_ten_parked(peer, reactor, monkeypatch)
        assert len(peer.parked) == 10
        answered = 0
        while answered < 30:
            while answered == len(peer.parked):
                await trio.lowlevel.checkpoint()
            peer.parked[answered].reply(Reply())
            answered += 1
        assert await _read_replies(sock, 30) == 30
        assert reactor.parked == 0


async def test_oneway_requests_that_wait_are_limited_too(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get no reply, and hold memory as others do, such as a held pull."""
    with _dial(peer.address, encode_command(request(PARK, oneway=True)) * 30):
        await _wait_for_ten_parked(peer, reactor, monkeypatch)
        assert len(peer.parked) == 10
        for answered in range(30):
            while answered == len(peer.parked):
                await trio.lowlevel.checkpoint()
            peer.parked[answered].reply(Reply())
        assert (reactor.parked, reactor.owed) == (0, 0)


async def test_a_peer_that_is_not_read_and_resets_its_connection_leaves_no_busy_loop(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epoll reports a reset in each pass, whatever events are watched."""
    with _dial(peer.address, encode_command(request(PARK)) * 30) as sock:
        await _wait_for_ten_parked(peer, reactor, monkeypatch)
        (channel,) = peer.server.channels
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert reactor.run_pass(wait=5)
    assert channel.is_closed
    assert not peer.server.channels
    assert reactor.parked == 0
    assert not reactor.run_pass()


async def test_a_closed_channel_owes_nothing(peer: Peer, reactor: Reactor) -> None:
    with _dial(peer.address, encode_command(request(BLOB)) * 10 + encode_command(request(PARK))):
        while not reactor.owed:
            await trio.lowlevel.checkpoint()
        await _all_quiet(reactor)
    peer.server.close()
    assert (reactor.owed, reactor.parked, reactor.buffered) == (0, 0, 0)


async def test_parked_requests_of_a_closed_channel_do_not_count(peer: Peer, reactor: Reactor) -> None:
    with _dial(peer.address, encode_command(request(PARK))):
        while not peer.parked:
            await trio.lowlevel.checkpoint()
    assert reactor.parked > 0
    while not peer.parked[0].channel.is_closed:
        await trio.lowlevel.checkpoint()
    peer.parked[0].reply(Reply())
    assert reactor.parked == 0


async def test_unfinished_frames_of_all_peers_are_limited(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqlab.runtime.net.channel.PROCESS_MAX_BUFFERED", 30_000)
    part = encode_command(request(ECHO, body=b"x" * 100_000))[:20_000]
    with _dial(peer.address, part), _dial(peer.address, part) as second:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(second))
        assert await stream.receive_some() == b""
        (channel,) = peer.server.channels
        assert reactor.buffered == channel._buffered == 20_000
        channel.close("enough")
        assert reactor.buffered == 0


async def test_an_unfinished_frame_of_a_closed_channel_is_freed_at_once(peer: Peer, reactor: Reactor) -> None:
    """Otherwise clients that end within frames leave up to 16 MB each."""
    with _dial(peer.address, encode_command(request(ECHO, body=b"x" * 100_000))[:20_000]):
        while reactor.buffered < 20_000:
            await trio.lowlevel.checkpoint()
        (channel,) = peer.server.channels
        freed = weakref.ref(channel)
        gc.disable()
        try:
            channel.close("enough")
            assert channel._decoder.buffered == 0
            del channel
            await _all_quiet(reactor)
            assert freed() is None
        finally:
            gc.enable()


async def test_a_congested_channel_calls_back_when_it_has_drained(peer: Peer, reactor: Reactor) -> None:
    drained: list[bool] = []
    with _dial(peer.address, encode_command(request(BLOB)) * 4) as sock:
        while not any(channel.is_congested for channel in peer.server.channels):
            await trio.lowlevel.checkpoint()
        (channel,) = peer.server.channels
        channel.when_drained(lambda: drained.append(channel.is_congested))
        await _all_quiet(reactor)
        assert drained == []
        await _read_replies(sock, 4)
        while not drained:
            await trio.lowlevel.checkpoint()
        assert drained == [False]


async def test_bytes_that_many_slow_peers_wait_for_are_copied_once(peer: Peer, reactor: Reactor) -> None:
    """Each peer gets views of one message.

    What their sockets do not take is one object in memory.
    """
    message = bytes(range(256)) * 60 * 1024  # 15 MB: more than the buffers of a loopback socket
    socks = [_dial(peer.address, encode_command(request(PARK))) for _ in range(3)]
    while len(peer.parked) < 3:
        await trio.lowlevel.checkpoint()

    def respond() -> None:
        for parked in peer.parked:
            parked.reply(Reply(body=memoryview(message)))

    reactor.run(respond)
    kept = [parked.channel._out.buffers[-1] for parked in peer.parked]
    assert all(one is kept[0] for one in kept)
    for sock in socks:
        assert await _read_replies(sock, 1) == 1
        sock.close()


@pytest.mark.parametrize(
    "limits",
    [{"MAX_OWED": 2**20}, {"PROCESS_HIGH_WATER": 2**20, "PROCESS_MAX_OWED": 2**20}],
    ids=["this peer", "all peers"],
)
async def test_a_peer_that_is_owed_too_much_is_closed(
    peer: Peer, reactor: Reactor, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(f"rmqlab.runtime.net.channel.{name}", limit)
    reply_size, received = 8 * 2**20, 0
    with _dial(peer.address, encode_command(request(BLOB))) as sock:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        with contextlib.suppress(trio.BrokenResourceError):
            while received < reply_size and (data := await stream.receive_some()):
                received += len(data)
    assert received < reply_size
    assert reactor.owed == 0


async def test_waiters_of_a_congested_channel_are_called_once_it_can_serve_again(peer: Peer, reactor: Reactor) -> None:
    called: list[bool] = []
    with _dial(peer.address, encode_command(request(BLOB)) * 3) as sock:
        while not any(channel.is_congested for channel in peer.server.channels):
            await trio.lowlevel.checkpoint()
        (channel,) = peer.server.channels
        channel.when_drained(lambda: called.append(channel.is_congested))
        await _all_quiet(reactor)
        assert called == []
        await _read_replies(sock, 3)
        await _all_quiet(reactor)
        assert called == [False]


async def test_small_replies_are_not_held_back_by_the_system(peer: Peer) -> None:
    with _dial(peer.address, encode_command(request(PARK))):
        while not peer.parked:
            await trio.lowlevel.checkpoint()
        (channel,) = peer.server.channels
        assert isinstance(channel._sock, socket.socket)
        assert channel._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
