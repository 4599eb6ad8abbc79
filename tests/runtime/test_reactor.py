"""One pass over the ready sockets and calls, and their order."""

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest

from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.command import request
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.reactor import READ, Reactor


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with contextlib.ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(4)]
        for pair in pairs:
            for end in pair:
                stack.enter_context(end)
        yield pairs


def test_urgent_sockets_are_finished_before_the_others(
    reactor: Reactor, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    done: list[str] = []

    def note(name: str) -> None:
        done.append(name)
        reactor.defer(lambda: done.append(f"end of {name}"))

    for number, (ours, theirs) in enumerate(pairs):
        is_urgent = number == 2
        name = "urgent" if is_urgent else "other"
        reactor.register(ours, READ, lambda _events, name=name: note(name), is_urgent=is_urgent)  # type: ignore[misc]
        theirs.send(b"x")
    assert reactor.run_pass()
    assert done == ["urgent", "end of urgent", *["other"] * 3, *["end of other"] * 3]
    reactor.unregister(pairs[2][0])
    done.clear()
    assert reactor.run_pass()
    assert done == [*["other"] * 3, *["end of other"] * 3]


def test_a_pass_in_which_nothing_is_ready_says_so(
    reactor: Reactor, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    reactor.register(pairs[0][0], READ, lambda _events: None)
    assert not reactor.run_pass()


def test_a_pass_serves_one_only_while_its_only_frame_is_served(reactor: Reactor) -> None:
    """What is appended then cannot share a send to the slaves with anything else."""
    found: list[bool] = []
    frame = encode_command(request(10))

    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(2)]
        ours = [stack.enter_context(listener.accept()[0]) for _ in peers]
        for sock in ours:
            Channel(reactor, sock, lambda _channel, _command: found.append(reactor.serves_one), now=lambda: 0.0)
        for frames in ((1, 0), (2, 0), (1, 1), (0, 1)):
            for peer, sock, count in zip(peers, ours, frames, strict=True):
                if count:
                    peer.sendall(frame * count)
                    select.select([sock], [], [])
            while len(found) < sum(frames):
                reactor.run_pass()
            assert found == [sum(frames) == 1] * sum(frames)
            assert not reactor.serves_one
            found.clear()
