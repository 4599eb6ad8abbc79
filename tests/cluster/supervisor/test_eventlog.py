import pathlib

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqlab.cluster.supervisor import eventlog
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.runtime.journals.journalwriter import JournalWriter


def event(number: int) -> JournalEntry:
    return JournalEntry(number, "broker-a", "registered", {"number": number})


async def test_a_follower_gets_past_and_future_events() -> None:
    log = EventLog()
    log.record(event(1))
    async with log.follow(replay=True) as events:
        log.record(event(2))
        assert [await events.receive(), await events.receive()] == [event(1), event(2)]
    log.record(event(3))
    assert list(log) == [event(1), event(2), event(3)]


async def test_a_slow_follower_is_ended_and_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_only_events_of_the_supervisor_itself_are_written_to_its_journal(tmp_path: pathlib.Path) -> None:
    log = EventLog(JournalWriter(tmp_path / "cluster.msgpack"))
    log.record(event(1))
    log.append(event(2))
    assert list(log) == [event(1), event(2)]
    assert list(read_journal(tmp_path / "cluster.msgpack")) == [event(1)]
