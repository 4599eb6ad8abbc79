"""Streams between the supervisor and its nodes."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.pipe import PipeEnd, pipe
from tests.simulation.machines import begin, pass_time


class Pair:
    """Two nodes with a pipe between them."""

    def __init__(self, near: Callable[["Pair"], Awaitable[object]], far: Callable[["Pair"], Awaitable[object]]) -> None:
        self.machine = Machine("1")
        self.seen: list[object] = []
        self.near_node: Node = begin(self.machine, lambda: near(self), "near")
        self.far_node: Node = begin(self.machine, lambda: far(self), "far")
        self.near: PipeEnd
        self.far: PipeEnd
        self.near, self.far = pipe(self.machine, self.near_node, self.far_node)


async def send(pair: Pair) -> None:
    for text in (b"one", b"two"):
        await trio.sleep(1.0)
        await pair.near.send_all(text)
    await pair.near.aclose()


async def wait(_pair: Pair) -> None:
    await trio.sleep_forever()


async def receive(pair: Pair) -> None:
    while data := await pair.far.receive_some():
        pair.seen.append((trio.current_time(), data))
    pair.seen.append("end")


def test_bytes_and_the_end_arrive_at_once() -> None:
    pair = Pair(send, receive)
    pass_time(pair.machine)
    assert pair.seen == [(1.0, b"one"), (2.0, b"two"), "end"]


def test_a_paused_node_receives_them_when_it_is_resumed() -> None:
    pair = Pair(send, receive)
    pass_time(pair.machine, 0.5)
    pair.machine.pause(pair.far_node)
    pass_time(pair.machine, 9.5)
    assert pair.seen == []
    pair.machine.resume(pair.far_node)
    pass_time(pair.machine)
    assert pair.seen == [(10.0, b"one"), (10.0, b"two"), "end"]


def test_the_pipe_of_a_killed_node_ends() -> None:
    pair = Pair(wait, receive)
    pass_time(pair.machine, 1.0)
    pair.machine.kill(pair.near_node)
    pass_time(pair.machine)
    assert pair.seen == ["end"]


def test_parts_of_a_piece_are_received_one_after_the_other() -> None:
    async def sip(pair: Pair) -> None:
        for _ in range(3):
            pair.seen.append(await pair.far.receive_some(2))

    pair = Pair(send, sip)
    pass_time(pair.machine)
    assert pair.seen == [b"on", b"e", b"tw"]


def test_a_closed_end_cannot_be_used_nor_sent_to() -> None:
    async def misuse(pair: Pair) -> None:
        await pair.near.aclose()
        await pair.near.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await pair.near.send_all(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await pair.near.receive_some()
        pair.seen.append("closed")

    async def send_late(pair: Pair) -> None:
        await trio.sleep(1.0)
        await pair.far.wait_send_all_might_not_block()
        with pytest.raises(trio.BrokenResourceError):
            await pair.far.send_all(b"x")
        pair.seen.append("broken")

    pair = Pair(misuse, send_late)
    pass_time(pair.machine)
    assert pair.seen == ["closed", "broken"]
