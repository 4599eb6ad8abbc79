import os

import msgpack
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from remoting import control
from remoting.clock import MOCK_WALL_EPOCH
from remoting.control import (
    ControlError,
    ControlLink,
    Event,
    Hello,
    Message,
    MessageDecoder,
    Ready,
    Snapshot,
    SnapshotRequest,
    encode_message,
    receive_messages,
)

MESSAGES: list[Message] = [
    Hello("broker-a", 17),
    Ready({"address": "127.0.0.1:10911"}),
    Event(5, "route-changed", {"topics": ["a", "b"], "gone": None}),
    SnapshotRequest(3),
    Snapshot(3, {"commit_log": {"max": 2**40}}),
]


def decode(data: bytes) -> list[Message]:
    decoder = MessageDecoder()
    decoder.feed(data)
    return list(decoder.messages())


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_messages_arrive_whole_however_the_bytes_are_cut(step: int) -> None:
    wire, decoder, got = b"".join(map(encode_message, MESSAGES)), MessageDecoder(), list[Message]()
    for start in range(0, len(wire), step):
        decoder.feed(wire[start : start + step])
        got += decoder.messages()
    assert got == MESSAGES


@pytest.mark.parametrize(
    "value",
    [
        7,
        {"type": "Hello"},
        {"type": "Hallo", "name": "x", "pid": 1},
        {"type": "Hello", "name": "x", "pid": "one"},
        {"type": "Hello", "name": "x", "pid": 1, "more": 1},
        {"name": "x", "pid": 1},
    ],
)
def test_what_is_no_message_is_refused(value: object) -> None:
    with pytest.raises(ControlError):
        decode(msgpack.packb(value))


def test_bytes_that_are_no_msgpack_are_refused() -> None:
    with pytest.raises(ControlError):
        decode(b"\xc1\xc1")


def test_a_message_too_large_is_refused_before_it_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_MESSAGE", 1000)
    monkeypatch.setattr(control, "_CHUNK", 0)
    decoder = MessageDecoder()
    decoder.feed(encode_message(Hello("x", 1))[:-1])
    with pytest.raises(ControlError, match="more than 1000 bytes"):
        decoder.feed(bytes(1000))
    with pytest.raises(ControlError, match="at most 1000"):
        encode_message(Ready({"x": "x" * 1000}))


def test_values_without_a_msgpack_form_are_sent_as_text() -> None:
    assert decode(encode_message(Ready({"path": os}))) == [Ready({"path": str(os)})]


async def test_link_says_hello_then_ready_and_stamps_events_with_the_clusters_time(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    link, got = ControlLink("broker-a"), list[Message]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        nursery.start_soon(receive_messages, theirs, got.append)
        await trio.sleep(2)
        link.ready(address="127.0.0.1:1")
        link.emit("registered", nameserver="127.0.0.1:2")
        await link.wait_written()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    at_millis = int((MOCK_WALL_EPOCH + autojump_clock.current_time()) * 1000)
    assert got == [
        Hello("broker-a", os.getpid()),
        Ready({"address": "127.0.0.1:1"}),
        Event(at_millis, "registered", {"nameserver": "127.0.0.1:2"}),
    ]


async def test_a_snapshot_that_fails_is_reported_and_the_channel_goes_on() -> None:
    ours, theirs = memory_stream_pair()
    link, got = ControlLink(), list[Message]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        nursery.start_soon(receive_messages, theirs, got.append)
        await theirs.send_all(encode_message(SnapshotRequest(1)))
        await wait_all_tasks_blocked()
        link.set_snapshot(lambda: {"value": {}["missing"]})  # type: ignore[index]
        await theirs.send_all(encode_message(SnapshotRequest(2)))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert got[1:] == [Snapshot(1, {}), Snapshot(2, {"error": "KeyError('missing')"})]


async def test_attending_ends_with_the_supervisor() -> None:
    ours, theirs = memory_stream_pair()
    link = ControlLink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        await wait_all_tasks_blocked()
        await theirs.aclose()
    link.emit("late")
    await link.wait_written()


def test_a_supervisor_that_does_not_keep_up_loses_the_oldest_events_and_is_told_how_many() -> None:
    link = ControlLink(limit=3)
    for number in range(10):
        link.emit("send", number=number)
    messages = decode(link.take())
    assert all(isinstance(message, Event) for message in messages)
    fields = [(message.kind, message.fields) for message in messages if isinstance(message, Event)]
    assert fields == [("events-dropped", {"count": 7}), *(("send", {"number": n}) for n in (7, 8, 9))]
    assert link.take() == b""


def test_without_a_supervisor_nothing_is_kept() -> None:
    link = ControlLink(limit=0)
    link.emit("send")
    link.ready()
    assert link.take() == b""
