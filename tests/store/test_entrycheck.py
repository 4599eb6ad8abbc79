"""Damaged entries of consume queues.

What a pull returns, and what a start makes again from the log.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.remoting.message import decode_messages
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.results import GetStatus
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]
QUEUE = Path("store/consumequeue/orders/0")
COUNT = 40


def fill(store: MessageStore, count: int = COUNT) -> None:
    for number in range(count):
        store.put(new_message(b"%06d" % number, tags=f"T{number % 3}"))
        store.put(new_message(b"another queue", queue_id=1))


def pull_all(store: MessageStore, tags: frozenset[int] | None = None) -> list[bytes]:
    """Return the bodies of the first queue."""
    bodies, at = [], 0
    while at < store.max_queue_offset("orders", 0):
        got = store.get_message("orders", 0, at, 32, None if tags is None else tags.__contains__)
        for message in (one for buffer in got.buffers for one in decode_messages(buffer)):
            assert (message.topic, message.queue_id) == ("orders", 0)
            assert at <= message.queue_offset < got.next_begin_offset
            bodies.append(message.body)
        assert got.next_begin_offset > at
        at = got.next_begin_offset
    return bodies


def damage(path: Path, number: int, raw: bytes) -> bytes:
    """Overwrite the beginning of an entry; return the file as it was."""
    had = path.read_bytes()
    path.write_bytes(had[: number * 20] + raw + had[number * 20 + len(raw) :])
    return had


BODIES = [b"%06d" % number for number in range(COUNT)]
ODD = {
    "beyond the log": ENTRY.pack(2**56, 100, 0),
    "negative": ENTRY.pack(-(2**60), 100, 0),
    "inside a record": ENTRY.pack(7, 100, 0),
    "another record": ENTRY.pack(0, 118, 0),
    "a small size": ENTRY.pack(0, 1, 0),
    "a huge size": ENTRY.pack(0, 2**31 - 2, 0),
    "two entries": b"\xff" * 40,
}


@pytest.mark.parametrize("number", [0, 1, 20, COUNT - 3])
@pytest.mark.parametrize("kind", ODD)
def test_a_pull_repairs_an_entry_of_an_earlier_run(
    open_store: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, number: int
) -> None:
    store = open_store()
    fill(store)
    store.close()
    path = tmp_path / QUEUE / f"{0:020}"
    had = damage(path, number, ODD[kind])
    again = open_store()
    assert pull_all(again) == BODIES
    again.close()
    assert path.read_bytes() == had
    assert "repaired" in caplog.text or "made again from the log" in caplog.text


def test_a_repaired_entry_has_its_tags_code(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    fill(store)
    entry = store.queue_entries("orders", 0, 20, 1)[0]
    store.close()
    damage(tmp_path / QUEUE / f"{0:020}", 20, ENTRY.pack(2**50, 1, entry[2]))
    again = open_store()
    assert pull_all(again, frozenset({entry[2]})) == BODIES[2::3]
    assert again.queue_entries("orders", 0, 20, 1) == [entry]


def test_a_repaired_entry_of_a_delayed_message_has_its_time(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    for _ in range(3):
        store.put(new_message(topic=SCHEDULE_TOPIC, queue_id=2, properties={"DELAY": "3"}))
    entries = store.queue_entries(SCHEDULE_TOPIC, 2, 0, 3)
    store.close()
    damage(tmp_path / "store" / "consumequeue" / SCHEDULE_TOPIC / "2" / f"{0:020}", 1, ENTRY.pack(5, 5, 5))
    again = open_store()
    assert again.queue_entries(SCHEDULE_TOPIC, 2, 0, 3) == entries
    assert again.get_message(SCHEDULE_TOPIC, 2, 0, 32).count == 3


def test_entries_are_repaired_for_delayed_and_half_messages(open_store: Open, tmp_path: Path) -> None:
    """The broker's services read entries, not messages."""
    store = open_store()
    fill(store)
    entries = store.queue_entries("orders", 0, 0, COUNT)
    store.close()
    damage(tmp_path / QUEUE / f"{0:020}", 20, entries[3][0].to_bytes(8, "big"))  # of another message
    assert open_store().queue_entries("orders", 0, 0, COUNT) == entries


def test_an_entry_without_record_is_skipped_alone(
    open_store: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ returns the bytes; for a client, the rest of the reply is lost."""
    store = open_store(mapped_file_size_commit_log=4096)  # a start reads the last three files
    fill(store)
    for _ in range(60):
        store.put(new_message(bytes(200), queue_id=1))
    physical, size, _ = store.queue_entries("orders", 0, 5, 1)[0]
    store.close()
    log = tmp_path / "store" / "commitlog" / f"{0:020}"
    raw = log.read_bytes()
    log.write_bytes(raw[:physical] + b"\xff" * 28 + raw[physical + 28 :])
    again = open_store(mapped_file_size_commit_log=4096)
    for _ in range(2):
        assert pull_all(again) == BODIES[:5] + BODIES[6:]
    assert caplog.text.count("skipped") == 1
    only = again.get_message("orders", 0, 5, 1)
    assert (only.status, only.next_begin_offset) == (GetStatus.FOUND, 7)
    assert size > 28


def test_repairs_are_logged_at_powers_of_ten(
    open_store: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    fill(store)
    store.close()
    damage(tmp_path / QUEUE / f"{0:020}", 1, ENTRY.pack(2**50, 1, 0) * 35)
    with caplog.at_level(logging.WARNING):
        again = open_store()
        assert pull_all(again) == BODIES
    assert [line.split("(")[1] for line in caplog.messages if "repaired" in line] == [
        f"{count} of this queue so far)" for count in (1, 10)
    ]


def test_a_queue_numbered_otherwise_is_served_as_it_is(open_store: Open, tmp_path: Path) -> None:
    """RocketMQ has such entries ("logic queue order maybe wrong")."""
    store = open_store()
    fill(store)
    places = [entry[0] for entry in store.queue_entries("orders", 0, 0, COUNT)]
    store.close()
    log = tmp_path / "store" / "commitlog" / f"{0:020}"
    raw = bytearray(log.read_bytes())
    for number, at in enumerate(places):
        raw[at + 20 : at + 28] = (number + 1000).to_bytes(8, "big")
    log.write_bytes(raw)
    again = open_store()
    got = [again.get_message("orders", 0, at, 1) for at in [*range(COUNT), *range(COUNT)]]
    assert [message.body for one in got for buffer in one.buffers for message in decode_messages(buffer)] == 2 * BODIES


@pytest.mark.parametrize("kept", [4, 8, 9, 10, 11, 12, 16])
def test_a_queue_that_ends_within_an_entry_is_made_again(open_store: Open, tmp_path: Path, kept: int) -> None:
    """The rest of an entry can look like one; the log has no record at its end."""
    store = open_store()
    fill(store)
    for number in range(COUNT, 2 * COUNT):
        store.put(new_message(b"%06d" % number + bytes(300)))
    store.close()
    path = tmp_path / QUEUE / f"{0:020}"
    raw = path.read_bytes()
    path.write_bytes(raw[: 20 * (COUNT + 5) + kept].ljust(len(raw), b"\0"))
    again = open_store()
    assert pull_all(again) == BODIES + [b"%06d" % number + bytes(300) for number in range(COUNT, 2 * COUNT)]
    assert again.put(new_message()).queue_offset == 2 * COUNT


@pytest.mark.parametrize("by", [150 * 20, 100 * 20])
def test_a_queue_file_that_is_a_copy_of_a_later_one_is_made_again(open_store: Open, tmp_path: Path, by: int) -> None:
    """Later messages got queue offsets of others."""
    store = open_store()
    fill(store, 220)
    store.close()
    place = tmp_path / QUEUE
    (place / f"{by:020}").write_bytes((place / f"{by + 50 * 20:020}").read_bytes())
    again = open_store()
    assert pull_all(again) == [b"%06d" % number for number in range(220)]
    assert again.put(new_message()).queue_offset == 220


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue/orders/0"])
@pytest.mark.parametrize(
    "name", [f"{7:020}", "7", "0" * 19, f"{0:021}", chr(0x660) * 20, "9" * 20, f"{2**63 + 2**16:020}"]
)
def test_a_file_that_is_named_otherwise_is_ignored(open_store: Open, tmp_path: Path, kind: str, name: str) -> None:
    """RocketMQ takes any number; entries would begin within others."""
    store = open_store()
    fill(store)
    store.close()
    place = tmp_path / "store" / kind
    raw = (place / f"{0:020}").read_bytes()
    (place / name).write_bytes(raw)
    again = open_store()
    assert pull_all(again) == BODIES
    assert again.put(new_message()).queue_offset == COUNT
    again.close()
    assert (place / name).read_bytes() == raw
