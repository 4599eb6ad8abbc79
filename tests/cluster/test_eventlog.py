import os
import pathlib

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cluster import eventlog
from cluster.eventlog import EventLog, Recorded, journal_entry, open_journal, read_journal


def event(number: int) -> Recorded:
    return Recorded(number, "broker-a", "sent", {"number": number})


async def test_a_follower_gets_what_was_and_what_comes() -> None:
    log = EventLog()
    log.record(event(1))
    async with log.follow(replay=True) as events:
        log.record(event(2))
        assert [await events.receive(), await events.receive()] == [event(1), event(2)]
    log.record(event(3))
    assert list(log) == [event(1), event(2), event(3)]


async def test_a_follower_that_falls_behind_reaches_an_end_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "FOLLOWER_EVENTS", 3)
    log = EventLog()
    async with log.follow() as events:
        for number in range(10):
            log.record(event(number))
        assert [got async for got in events] == [event(0), event(1), event(2)]


async def test_waiting_for_an_event_finds_past_ones_and_coming_ones() -> None:
    log = EventLog()
    log.record(event(1))
    assert await log.wait_event(lambda it: it.fields["number"] == 1) == event(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait_event, lambda it: it.fields["number"] == 2)
        await wait_all_tasks_blocked()
        log.record(event(2))


def test_the_journal_reads_back_up_to_where_it_is_torn(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "events.msgpack"
    log = EventLog(open_journal(path))
    for number in range(3):
        log.record(event(number))
    assert log.journal is not None
    os.close(log.journal)
    data = path.read_bytes()
    assert list(read_journal(data)) == [event(0), event(1), event(2)]
    for cut in range(1, len(journal_entry(event(2)))):
        assert list(read_journal(data[:-cut])) == [event(0), event(1)]
    assert list(read_journal(data + b"\xc1garbage")) == [event(0), event(1), event(2)]


def test_a_new_journal_keeps_the_last_one_beside_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "events.msgpack"
    path.write_bytes(journal_entry(event(1)))
    os.close(open_journal(path))
    assert path.read_bytes() == b""
    assert list(read_journal((tmp_path / "events.msgpack.old").read_bytes())) == [event(1)]
