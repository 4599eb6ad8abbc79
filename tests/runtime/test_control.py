import os
import pathlib

import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from rmqlab.runtime.clock import MOCK_WALL_EPOCH
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.net.node_faults import NodeFaults, PlainRules
from rmqlab.runtime.node.control import MAX_QUEUED_BYTES, ControlLink
from rmqlab.runtime.node.controlmessages import (
    CONTROL,
    Event,
    Hello,
    Message,
    Ready,
    RulesSet,
    SetRules,
    Snapshot,
    SnapshotRequest,
)
from rmqlab.runtime.node.mapstream import receive_messages


def decode(data: bytes) -> list[Message]:
    decoder = CONTROL.decoder()
    decoder.feed(data)
    return list(decoder.messages())


async def test_link_says_hello_then_ready_and_stamps_events_with_the_clusters_time(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    link, got = ControlLink("broker-a"), list[Message]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        nursery.start_soon(receive_messages, theirs, CONTROL, got.append)
        await trio.sleep(2)
        link.emit("registered", nameserver="127.0.0.1:2")
        link.ready(address="127.0.0.1:1")
        await link.wait_written()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    at_millis = int((MOCK_WALL_EPOCH + autojump_clock.current_time()) * 1000)
    assert got == [
        Hello("broker-a", os.getpid()),
        Event(at_millis, "registered", {"nameserver": "127.0.0.1:2"}),
        Ready({"address": "127.0.0.1:1"}),
    ]


async def test_a_failed_snapshot_is_reported_and_the_channel_stays_open() -> None:
    ours, theirs = memory_stream_pair()
    link, got = ControlLink(), list[Message]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        nursery.start_soon(receive_messages, theirs, CONTROL, got.append)
        await theirs.send_all(CONTROL.encode(SnapshotRequest(1)))
        await wait_all_tasks_blocked()
        link.on_snapshot.append(lambda: {"value": {}["missing"]})  # type: ignore[index]
        await theirs.send_all(CONTROL.encode(SnapshotRequest(2)))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert got[1:] == [
        Snapshot(1, {}),
        Snapshot(2, {"error": "KeyError('missing')", "internal_errors": {"snapshot": 1}}),
    ]


async def test_attending_ends_with_the_supervisor() -> None:
    ours, theirs = memory_stream_pair()
    link = ControlLink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.attend, ours)
        await wait_all_tasks_blocked()
        await theirs.aclose()
    link.emit("late")
    await link.wait_written()


def test_a_slow_supervisor_loses_the_oldest_events_and_receives_their_count() -> None:
    link = ControlLink(limit=3)
    for number in range(10):
        link.emit("send", number=number)
    messages = decode(link.take())
    assert all(isinstance(message, Event) for message in messages)
    fields = [(message.kind, message.fields) for message in messages if isinstance(message, Event)]
    assert fields == [("events_dropped", {"count": 7}), *(("send", {"number": n}) for n in (7, 8, 9))]
    assert link.take() == b""


def test_without_a_supervisor_nothing_is_kept() -> None:
    link = ControlLink(limit=0)
    link.emit("send")
    link.ready()
    assert link.take() == b""


async def test_every_event_is_in_the_journal_and_messages_are_only_counted_for_the_supervisor(
    tmp_path: pathlib.Path,
) -> None:
    link = ControlLink("consume-1", journal=JournalWriter(tmp_path / "consume-1.msgpack"))
    ours, theirs = memory_stream_pair()
    got = list[Message]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.write_journal_forever)
        nursery.start_soon(link.attend, ours)
        nursery.start_soon(receive_messages, theirs, CONTROL, got.append)
        link.emit("delivered", number=1, group="shop", topic="orders", broker="broker-a", queue=0, offset=0)
        link.emit("sent", number=1, topic="orders", began_at=0, outcome="SEND_OK")
        link.emit("sent", number=2, topic="orders", began_at=0, outcome="refused")
        link.emit("consumed", delivered=1)
        await theirs.send_all(CONTROL.encode(SnapshotRequest(1)))
        await wait_all_tasks_blocked()
        written = [(entry.node, entry.kind) for entry in read_journal(tmp_path / "consume-1.msgpack")]
        nursery.cancel_scope.cancel()
    assert written == [("consume-1", kind) for kind in ("delivered", "sent", "sent", "consumed")]
    assert [message.kind for message in got if isinstance(message, Event)] == ["consumed"]
    assert got[-1] == Snapshot(1, {"messages": {"delivered": 1, "sent.SEND_OK": 1, "sent.refused": 1}})


HOSTILE = {"address": "x" * 6_000_000, "surrogate": "\ud800", "digits": 10**5000, "keys": {(1, 2): 3}}


def test_an_event_of_6_mb_is_cut_and_is_read_back_from_the_journal(tmp_path: pathlib.Path) -> None:
    link = ControlLink("namesrv-1", journal=JournalWriter(tmp_path / "namesrv-1.msgpack"))
    for number in range(4):
        link.emit("broker_registered", number=number, **HOSTILE)
    assert not link.errors.counts
    events = [message for message in decode(link.take()) if isinstance(message, Event)]
    assert link.journal is not None
    link.journal.close()
    written = list(read_journal(tmp_path / "namesrv-1.msgpack"))
    assert [event.fields["number"] for event in events] == [entry.fields["number"] for entry in written] == [0, 1, 2, 3]
    for fields in (events[-1].fields, written[-1].fields):
        assert fields["address"].endswith("xx...(6000000 characters)")
        assert len(fields["address"]) < 5000


async def test_a_snapshot_of_18_mb_is_truncated_and_the_link_stays_open() -> None:
    link = ControlLink("broker-a")
    link.on_snapshot.append(lambda: {"groups": {"a" * 9_000_000: 1, "b" * 9_000_000: 2}, **HOSTILE})
    link._handle(SnapshotRequest(1))
    (answer,) = decode(link.take())
    assert isinstance(answer, Snapshot)
    assert [key[-24:] for key in answer.facts["groups"]] == ["a...(9000000 characters)", "b...(9000000 characters)"]
    assert answer.facts["surrogate"] == "\\ud800"


def test_events_that_wait_for_a_slow_supervisor_have_a_limit_in_bytes() -> None:
    link = ControlLink()
    for _ in range(200):
        link.emit("broker_registered", **{f"field {n}": "x" * 4000 for n in range(60)})
    data = link.take()
    assert len(data) <= MAX_QUEUED_BYTES + 1000
    dropped = decode(data)[0]
    assert isinstance(dropped, Event)
    assert dropped.kind == "events_dropped"
    assert dropped.fields["count"] > 100


async def test_a_garbled_message_of_the_supervisor_ends_the_link_as_its_end_does() -> None:
    ours, theirs = memory_stream_pair()
    link = ControlLink("broker-a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(theirs.send_all, b"\xc1garbage")
        await link.attend(ours)
    assert link.errors.counts == {"control message": 1}


async def test_invalid_rules_get_an_error_reply() -> None:
    link = ControlLink("broker-a", faults=NodeFaults())
    seen: list[PlainRules] = []

    def follow_once(rules: PlainRules) -> None:
        if seen:
            raise OSError("a disk that cannot be limited")
        seen.append(rules)

    link.faults.follow(follow_once)
    link._handle(SetRules(7, {}))
    assert decode(link.take()) == [RulesSet(7)]
    assert link.errors.counts == {"fault rules": 1}


def test_a_snapshot_begins_with_internal_errors() -> None:
    """One that is too large loses its last members."""
    link = ControlLink()
    link.on_snapshot.append(lambda: {"table": {}})
    link.errors.caught("a place", ValueError())
    assert [*link.snapshot()] == ["internal_errors", "table"]
