"""Peers that close one direction of their connection."""

import socket

import trio

from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.command import request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.net.channel_limits import FRAMES_AT_ONCE
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from tests.runtime.channels import BLOB, ECHO, Peer

BLOBS = 6
"""Replies of 8 MiB: more than sockets hold."""


async def replies_until_end(stream: trio.SocketStream) -> int:
    decoder, count = FrameDecoder(), 0
    while data := await stream.receive_some():
        count += len(decoder.feed(data))
    assert not decoder.buffered
    return count


async def connect(peer: Peer) -> trio.SocketStream:
    host, _, port = peer.address.rpartition(":")
    return await trio.open_tcp_stream(host, int(port))


async def test_requests_before_the_end_get_their_replies(peer: Peer) -> None:
    """Those that the sockets had no room for were dropped."""
    async with await connect(peer) as stream:
        await stream.send_all(encode_command(request(BLOB)) * BLOBS)
        await stream.send_eof()
        while not any(channel._has_ended or channel._owed for channel in peer.server.channels):
            await trio.lowlevel.checkpoint()
        assert await replies_until_end(stream) == BLOBS
    assert not peer.server.channels


async def test_more_requests_than_are_served_at_once_get_their_replies(peer: Peer) -> None:
    async with await connect(peer) as stream:
        await stream.send_all(encode_command(request(ECHO)) * FRAMES_AT_ONCE * 5)
        await stream.send_eof()
        assert await replies_until_end(stream) == FRAMES_AT_ONCE * 5


async def test_a_peer_that_is_owed_nothing_is_gone_at_once(peer: Peer) -> None:
    """The process may have died: its broker or its groups must leave the tables."""
    async with await connect(peer) as stream:
        await stream.send_all(encode_command(request(ECHO)))
        await stream.receive_some()
        await stream.send_eof()
        assert await replies_until_end(stream) == 0
    assert not peer.server.channels


async def test_a_peer_that_dies_while_it_is_owed_much_is_gone_soon(peer: Peer) -> None:
    stream = await connect(peer)
    await stream.send_all(encode_command(request(BLOB)) * BLOBS)
    await stream.receive_some()
    await stream.aclose()
    with trio.fail_after(20):
        while peer.server.channels:
            await trio.lowlevel.checkpoint()


async def test_a_client_waits_for_no_response_after_the_end(reactor: Reactor, own_host: str) -> None:
    """Although it still owes the server a part of its request."""
    listener = socket.create_server((own_host, 0))
    listener.setblocking(False)
    client = RemotingClient(reactor)
    address = f"{own_host}:{listener.getsockname()[1]}"
    lost: list[str] = []

    async def ask() -> None:
        try:
            await client.request(address, request(ECHO, body=b"x" * 7 * 2**20), 60)
        except Exception as exc:  # noqa: BLE001 - its kind is what is tested
            lost.append(type(exc).__name__)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.lowlevel.wait_readable(listener)
            accepted, _ = listener.accept()
            await trio.lowlevel.wait_readable(accepted)
            accepted.shutdown(socket.SHUT_WR)
    accepted.close()
    listener.close()
    client.close()
    assert lost == ["ConnectionLostError"]
