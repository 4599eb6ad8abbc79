"""Alike records, by columns, make the same queues and index as one by one."""

import contextlib
import itertools
import struct
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqlab.remoting.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, NewMessage
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.batches.uniformruns import RunReader, UniformRun
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config

FILE = 1 << 20
NEVER = 10**9


def key(number: int) -> str:
    return f"C000020203C34E0E2F2A65E2{number:08X}"


def stores_of(store: MessageStore) -> dict[str, list[bytes]]:
    """Return the written bytes of all queues, and the index."""
    assert store.index is not None
    found = {
        f"{queue.topic} {queue.queue_id}": [bytes(file.view[: file.wrote]) for file in queue.files.files]
        for queue in store.queues
    }
    return found | {"index": [bytes(file.file.view) for file in store.index.files]}


class Observer:
    """Collects the messages that were entered."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def messages_dispatched(self, *message: object) -> None:
        self.seen.append(message)


def replica(root: Path, log: bytes, step: int, *, least: int) -> tuple[dict[str, list[bytes]], list[object], int]:
    """Return what a slave makes of a log, received in pieces of `step` bytes."""
    observer = Observer()
    config = small_config(root, mapped_file_size_commit_log=FILE, max_index_num=1000)
    store = MessageStore.open(config, now_millis=ManualClock(step=1), is_slave=True, observer=observer)
    try:
        with (
            patch("rmqlab.store.queueentries.LEAST", least),
            patch("rmqlab.store.batches.keyreader.LEAST", least),
        ):
            for start in range(0, len(log), step):
                store.append_raw(start, log[start : start + step])
                while store.dispatch(100_000, may_index=start % 2 == 0):
                    pass
            store.dispatch()
        return stores_of(store), list(observer.seen), store.dispatcher.entries.count
    finally:
        store.close()


BURSTS = st.lists(
    st.tuples(
        st.integers(1, 40),  # records
        st.sampled_from(["orders", "returns", SCHEDULE_TOPIC]),
        st.sampled_from([1, 3]),  # queues
        st.sampled_from([20, 100]),  # bytes of the body
        st.sampled_from(["", "TagA", "TagB"]),
        st.sampled_from(["", "k1 k2"]),
        st.sampled_from([0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]),
        st.sampled_from(["127.0.0.1", "127.0.0.1", "::1"]),
    ),
    min_size=1,
    max_size=8,
)


@given(BURSTS, st.sampled_from([700, 20_000, FILE]))
@settings(deadline=None, max_examples=30)
def test_runs_make_the_same_queues_and_index(bursts: list[tuple[Any, ...]], step: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        config = small_config(root / "master", mapped_file_size_commit_log=FILE, max_index_num=1000)
        master = MessageStore.open(config, now_millis=ManualClock(step=1))
        numbers = itertools.count()
        for count, topic, queues, size, tags, keys, kind, host in bursts:
            for number in itertools.islice(numbers, count):
                message = new_message(
                    b"x" * size,
                    topic=topic,
                    queue_id=number % queues,
                    tags=tags,
                    keys=keys,
                    unique_key=key(number),
                )
                message.sys_flag, message.born_host = kind, (host, 10911)
                master.put(message)
        log = bytes(master.read_log(0, FILE))
        master.close()
        one_by_one = replica(root / "each", log, step, least=NEVER)
        assert replica(root / "runs", log, step, least=8) == one_by_one


RECORD = 158
"""Bytes of a record of `log_of_uniform`."""
FIELDS = {"queue id": (12, ">i"), "queue offset": (20, ">q"), "physical offset": (28, ">q"), "sysFlag": (36, ">i")}
FIELDS |= {"store time": (56, ">q"), "body size": (84, ">i"), "size": (0, ">i")}
DAMAGE = st.tuples(
    st.integers(0, 29),  # which record
    st.sampled_from([*FIELDS, "topic"]),
    st.sampled_from([-1, 0, 1, 3, 4, 12, 16, 19, 100, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63)]),
).filter(lambda damage: damage[:2] != (0, "physical offset"))  # a slave refuses to begin a file with such a record


def log_of_uniform(root: Path) -> bytearray:
    master = MessageStore.open(small_config(root, mapped_file_size_commit_log=FILE), now_millis=ManualClock(step=1))
    with contextlib.closing(master):
        for number in range(30):
            master.put(new_message(b"x" * 20, queue_id=number % 2, unique_key=key(number)))
        return bytearray(master.read_log(0, FILE))


@given(st.lists(DAMAGE, min_size=1, max_size=3))
@example([(9, "queue offset", 100)])
@example([(9, "physical offset", 2**40)])
@settings(deadline=None, max_examples=12)
def test_fields_that_lie_are_entered_as_one_by_one(damages: list[tuple[int, str, int]]) -> None:
    """A master's bytes are foreign, and no checksum covers a record's head."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        log = log_of_uniform(root / "master")
        assert len(log) == 30 * RECORD
        for number, name, value in damages:
            if name == "topic":
                log[number * RECORD + 109] = value & 0x7F
                continue
            at, form = FIELDS[name]
            bits = 8 * struct.calcsize(form)
            struct.pack_into(form, log, number * RECORD + at, (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
        queues, events, _ = replica(root / "each", bytes(log), FILE, least=NEVER)
        assert replica(root / "runs", bytes(log), FILE, least=8)[:2] == (queues, events)


def test_uniform_records_are_entered_by_columns(tmp_path: Path) -> None:
    """Else the others would prove nothing."""
    found: list[UniformRun | None] = []
    read = RunReader.read

    def spy(*args: object) -> UniformRun | None:
        found.append(read(*args))  # type: ignore[arg-type]
        return found[-1]

    store = MessageStore.open(small_config(tmp_path, mapped_file_size_commit_log=FILE), now_millis=ManualClock(step=1))
    with patch.object(RunReader, "read", spy):
        for number in range(100):
            store.append(new_message(b"x" * 50, queue_id=number % 2, unique_key=key(number)))
        store.enter_appended()
    assert [run and run.count for run in found] == [100]
    assert [store.max_queue_offset("orders", queue) for queue in (0, 1)] == [50, 50]
    store.close()


@pytest.mark.parametrize("lost", [5, 9, 40])
def test_records_that_a_queue_has_already_are_not_entered_again(tmp_path: Path, lost: int) -> None:
    """A queue may be ahead of the dispatched offset after a start."""
    store = MessageStore.open(small_config(tmp_path, mapped_file_size_commit_log=FILE), now_millis=ManualClock(step=1))
    offsets = [store.append(_message(number)).physical_offset for number in range(40)]
    store.enter_appended()
    before = stores_of(store)
    store.dispatcher.offset = store.dispatcher.indexed = offsets[-lost]
    index, store.dispatcher.index = store.dispatcher.index, None
    store.dispatch()
    store.dispatcher.index = index
    assert stores_of(store) == before
    store.close()


def _message(number: int) -> NewMessage:
    return new_message(b"x" * 50, unique_key=key(number))
