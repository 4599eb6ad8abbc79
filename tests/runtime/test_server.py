"""A live server on loopback: connections, handlers, idle peers and limits."""

import errno
import os
import resource
import socket
import time
from typing import NoReturn

import pytest
import trio
import trio.testing

from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import ONEWAY, Command, request
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.server import Acceptor, AddressTakenError, default_max_connections, open_listener
from tests.runtime.live_server import json_frame, serving


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


async def test_a_frame_may_arrive_byte_by_byte() -> None:
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
        assert not running.server.channels


@pytest.mark.parametrize("_time", range(5))
async def test_bytes_received_during_a_stall_are_read_before_idle_connections_are_closed(
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
        await peer.send(request(10, {"queueId": "many"}))  # invalid counts as missing, which is allowed
        reply = await peer.next()
        assert (reply.code, reply.ext_fields) == (ResponseCode.SUCCESS, {})
        await peer.send(request(34))
        assert (await peer.next()).code == 0


async def test_a_taken_address_is_an_error_that_names_it() -> None:
    async with serving() as running:
        with pytest.raises(AddressTakenError, match=f"127.0.0.1:{running.port}"):
            open_listener("127.0.0.1", running.port)


async def test_peers_without_a_request_make_room_for_others(caplog: pytest.LogCaptureFixture) -> None:
    """Peers that send a byte now and then are never idle.

    20,000 of them kept all clients out.
    """
    async with serving(max_connections=3) as running:
        first, mute, honest = [await running.connect() for _ in range(3)]
        await honest.send(request(34))
        assert (await honest.next()).code == 0
        await first.stream.send_all(json_frame({"code": 34})[:-1])
        newcomer = await running.connect()
        await newcomer.send(request(34))
        assert (await newcomer.next()).code == 0
        assert await first.wait_closed() == await mute.wait_closed() == b""
        last = await running.connect()
        await last.send(request(34))
        assert (await last.next()).code == 0
        rejected = await running.connect()
        assert await rejected.wait_closed() == b""
        await honest.send(request(34))
        assert (await honest.next()).code == 0
    assert caplog.text.count("connection closed for a newer one: no request, and 3 connections are the maximum") == 1
    assert caplog.text.count("connection rejected: 3 connections, the maximum") == 1


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(4096, 2048), (1_048_576, 20_000), (resource.RLIM_INFINITY, 20_000)]
)
def test_connections_leave_descriptors_to_files(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, connections: int
) -> None:
    """A broker without a free descriptor opens no file.

    It cannot connect to its nameserver, either.
    """
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (descriptors, descriptors))
    assert default_max_connections() == connections


def test_a_server_can_have_another_share_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 1024))
    assert default_max_connections(0.75) == 768


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
        f"cannot accept at {acceptor.address}: Too many open files: connections are rejected"
    ]
    peers.append(socket.create_connection(acceptor.address))
    reactor.run_pass()
    assert len(accepted) == 1
    acceptor.close()
    reactor.close()
    for sock in [*peers, *accepted]:
        sock.close()


async def test_the_spare_descriptor_may_be_lost_to_another_process(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be that of another file then, which must stay open.

    The connections in the backlog must not keep the event loop busy.
    """
    accepted: list[socket.socket] = []
    async with open_reactor() as reactor:
        acceptor = Acceptor(reactor, open_listener("127.0.0.1", 0), accepted.append)
        with monkeypatch.context() as patched:
            tries = 0

            def no_descriptor(*_args: object) -> NoReturn:
                nonlocal tries
                tries += 1
                _raise_no_descriptor()

            patched.setattr(socket.socket, "accept", no_descriptor)
            patched.setattr(os, "open", no_descriptor)
            lost = acceptor._spare
            peers = [socket.create_connection(acceptor.address)]
            while not tries:
                await trio.lowlevel.checkpoint()
            assert acceptor._spare is None
            other = socket.socket()
            assert other.fileno() == lost
            before = tries
            mock_clock.jump(1.5)
            while tries == before:
                await trio.lowlevel.checkpoint()
            assert not reactor.run_pass()
        assert other.fileno() == os.dup2(other.fileno(), other.fileno())
        mock_clock.jump(1.5)
        while not accepted:
            await trio.lowlevel.checkpoint()
        assert not reactor.errors.counts
        acceptor.close()
        for sock in [*peers, *accepted, other]:
            sock.close()


async def test_an_acceptor_may_close_while_it_waits_for_a_descriptor(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_reactor() as reactor:
        acceptor = Acceptor(reactor, open_listener("127.0.0.1", 0), socket.socket.close)
        monkeypatch.setattr(acceptor, "_shed", lambda _exc: False)
        with monkeypatch.context() as patched, socket.create_connection(acceptor.address):
            patched.setattr(socket.socket, "accept", _raise_no_descriptor)
            while not acceptor._is_paused:
                await trio.lowlevel.checkpoint()
            acceptor.close()
        mock_clock.jump(1.5)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not reactor.errors.counts


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOBUFS])
async def test_an_acceptor_waits_while_the_system_has_no_memory(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The connection stays in the backlog, so the listening socket stays ready."""
    accepted: list[socket.socket] = []

    def fail(*_args: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    async with open_reactor() as reactor:
        acceptor = Acceptor(reactor, open_listener("127.0.0.1", 0), accepted.append)
        with socket.create_connection(acceptor.address):
            with monkeypatch.context() as patched:
                patched.setattr(socket.socket, "accept", fail)
                for _ in range(100):
                    await trio.lowlevel.checkpoint()
            assert acceptor._is_paused
            mock_clock.jump(1.5)
            while not accepted:
                await trio.lowlevel.checkpoint()
        acceptor.close()
        accepted[0].close()


def _raise_no_descriptor(*_args: object) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_pass_records_its_start_time() -> None:
    """The requests in a pass are as old as its begin, also late ones of a fault.

    Those are in a pass of their own.
    """
    reactor = Reactor()
    times: list[tuple[float, float]] = []
    for make in (
        reactor.run_pass,
        lambda: reactor.run(lambda: times.append((reactor.pass_began, time.perf_counter()))),
    ):
        before = time.perf_counter()
        make()
        assert before <= reactor.pass_began <= time.perf_counter()
        assert reactor.pass_began_cpu <= time.thread_time()
    assert times[0][0] <= times[0][1]
    reactor.close()
