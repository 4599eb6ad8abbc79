"""An exception ends at its boundary: counted, logged at a limited rate, survived."""

import contextlib
import logging
import socket
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.boundary import FIRST_PAUSE, FatalError, InternalErrors
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.reactor import READ, Reactor
from rmqlab.runtime.net.server import open_listener
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.controlmessages import SnapshotRequest


def fail(*_args: object) -> None:
    raise RuntimeError("planted")


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with contextlib.ExitStack() as stack:
        with open_listener("127.0.0.1", 0) as listener:
            theirs = stack.enter_context(socket.create_connection(listener.getsockname()))
            ours = stack.enter_context(listener.accept()[0])
        theirs.settimeout(30)
        yield ours, theirs


def test_of_many_failures_at_one_place_few_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    errors = InternalErrors()
    for _ in range(1234):
        assert not errors.call("here", fail)
    assert errors.call("there", lambda: None)
    assert errors.counts == {"here": 1234}
    assert [record.args for record in caplog.records] == [("here", 1), ("here", 10), ("here", 100), ("here", 1000)]


def test_a_fatal_error_passes() -> None:
    def end() -> None:
        raise FatalError("the disk was taken out")

    with pytest.raises(FatalError, match="taken out"):
        InternalErrors().call("here", end)


async def test_a_loop_that_fails_runs_again_after_pauses_that_double(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert autojump_clock.rate == 0  # time passes by jumps only
    runs: list[float] = []
    errors = InternalErrors()

    async def loop() -> None:
        runs.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        raise RuntimeError("planted")

    with trio.move_on_after(8 * FIRST_PAUSE):
        await errors.keep_running("loop", loop)
    assert [moment - runs[0] for moment in runs] == [0, FIRST_PAUSE, 3 * FIRST_PAUSE, 7 * FIRST_PAUSE]
    assert errors.counts == {"loop": 4}
    assert caplog.records[0].levelno == logging.ERROR


def test_a_pass_continues_after_callbacks_and_deferred_calls_that_raise(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    done: list[str] = []
    ours, theirs = pair
    reactor.register(ours, READ, fail)
    theirs.send(b"x")

    def defer_two() -> None:
        reactor.defer(fail)
        reactor.defer(lambda: done.append("deferred"))

    reactor.run(defer_two)
    assert reactor.run_pass()
    assert done == ["deferred"]
    assert reactor.errors.counts == {"socket callback": 1, "deferred call": 1}


async def test_a_timer_that_raises_does_not_end_the_timers(autojump_clock: MockClock) -> None:
    assert autojump_clock.rate == 0
    reactor = Reactor()
    done = trio.Event()
    reactor.timers.call_at(trio.current_time() + 1, fail)
    reactor.timers.call_at(trio.current_time() + 2, done.set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reactor.timers.run_forever)
        await done.wait()
        nursery.cancel_scope.cancel()
    assert reactor.errors.counts == {"timer": 1}
    reactor.close()


async def test_a_closing_channel_calls_all_callbacks_although_the_first_raises(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    channel = Channel(reactor, pair[0], fail)
    replies: list[object] = []
    for on_reply in (fail, replies.append):
        channel.send_request(Command(code=1), on_reply)
    channel.on_close += [fail, lambda: replies.append("closed")]
    channel.close("test")
    assert replies == [None, "closed"]
    assert reactor.errors.counts == {"lost reply": 1, "on_close": 1}


async def test_a_reply_that_cannot_be_encoded_becomes_an_error_reply(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    parked: list[Request] = []

    def park(_state: None, _header: None, request: Request) -> None:
        parked.append(request)

    routes = [Route[None](RequestCode.GET_BROKER_CONFIG, None, park)]
    dispatcher = Dispatcher(handler_table(routes), None, errors=reactor.errors)
    Channel(reactor, pair[0], dispatcher.serve)
    pair[1].send(encode_command(request(RequestCode.GET_BROKER_CONFIG)))
    assert reactor.run_pass()
    reactor.run(lambda: parked[0].reply(Reply(remark=object())))  # type: ignore[arg-type]
    (frame,) = FrameDecoder().feed(pair[1].recv(65536))
    assert decode_command(frame).code == ResponseCode.SYSTEM_ERROR
    assert reactor.errors.counts == {"reply": 1}


def test_snapshots_show_internal_errors_and_survive_their_own() -> None:
    link = ControlLink()
    link.on_snapshot.append(fail)  # type: ignore[arg-type]
    link._handle(SnapshotRequest(1))
    assert link.snapshot()["internal_errors"] == {"snapshot": 2}


def test_emitting_an_event_with_a_value_that_cannot_be_printed_does_not_raise() -> None:
    class Unprintable:
        __str__ = __repr__ = fail  # type: ignore[assignment]

    link = ControlLink()
    link.emit("node_ready", peer=Unprintable())
    assert b"...(Unprintable: " in link.take()
