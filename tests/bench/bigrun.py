"""Writes synthetic runs of any size, a million messages in seconds.

The journals and stores are like those of a cluster that was started and stopped in good order: one producer, one
consumer, a master and its slave with equal logs. Nothing is wrong but what is planted: the last `LOST` sends were
acknowledged, and are in no store.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from rmqlab.cluster.checks.testing import write_journals as write_entries
from rmqlab.runtime.journals.journalentry import CLOSED, VERSION, JournalEntry
from rmqlab.runtime.journals.journalfiles import journal_path
from tests.bench.bigstore import BEGAN_AT, GROUP, PER_MILLISECOND, QUEUES, TOPIC, queue_end, sent_crc, write_store

LOST = 3
NAMESERVER = {"address": "127.77.1.1:9876"}
BROKERS = {
    "broker-a": {"address": "127.77.1.20:10911", "broker_name": "broker-a", "broker_id": 0},
    "broker-a-s": {"address": "127.77.1.21:10911", "broker_name": "broker-a", "broker_id": 1},
}
_CONSUMER = {"group": GROUP, "orderly": False}
NODES: dict[str, dict[str, Any]] = {"namesrv-1": NAMESERVER, **BROKERS, "produce-1": {}, "consume-1": _CONSUMER}
"""Fields of `node_ready` by node, in the order in which they start."""
_START_MILLIS = 100
_SAMPLE_MILLIS = 1000
_COMMIT_MILLIS = 5000


def write_run(place: Path, count: int, body_size: int = 100) -> int:
    """Write a run of so many messages below `place`.

    Returns the bytes of all its files.
    """
    log_end = write_store(place / "broker-a" / "store", count, body_size)
    shutil.copytree(place / "broker-a", place / "broker-a-s")
    write_journals(place / "journal", count, log_end, body_size)
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def write_journals(directory: Path, count: int, log_end: int, body_size: int) -> None:
    """Write what the supervisor and all processes of such a run would have written."""
    write_entries(_events(count, log_end), directory)
    for node, events in (("produce-1", _sent(count, body_size)), ("consume-1", _consumed(count))):
        with journal_path(directory, node).open("wb", buffering=2**20) as file:
            last = 0
            for last, (at, kind, fields) in enumerate(events, 1):
                file.write(_entry(last, at, node, kind, fields))
            file.write(_entry(last + 1, _stopped_at(count), node, CLOSED, {}))


def _stopped_at(count: int) -> int:
    return BEGAN_AT + (count + LOST) // PER_MILLISECOND + _COMMIT_MILLIS


def _events(count: int, log_end: int) -> Iterator[JournalEntry]:
    """Yield all but the events of messages."""
    began_at = BEGAN_AT - _START_MILLIS * (len(NODES) + 1)
    yield JournalEntry(began_at, "", "cluster_starting", {"rate": 1, "role": "ASYNC_MASTER", "profile": "4.9"})
    for number, (node, fields) in enumerate(NODES.items(), 1):
        at = began_at + number * _START_MILLIS
        yield JournalEntry(at, node, "node_spawned", {"pid": number})
        if node in BROKERS:
            yield JournalEntry(at + 1, "namesrv-1", "broker_registered", fields)
            yield JournalEntry(at + 2, node, "registered", {"nameserver": NAMESERVER["address"]})
        yield JournalEntry(at + 3, node, "node_ready", fields)
    yield JournalEntry(BEGAN_AT, "", "cluster_ready", {})
    yield from _samples(count, log_end)
    yield JournalEntry(_stopped_at(count), "", "cluster_stopping", {})
    for node in reversed(NODES):
        yield JournalEntry(_stopped_at(count), node, "node_stopped", {"end": "exit status 0"})
    yield JournalEntry(_stopped_at(count), "", "cluster_stopped", {})


def _samples(count: int, log_end: int) -> Iterator[JournalEntry]:
    """Yield the ends of both logs, which are always equal."""
    for at in range(BEGAN_AT, _stopped_at(count), _SAMPLE_MILLIS):
        stored = min(count, (at - BEGAN_AT) * PER_MILLISECOND)
        for node in BROKERS:
            yield JournalEntry(at, node, "log_sampled", {"max_offset": log_end * stored // count})


Event = tuple[int, str, dict[str, Any]]


def _sent(count: int, body_size: int) -> Iterator[Event]:
    crc = sent_crc(body_size)
    for number in range(count + LOST):
        began_at = BEGAN_AT + number // PER_MILLISECOND
        outcome = {"outcome": "SEND_OK", "began_at": began_at, "attempts": 1, "took": 1, "crc": crc, "sys_flag": 0}
        yield began_at + 1, "sent", _place(number) | outcome


def _consumed(count: int) -> Iterator[Event]:
    next_commit = BEGAN_AT + _COMMIT_MILLIS
    for number in range(count):
        at = BEGAN_AT + number // PER_MILLISECOND + 2
        if at >= next_commit:
            yield from _commits(at, number)
            next_commit += _COMMIT_MILLIS
        yield at, "delivered", _place(number) | {"group": GROUP, "reconsume_times": 0, "from_broker_id": 0}
    yield from _commits(_stopped_at(count) - 1, count)


def _commits(at: int, count: int) -> Iterator[Event]:
    """Yield commits of all queues after so many deliveries."""
    for queue_id in range(QUEUES):
        offset = queue_end(queue_id, count)
        where = {"topic": TOPIC, "broker": "broker-a", "queue": queue_id, "offset": offset}
        yield at, "committed", {"group": GROUP, **where, "broker_id": 0}


def _place(number: int) -> dict[str, Any]:
    where = {"broker": "broker-a", "queue": number % QUEUES, "offset": number // QUEUES}
    return {"number": number, "message_id": f"{number:032X}", "topic": TOPIC, **where}


def _entry(number: int, at: int, node: str, kind: str, fields: Any) -> bytes:
    """Return an entry as `pack_entry` does, five times as fast: nothing is bounded."""
    packed: bytes = msgpack.packb({"v": VERSION, "at": at, "node": node, "kind": kind, "fields": fields, "seq": number})
    return packed
