"""What a member holds for another one that does not respond. No sockets."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio

from rmqlab.broker.dledger.node import GroupNode
from rmqlab.dledger.bodies import EntryBody, HeartBeatRequest, Message, PushEntryRequest
from rmqlab.dledger.diskwork import RETRY_MS, DiskWork
from rmqlab.dledger.server import Call
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.dispatch import Request
from rmqlab.store.files.diskcalls import DiskCalls

PEER = "n1"


@attrs.define(eq=False)
class SilentPeer:
    """A connection that takes requests and responds to none."""

    is_up: bool = True
    waiting: dict[int, Any] = attrs.field(factory=dict)
    count: int = 0

    def connected(self, _address: str) -> "SilentPeer | None":
        return self if self.is_up else None

    def send_request(self, _command: Command, on_reply: Any) -> int:
        self.count += 1
        self.waiting[self.count] = on_reply
        return self.count

    def forget(self, opaque: int) -> None:
        self.waiting.pop(opaque, None)


@attrs.define(eq=False)
class Member:
    """A member that notes the outcomes of its calls."""

    peer: SilentPeer = attrs.field(factory=SilentPeer)
    now: int = 0
    calls: list[Call] = attrs.field(factory=list)
    failed: list[Call] = attrs.field(factory=list)

    def node(self) -> GroupNode:
        settings = SimpleNamespace(peers={PEER: "host:1"}, others=[PEER])
        server = SimpleNamespace(
            member=SimpleNamespace(settings=settings),
            wake_at=2**40,
            take_calls=self._take_calls,
            take_responses=list,
            take_dropped=list,
            take_outcomes=list,
            take_role_changes=list,
            disk_work=(),
            receive=lambda call, _body, _now: self.failed.append(call),
        )
        log = SimpleNamespace(server=server, on_append=[], now=lambda: self.now)
        reactor = SimpleNamespace(defer=lambda _fn: None)
        tasks = SimpleNamespace(start_soon=lambda *_args: None)
        return GroupNode(*cast("Any", (log, self.peer, reactor, tasks, list, lambda: None)))

    def _take_calls(self) -> list[Call]:
        calls, self.calls = self.calls, []
        return calls


def call(request: Message) -> Call:
    return Call(PEER, request, lambda _body, _now: None)


def push(size: int) -> Call:
    return call(PushEntryRequest(entry=EntryBody(body=b"", size=size)))


@pytest.mark.parametrize("is_up", [True, False])
def test_a_silent_peer_is_owed_so_many_bytes_of_entries(monkeypatch: pytest.MonkeyPatch, *, is_up: bool) -> None:
    monkeypatch.setattr("rmqlab.broker.dledger.node.MOST_CALL_BYTES", 1000)
    member = Member(SilentPeer(is_up=is_up))
    node = member.node()
    member.calls = pushes = [push(400) for _ in range(5)]
    node._settle()
    assert member.failed == pushes[3:]
    member.failed.clear()
    member.calls = [call(HeartBeatRequest())]  # without entries: a leader stays leader
    node._settle()
    assert member.failed == []


def test_a_call_that_has_ended_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.dledger.node.MOST_CALL_BYTES", 1000)
    member = Member()
    node = member.node()
    member.calls = [push(400) for _ in range(3)]
    node._settle()
    peer = node._peers[PEER]
    member.peer.waiting.pop(2)(None)  # the first one still waits
    assert (peer.size, len(peer.sent)) == (800, 2)
    member.now = 3000
    node._expire_calls(member.now)
    assert (peer.size, len(peer.sent), member.peer.waiting) == (0, 0, {})
    member.calls = [push(400)]
    node._settle()
    assert len(member.failed) == 3


def test_a_request_that_waits_holds_no_content() -> None:
    """It may wait for longer than its connection, whose limits count it."""
    node = Member().node()
    node.log.server.handle = lambda *_args: None  # type: ignore[method-assign]
    command = Command(51004, body=bytes(1000))
    node.handle(command, Request(command, None))
    assert command.body == b""


def test_slow_calls_are_made_in_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    """One after the other, while the member goes on. An error is logged once."""
    threads: list[threading.Thread] = []
    failures = [OSError(5, "Input/output error"), OSError(5, "Input/output error")]

    def call() -> None:
        threads.append(threading.current_thread())
        if failures:
            raise failures.pop()

    def calls() -> DiskCalls[None]:
        yield call
        yield call

    async def play() -> None:
        member = Member()
        node = member.node()
        work = DiskWork("the cut of its log", lambda: True, calls)
        resumed = trio.Event()
        cast("Any", node.server).disk_work = (work,)
        cast("Any", node.server).resume = lambda _now: resumed.set()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + 30
            node.tasks = nursery
            for _ in range(3):
                resumed = trio.Event()
                work.start(calls())
                node._settle()
                assert work.is_busy
                await resumed.wait()
                assert not work.is_busy

    trio.run(play)
    assert len(threads) == 4
    assert threading.current_thread() not in threads
    assert [record.message for record in caplog.records] == [
        "cannot write the cut of its log to disk: Input/output error; retrying"
    ]


def test_an_internal_error_of_slow_calls_pauses_them(caplog: pytest.LogCaptureFixture) -> None:
    """As an error of the disk. They were made again at each input."""

    def call() -> None:
        raise ValueError("mmap closed or invalid")

    def calls() -> DiskCalls[None]:
        yield call

    async def play() -> None:
        node = Member().node()
        resumed: list[int] = []
        cast("Any", node.server).resume = resumed.append
        work = DiskWork("its term and vote", lambda: True, calls)
        for now in (0, RETRY_MS):
            work.work(now)
            (started,) = work.take_started()
            with pytest.raises(ValueError, match="mmap closed"):
                await node._make_calls(work, started)
            assert not work.is_busy
            work.work(now)
            assert (work.take_started(), work.wake_at) == ([], now + RETRY_MS)
        assert resumed == [0, 0]

    trio.run(play)
    assert [record.message for record in caplog.records] == [
        "cannot write its term and vote to disk: ValueError: mmap closed or invalid; retrying"
    ]
