"""A batch leaves the same bytes in files as its messages sent one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.remoting.batch import Batch, BatchItem, ReceivedBatch, encode_batch
from rmqlab.remoting.message import NewMessage
from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, small_config

HEX = "0123456789ABCDEF"
COUNTED = st.integers(0, 2**32 - 1).map(lambda number: f"C00002020D4B4E0E2F2A65D1{number:08X}")
KEYS = st.one_of(
    COUNTED,
    st.text(HEX, min_size=32, max_size=32),
    COUNTED.map(lambda key: f"{key[:26]}:{key[27:]}"),
    COUNTED.map(lambda key: f"{key[:25]}\x02T\x01Z{key[29:]}"),
    COUNTED.map(lambda key: f"{key}é"),
    st.text(HEX, min_size=56, max_size=56),
    st.just(""),
)
OTHERS = st.lists(
    st.sampled_from(
        ["WAIT\x01true", "TAGS\x01a", "TAGS\x01b", "KEYS\x01k l", "xUNIQ_KEY\x01no", "a\x01KEYS", "UNIQ_KEY\x01u"]
    ),
    max_size=3,
)
SHARED = st.sampled_from(["WAIT\x01true\x02CLUSTER\x01c", "", "TAGS\x01shared", f"UNIQ_KEY\x01{'0' * 32}", "KEYS\x01m"])


@st.composite
def batches(draw: st.DrawFn) -> list[BatchItem]:
    """Mostly of uniform messages, as one producer's are."""
    before, after, ending = draw(OTHERS), draw(OTHERS), draw(st.sampled_from(["", "\x02"]))
    bodies = draw(st.sampled_from([st.binary(max_size=40), st.binary(min_size=9, max_size=9)]))
    items = []
    for key in draw(st.lists(draw(st.sampled_from([COUNTED, KEYS])), min_size=1, max_size=30)):
        pairs = [*before, *([f"UNIQ_KEY\x01{key}"] if key else []), *(after if draw(st.integers(0, 9)) else [])]
        text = "\x02".join(pairs) + (ending if pairs else "")
        items.append(BatchItem(draw(bodies), text.encode(), draw(st.sampled_from([0, 0, 7]))))
    return items


def shared_message(properties: str, host: str) -> NewMessage:
    return NewMessage(
        "orders",
        2,
        b"",
        (host, 40000),
        (host, 10911),
        SOME_DAY - 5,
        sys_flag=0x1,
        reconsume_times=3,
        properties=properties,
    )


def one_by_one(shared: NewMessage, items: list[BatchItem]) -> Iterator[NewMessage]:
    for item in items:
        own = item.properties.decode()
        text = own + ("\x02" if own and shared.properties and not own.endswith("\x02") else "") + shared.properties
        yield NewMessage(
            shared.topic, shared.queue_id, bytes(item.body), shared.born_host, shared.store_host, shared.born_timestamp,
            item.flag, shared.sys_flag, shared.reconsume_times, 0, text,
        )  # fmt: skip


def content(config: StoreConfig) -> dict[str, bytes]:
    """All of log, queues and index; index files by number, for their names are times."""
    root = config.store_path_root_dir
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for directory in (config.store_path_commit_log, root / "consumequeue")
        for path in directory.rglob("0*")
        if path.is_file()
    }
    files |= {f"index/{number}": path.read_bytes() for number, path in enumerate(sorted((root / "index").glob("*")))}
    return files


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1"])
@settings(max_examples=60, deadline=None)
@given(st.lists(batches(), min_size=1, max_size=3), SHARED)
def test_a_batch_leaves_what_its_messages_would_have_left_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, host: str, sent: list[list[BatchItem]], properties: str
) -> None:
    """store-ha#17, #23, #24: log, queues and index, byte by byte.

    Also mixed within a pass, and on a slave.
    """
    root, shared = tmp_path_factory.mktemp("batches"), shared_message(properties, host)
    paths = [root / name for name in ("batch", "received", "singles", "mixed", "slave")]
    by_batch, received, by_one, mixed, slave = (
        MessageStore.open(small_config(path, max_index_num=40), now_millis=ManualClock(), is_slave=path.name == "slave")
        for path in paths
    )
    for items in sent:
        assert by_batch.put_batch(shared, Batch.of(items)).is_stored
        assert by_batch.put_batch(shared, Batch.of(items)).is_stored
        assert received.put_batch(shared, ReceivedBatch(encode_batch(items))).is_stored
        assert received.put_batch(shared, ReceivedBatch(encode_batch(items))).is_stored
        for number, message in enumerate(one_by_one(shared, items)):
            by_one.put(message)
            mixed.append_batch(shared, Batch.of([items[number]])) if number % 3 == 1 else mixed.append(message)
        mixed.append_batch(shared, ReceivedBatch(encode_batch(items)))
        for message in one_by_one(shared, items):
            by_one.put(message)
        end = slave.max_commit_log_offset
        slave.append_raw(end, by_batch.read_log(end, 1 << 20))
        slave.dispatch(1 << 20)
    mixed.enter_appended()
    stores = (by_batch, received, by_one, mixed, slave)
    assert {store.dispatch_behind_bytes for store in stores} == {0}
    batch_files, received_files, one_files, mixed_files, slave_files = [content(store.config) for store in stores]
    assert batch_files == one_files
    assert received_files == one_files
    assert mixed_files == one_files
    assert slave_files == one_files
    for store in stores:
        store.close()


@pytest.fixture
def full_slots(tmp_path: Path) -> StoreConfig:
    return small_config(tmp_path / "store", max_hash_slot_num=3, max_index_num=400)


def test_keys_of_one_batch_that_share_a_slot_are_chained(full_slots: StoreConfig) -> None:
    """store-ha#23: all of 30 keys are found, though there are three slots."""
    store = MessageStore.open(full_slots, now_millis=ManualClock())
    items = [BatchItem(b"%d" % number, b"UNIQ_KEY\x01C00002020D4B4E0E2F2A65D1%08X" % number) for number in range(30)]
    store.put_batch(shared_message("", "10.0.0.1"), Batch.of(items))
    for number in range(30):
        assert len(store.query("orders", f"C00002020D4B4E0E2F2A65D1{number:08X}", 9, 0, 2**62).buffers) == 1
    store.close()


def test_records_of_one_size_may_have_parts_of_other_sizes(tmp_path: Path) -> None:
    """What one body has more, its properties have less."""
    shared = shared_message("", "10.0.0.1")
    items = [BatchItem(b"ab", b"KEYS\x01kl", 0), BatchItem(b"abc", b"KEYS\x01k", 0)]
    by_batch, by_one = (
        MessageStore.open(small_config(tmp_path / name), now_millis=ManualClock()) for name in ("batch", "singles")
    )
    assert by_batch.put_batch(shared, Batch.of(items)).is_stored
    for message in one_by_one(shared, items):
        by_one.put(message)
    batch_files, one_files = content(by_batch.config), content(by_one.config)
    by_batch.close()
    by_one.close()
    assert batch_files == one_files
