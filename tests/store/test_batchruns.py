"""Records of a batch are entered at once as they would be one by one."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.remoting.batch import BatchItem, ReceivedBatch, encode_batch
from rmqlab.remoting.message import NewMessage
from rmqlab.store.batches.batchruns import LEAST_OF_BATCH, BatchRun, BatchRunReader
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, small_config

FILE = 1 << 20
NEVER = 10**9
HOST = ("10.0.0.1", 10911)
BATCHES = st.lists(
    st.tuples(
        st.integers(LEAST_OF_BATCH - 3, 3 * LEAST_OF_BATCH),  # messages
        st.integers(0, 2**32 - 1),  # first number in a unique key
        st.integers(0, 1),  # queue
    ),
    min_size=1,
    max_size=4,
)


def items_of(count: int, number: int, tags: str) -> list[BatchItem]:
    """Return messages as a client makes them."""
    keys = [
        f"{tags}UNIQ_KEY\x01C00002020D4B4E0E2F2A65D1{(number + n) % 2**32:08X}\x02WAIT\x01true" for n in range(count)
    ]
    return [BatchItem(b"body %06d" % n, key.encode()) for n, key in enumerate(keys)]


def log_of(root: Path, batches: list[tuple[int, int, int]], tags: str = "") -> bytes:
    """Return a master's log after these batches."""
    master = MessageStore.open(small_config(root, mapped_file_size_commit_log=FILE), now_millis=ManualClock())
    for count, number, queue_id in batches:
        shared = NewMessage("orders", queue_id, b"", HOST, HOST, SOME_DAY, properties="CLUSTER\x01c")
        assert master.put_batch(shared, ReceivedBatch(encode_batch(items_of(count, number, tags)))).is_stored
    log = bytes(master.read_log(0, FILE))
    master.close()
    return log


class Observer:
    """Collects the messages that were entered."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def messages_dispatched(
        self, topic: str, queue_id: int, first: int, tags_codes: Sequence[int], stored_at: int, /
    ) -> None:
        """Note each message."""
        self.seen += [(topic, queue_id, at, code, stored_at) for at, code in enumerate(tags_codes, first)]


def replica(root: Path, log: bytes, step: int, *, least: int) -> tuple[dict[str, list[bytes]], list[object]]:
    """Return the queues and the index of a slave.

    It receives the log in pieces of `step` bytes.
    """
    observer, config = Observer(), small_config(root, mapped_file_size_commit_log=FILE, max_index_num=1000)
    store = MessageStore.open(config, now_millis=ManualClock(), is_slave=True, observer=observer)
    with patch("rmqlab.store.queueentries.LEAST", least), patch("rmqlab.store.batches.keyreader.LEAST", least):
        for start in range(0, len(log), step):
            store.append_raw(start, log[start : start + step])
            store.dispatch()
    assert store.index is not None
    found = {
        f"{queue.topic} {queue.queue_id}": [bytes(file.view[: file.wrote]) for file in queue.files.files]
        for queue in store.queues
    }
    found["index"] = [bytes(file.file.view) for file in store.index.files]
    store.close()
    return found, list(observer.seen)


@given(
    BATCHES,
    st.sampled_from(["TAGS\x01a\x02", ""]),
    st.sampled_from([20_000, FILE]),
    st.lists(st.tuples(st.integers(0), st.integers(1, 255)), max_size=2),
)
@settings(deadline=None, max_examples=20)
def test_batches_make_the_same_queues_and_index(
    batches: list[tuple[int, int, int]], tags: str, step: int, damages: list[tuple[int, int]]
) -> None:
    """Also after damage of hosts, times and properties."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        log = bytearray(log_of(root / "master", batches, tags))
        size = int.from_bytes(log[:4], "big")  # of all records
        for place, change in damages:
            at = place % len(log) % size
            if 40 <= at < 84 or at >= size - 40:
                log[place % len(log)] ^= change
        one_by_one = replica(root / "each", bytes(log), step, least=NEVER)
        assert replica(root / "runs", bytes(log), step, least=8) == one_by_one


@pytest.mark.parametrize("least_of_batch", [LEAST_OF_BATCH, NEVER])
@pytest.mark.parametrize("record", [0, 1, 60])
def test_a_queue_offset_that_does_not_follow_is_entered_once(tmp_path: Path, least_of_batch: int, record: int) -> None:
    """Observers receive each record once, too, when a run is not entered as one."""
    log = bytearray(log_of(tmp_path / "master", [(100, 5, 0)]))
    log[record * int.from_bytes(log[:4], "big") + 27] ^= 0x80
    one_by_one = replica(tmp_path / "each", bytes(log), FILE, least=NEVER)
    with patch("rmqlab.store.batches.batchruns.LEAST_OF_BATCH", least_of_batch):
        assert replica(tmp_path / "runs", bytes(log), FILE, least=8) == one_by_one


@pytest.mark.parametrize("count", [LEAST_OF_BATCH, 100])
def test_a_batch_is_read_at_once(tmp_path: Path, count: int) -> None:
    """Else the test above would prove nothing."""
    found: list[BatchRun | None] = []
    read = BatchRunReader.read

    def spy(*args: object) -> BatchRun | None:
        found.append(read(*args))  # type: ignore[arg-type]
        return found[-1]

    log = log_of(tmp_path / "master", [(count, 0xFF0, 0), (count, 5, 1)])
    with patch.object(BatchRunReader, "read", spy):
        replica(tmp_path / "slave", log, FILE, least=8)
    assert [run and run.count for run in found] == [count, count]
