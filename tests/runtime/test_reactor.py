"""One pass over the ready sockets and calls, and their order."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from rmqlab.runtime.reactor import READ, Reactor


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


def test_what_is_urgent_is_done_to_its_end_before_the_others_have_their_turn(
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
