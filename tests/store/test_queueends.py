"""Queues that lost entries after a clean stop are made again from the log."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE
from rmqlab.store.queue.queueends import ENDS_FILE
from rmqlab.store.testing import ManualClock, new_message, small_config

COUNT = 70  # of each queue: two files
Entries = dict[tuple[str, int], list[tuple[int, int, int]]]


def opened(root: Path, disk: Disk | None = None) -> MessageStore:
    return MessageStore.open(small_config(root), now_millis=ManualClock(step=1), disk=disk)


def entered(store: MessageStore) -> Entries:
    return {
        (topic, queue_id): [
            entry
            for at in range(store.min_queue_offset(topic, queue_id), store.max_queue_offset(topic, queue_id))
            for entry in store.queue_entries(topic, queue_id, at, 1)
        ]
        for topic, queue_id in store.topics_queues()
    }


@pytest.fixture
def root(quick_path: Path) -> Path:
    """A store with three queues, of which the last one has the last record."""
    store = opened(quick_path / "store")
    for _ in range(COUNT):
        for topic, queue_id in (("orders", 0), ("orders", 1), ("pay", 0)):
            store.put(new_message(topic=topic, queue_id=queue_id))
    store.close()
    return quick_path / "store"


def lose_queue(queue: Path) -> None:
    shutil.rmtree(queue)


def lose_topic(queue: Path) -> None:
    shutil.rmtree(queue.parent)


def lose_last_file(queue: Path) -> None:
    max(queue.iterdir()).unlink()


def zero_all(queue: Path) -> None:
    for path in queue.iterdir():
        path.write_bytes(bytes(path.stat().st_size))


def zero_tail(queue: Path) -> None:
    path = max(queue.iterdir())
    path.write_bytes(path.read_bytes()[: 3 * 20].ljust(path.stat().st_size, b"\0"))


LOSSES = [lose_queue, lose_topic, lose_last_file, zero_all, zero_tail]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("queue", ["orders/0", "pay/0"])
def test_lost_entries_are_made_again(
    root: Path, lose: Callable[[Path], None], queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """4.9.8 gives the queue offsets of the lost entries to new messages."""
    store = opened(root)
    whole = entered(store)
    store.close()
    lose(root / "consumequeue" / queue)
    store = opened(root)
    assert entered(store) == whole
    assert f"{root / 'consumequeue' / queue}: entries from" in caplog.text
    topic, queue_id = queue.split("/")
    assert store.put(new_message(topic=topic, queue_id=int(queue_id))).queue_offset == COUNT
    store.close()
    caplog.clear()
    opened(root).close()
    assert not caplog.text


@pytest.mark.parametrize("lose", [lose_queue, lose_topic, lose_last_file, zero_tail])
def test_a_log_that_lost_its_first_file_has_the_other_entries(root: Path, lose: Callable[[Path], None]) -> None:
    store = opened(root)
    for _ in range(600):
        store.put(new_message(bytes(200)))
    store.put(new_message(topic="pay"))
    store.close()
    min((root / "commitlog").iterdir()).unlink()
    store = opened(root)
    whole = entered(store)["orders", 0]
    store.close()
    lose(root / "consumequeue" / "orders" / "0")
    store = opened(root)
    found = [entry for entry in entered(store)["orders", 0] if entry[1] != PRE_BLANK_SIZE]
    assert found == whole[-len(found) :]
    assert len(found) >= 300
    assert store.put(new_message()).queue_offset == COUNT + 600
    store.close()


def zero_from(path: Path, end: int) -> None:
    path.write_bytes(path.read_bytes()[:end].ljust(path.stat().st_size, b"\0"))


@pytest.fixture
def large(quick_path: Path) -> Path:
    """A store with records above 255 bytes: a size without a byte is still one."""
    store = opened(quick_path / "large")
    for _ in range(COUNT):
        for topic, queue_id in (("orders", 0), ("pay", 0)):
            store.put(new_message(bytes(300), topic=topic, queue_id=queue_id, tags="A"))
    store.close()
    return quick_path / "large"


@pytest.mark.parametrize("queue", ["orders/0", "pay/0"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("at", range(20))
def test_a_queue_that_ends_within_an_entry_is_made_again(large: Path, queue: str, number: int, at: int) -> None:
    """4.9.8 takes a part of an entry for an entry, which ends within a record."""
    store = opened(large)
    whole = entered(store)
    store.close()
    zero_from(sorted((large / "consumequeue" / queue).iterdir())[number], 3 * 20 + at)
    store = opened(large)
    assert entered(store) == whole
    store.close()


@pytest.mark.parametrize("queue", ["orders/0", "pay/0"])
def test_a_last_entry_with_a_part_of_its_size_is_made_again(large: Path, queue: str) -> None:
    store = opened(large)
    whole = entered(store)
    store.close()
    zero_from(sorted((large / "consumequeue" / queue).iterdir())[1], 19 * 20 + 11)
    store = opened(large)
    assert entered(store) == whole
    store.close()


def test_a_slave_goes_on_behind_a_torn_last_entry(large: Path) -> None:
    """4.9.8 begins within the last record, and stops there. No ends are known."""
    (large / ENDS_FILE).unlink()
    zero_from(sorted((large / "consumequeue" / "pay" / "0").iterdir())[1], 19 * 20 + 11)
    master = opened(large)
    whole = entered(master)
    master.close()
    (large / ENDS_FILE).unlink()
    zero_from(sorted((large / "consumequeue" / "pay" / "0").iterdir())[1], 19 * 20 + 11)
    slave = MessageStore.open(small_config(large), now_millis=ManualClock(step=1), is_slave=True)
    assert slave.dispatch_behind_bytes == 0
    assert entered(slave) == whole
    slave.close()


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("is_light", [True, False])
def test_a_queue_with_the_files_of_another_is_made_again(root: Path, more: int, *, is_light: bool) -> None:
    """A light queue has entries of records of other topics, which name it."""
    store = opened(root)
    for topic in (*["orders"] * (1 + more), "pay"):
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%1"} if is_light else {}
        store.put(new_message(topic=topic, properties=properties))
    whole = entered(store)
    store.close()
    queues = root / "consumequeue"
    for source, target in (("orders/0", "swap"), ("pay/0", "orders/0"), ("swap", "pay/0")):
        (queues / source).rename(queues / target)
    store = opened(root)
    assert (entered(store) == whole) is not is_light
    if not is_light:
        assert store.put(new_message(topic="pay")).queue_offset == COUNT + 1
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("queue", ["orders/0", "pay/0"])
def test_a_queue_file_that_is_a_copy_of_a_later_one_is_made_again(root: Path, queue: str, *, is_clean: bool) -> None:
    """4.9.8 serves it so, and new messages get queue offsets of old ones again."""
    store = opened(root)
    whole = entered(store)
    if is_clean:
        store.close()
    else:
        store._release()
    earlier, later = sorted((root / "consumequeue" / queue).iterdir())
    raw = later.read_bytes()[: 20 * 20]  # the later file is not full
    earlier.write_bytes(raw + raw[-20:] * 30)
    store = opened(root)
    assert entered(store) == whole
    topic, queue_id = queue.split("/")
    assert store.put(new_message(topic=topic, queue_id=int(queue_id))).queue_offset == COUNT
    store.close()


@pytest.mark.parametrize("is_young", [True, False])
def test_files_of_another_queue_stay_if_no_record_of_this_one_is_left(root: Path, *, is_young: bool) -> None:
    """New messages must not get the queue offsets of old ones.

    The log has all records of a young queue.
    """
    store = opened(root)
    for _ in range(600):
        store.put(new_message(bytes(200), queue_id=2 if is_young else 1))
    store.close()
    queues = root / "consumequeue"
    shutil.rmtree(queues / "pay" / "0")
    shutil.copytree(queues / "orders" / ("2" if is_young else "1"), queues / "pay" / "0")
    min((root / "commitlog").iterdir()).unlink()
    store = opened(root)
    assert store.max_queue_offset("pay", 0) >= COUNT
    store.close()


@pytest.mark.parametrize("is_expired", [True, False])
@pytest.mark.parametrize("is_slave", [True, False])
def test_a_last_entry_that_points_at_no_record_is_made_again(large: Path, *, is_expired: bool, is_slave: bool) -> None:
    """It begins below the first file and ends in the log, or at a negative offset."""
    store = opened(large)
    for _ in range(300):
        store.put(new_message(bytes(300), topic="orders"))
    store.close()
    if is_expired:
        min((large / "commitlog").iterdir()).unlink()
    store = opened(large)
    whole, begin = entered(store), store.log.min_offset
    store.close()
    path = max((large / "consumequeue" / "orders" / "0").iterdir())
    raw = bytearray(path.read_bytes())
    last = 20 * (len(raw.rstrip(b"\0")) // 20)
    ENTRY.pack_into(raw, last, *((1000, begin + 77, 0) if is_expired else (-1000, 77, 0)))
    path.write_bytes(raw)
    store = MessageStore.open(small_config(large), now_millis=ManualClock(step=1), is_slave=is_slave)
    assert store.dispatch_behind_bytes == 0
    assert entered(store) == whole
    store.close()


def test_queues_of_a_deleted_topic_stay_deleted(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(root)
    store.delete_topic("orders")
    store.close()
    store = opened(root)
    assert entered(store).keys() == {("pay", 0)}
    assert not caplog.text
    store.close()


def test_queues_of_a_topic_that_rocketmq_deleted_stay_deleted(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It does not know the file."""
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"pay": {"topicName": "pay"}}}')
    shutil.rmtree(root / "consumequeue" / "orders")
    store = opened(root)
    assert entered(store).keys() == {("pay", 0)}
    assert not caplog.text
    store.close()


def test_ends_of_a_log_that_rocketmq_continued_are_not_used(root: Path) -> None:
    ends = json.loads((root / ENDS_FILE).read_bytes())
    (root / ENDS_FILE).write_text(json.dumps(ends | {"log": ends["log"] - 1}))
    shutil.rmtree(root / "consumequeue" / "orders")
    store = opened(root)
    assert entered(store).keys() == {("pay", 0)}
    store.close()


def test_a_queue_of_lost_records_only_is_not_missed(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(root)
    end = store.log.max_offset
    store.put(new_message(topic="last"))
    store.close()
    log = max((root / "commitlog").iterdir())
    raw = log.read_bytes()
    kept = end - int(log.name)
    log.write_bytes(raw[:kept].ljust(len(raw), b"\0"))
    store = opened(root)
    assert "is cut at" in caplog.text
    assert "damaged or missing" not in caplog.text
    store.close()


def test_entries_beyond_a_damaged_log_are_not_missed(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their records are lost, which has a line of its own."""
    log = min((root / "commitlog").iterdir())
    raw = log.read_bytes()
    log.write_bytes(raw[:5000].ljust(len(raw), b"\0"))
    store = opened(root)
    assert 0 < store.max_queue_offset("orders", 0) < COUNT
    assert "is cut at" in caplog.text
    assert "damaged or missing" not in caplog.text
    store.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"log":1,"queues":{"orders":{"x":1}}}',
        b'{"log":1,"queues":{"orders":{"0":[1]}}}',
        b'{"log":1,"queues":{"orders":{"0":"1"}}}',
        b'{"log":1.5,"queues":{}}',
    ],
)
def test_an_invalid_file_is_named_and_not_used(root: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (root / ENDS_FILE).write_bytes(content)
    store = opened(root)
    assert store.max_queue_offset("orders", 0) == COUNT
    assert f"{root / ENDS_FILE} is not used: " in caplog.text
    store.close()


@pytest.mark.parametrize("end", [-1, COUNT, 2**63, 10**40])
@pytest.mark.parametrize("physical", [-1, 0, 2**63, -(10**40)])
@pytest.mark.parametrize("topic", ["orders", "../x", "a/b", "", "new", "\0", "\ud800" * 300])
def test_foreign_ends_change_no_queue(root: Path, topic: str, end: int, physical: int) -> None:
    store = opened(root)
    whole = entered(store)
    store.close()
    queues = {topic: {0: end, -(2**70): end}}
    (root / ENDS_FILE).write_bytes(json.dumps({"log": physical, "queues": queues}).encode())
    store = opened(root)
    found = entered(store)
    assert {key: entries for key, entries in found.items() if entries} == whole
    assert not [path for path in root.parent.rglob("*") if path.name in ("x", "b", "new")]
    store.close()


def test_a_store_that_cannot_write_the_file_stops_in_good_order(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(root)
    (root / ENDS_FILE).unlink()
    (root / ENDS_FILE).mkdir()
    store.close()
    assert not (root / "abort").exists()
    assert f"{root / ENDS_FILE} is not written" in caplog.text


@pytest.mark.parametrize("lose", [zero_tail, lose_last_file])
def test_a_light_queue_that_lost_entries_stays_as_it_is(
    root: Path, lose: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Dispatch makes none of its entries.

    It must begin behind the last record, not where this queue ends.
    """
    store = opened(root)
    light = store.queues.open("%LMQ%1", 0)
    for at in range(COUNT):
        put = store.put(new_message(properties={"INNER_MULTI_DISPATCH": "%LMQ%1"}))
        light.append(at, put.physical_offset, put.end_offset - put.physical_offset, 0)
    whole = entered(store)
    store.close()
    lose(root / "consumequeue" / "%LMQ%1" / "0")
    store = opened(root)
    found = entered(store)
    left = found.pop(("%LMQ%1", 0))
    assert 0 < len(left) < COUNT
    assert left == whole.pop(("%LMQ%1", 0))[: len(left)]
    assert found == whole
    assert "made again" not in caplog.text
    assert store.flusher.marks.queues == store.log.max_offset
    store.close()
