"""Of a bulk, the queues are entered first.

What follows later is in the end the same index (sections 3.3, 3.4).
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rmqlab.store.dispatch
from rmqlab.store.batches.keyreader import KeyReader
from rmqlab.store.config import StoreConfig
from rmqlab.store.keyindex.indexing import index_hashes
from rmqlab.store.keyindex.indexkeys import KeyCollector
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]
COUNT = 1500
FILE = 1 << 20
END_OF_TIME = 2**62


@pytest.fixture
def master(open_store: Open) -> MessageStore:
    """600 kB in one file, keys of all kinds, more than one index file."""
    opened = open_store("master", mapped_file_size_commit_log=FILE, max_index_num=1000)
    for number in range(COUNT):
        keys = f"k{number} other{number}" if number % 3 == 0 else ""
        opened.put(
            new_message(b"x" * 250, queue_id=number % 3, tags="T", keys=keys, unique_key=f"7F000001{number:024X}")
        )
    return opened


@pytest.fixture
def slave(open_store: Open, master: MessageStore) -> MessageStore:
    """It has received all and entered nothing."""
    opened = open_store("slave", is_slave=True, mapped_file_size_commit_log=FILE, max_index_num=1000)
    opened.append_raw(0, master.read_log(0, FILE))
    return opened


def index_bytes(one: MessageStore) -> list[bytes]:
    assert one.index is not None
    return [file.file.path.read_bytes() for file in one.index.files]


def enter_queues_only(slave: MessageStore) -> None:
    while slave.dispatch(100_000, may_index=False):
        pass


def finds_everything(one: MessageStore) -> bool:
    return all(one.query("orders", f"7F000001{number:024X}", 9, 0, END_OF_TIME).buffers for number in range(COUNT))


def test_a_bulk_is_indexed_last_with_the_same_result(master: MessageStore, slave: MessageStore) -> None:
    dispatcher, end = slave.dispatcher, master.max_commit_log_offset
    steps: list[tuple[int, int]] = []
    while slave.dispatch(100_000):
        steps.append((dispatcher.offset, dispatcher.indexed))
    assert all(indexed == 0 or entered == end for entered, indexed in steps)
    assert steps[-1] == (end, end)
    assert len(steps) >= 12
    assert index_bytes(slave) == index_bytes(master)


def test_after_a_crash_a_long_log_is_indexed_in_idle_time(
    master: MessageStore, open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 3.5, steps 4 and 8: lost entries are indexed again.

    Messages are stored and found meanwhile.
    """
    shutil.copytree(master.config.store_path_root_dir, tmp_path / "killed")
    monkeypatch.setattr(rmqlab.store.dispatch, "INDEX_AT_ONCE", 100_000)
    again = open_store("killed", mapped_file_size_commit_log=FILE, max_index_num=1000)
    assert again.max_queue_offset("orders", 0) == COUNT // 3
    assert again.dispatcher.indexed == 0
    assert again.put(new_message(unique_key="new", queue_id=0)).queue_offset == COUNT // 3
    assert again.get_message("orders", 0, COUNT // 3, 1).count == 1
    assert again.dispatcher.want_index() is not None
    while again.dispatch(100_000):
        again.put(new_message(queue_id=1))
    assert finds_everything(again)
    assert again.query("orders", "new", 9, 0, END_OF_TIME).buffers
    assert again.dispatch_behind_bytes == 0


def test_records_that_a_crash_left_unindexed_are_indexed_at_a_stop(
    master: MessageStore, open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """store-ha#5."""
    shutil.copytree(master.config.store_path_root_dir, tmp_path / "killed")
    monkeypatch.setattr(rmqlab.store.dispatch, "INDEX_AT_ONCE", 0)
    again = open_store("killed", mapped_file_size_commit_log=FILE, max_index_num=1000)
    assert again.dispatcher.is_index_behind
    again.close()
    assert not (tmp_path / "killed" / "abort").exists()
    assert finds_everything(open_store("killed", mapped_file_size_commit_log=FILE, max_index_num=1000))


def test_a_trickle_goes_into_queues_and_index_together(master: MessageStore, open_store: Open) -> None:
    slave = open_store("slave", is_slave=True, mapped_file_size_commit_log=FILE)
    while slave.max_commit_log_offset < master.max_commit_log_offset:
        slave.append_raw(slave.max_commit_log_offset, master.read_log(slave.max_commit_log_offset, 50_000))
        slave.dispatch(100_000, may_index=False)
        assert not slave.dispatcher.is_index_behind
    assert finds_everything(slave)


def test_unindexed_messages_count_as_behind(master: MessageStore, slave: MessageStore) -> None:
    enter_queues_only(slave)
    assert slave.dispatched_offset == master.max_commit_log_offset
    assert slave.dispatch_behind_bytes == master.max_commit_log_offset
    slave.dispatch()
    assert slave.dispatch_behind_bytes == 0


def test_without_an_index_nothing_lags(master: MessageStore, open_store: Open) -> None:
    slave = open_store("slave", is_slave=True, mapped_file_size_commit_log=FILE, message_index_enable=False)
    slave.append_raw(0, master.read_log(0, FILE))
    slave.dispatch(300_000)
    assert slave.dispatch_behind_bytes == master.max_commit_log_offset - slave.dispatched_offset
    assert slave.dispatcher.want_index() is None


def test_an_index_that_is_wanted_is_taken_along(slave: MessageStore) -> None:
    dispatcher = slave.dispatcher
    slave.dispatch(200_000)
    assert dispatcher.want_index() == dispatcher.offset > 0 == dispatcher.indexed
    wanted = dispatcher.offset
    slave.dispatch(100_000, may_index=False)
    slave.dispatch(100_000, may_index=False)
    assert wanted <= dispatcher.indexed < dispatcher.offset
    at = dispatcher.indexed
    slave.dispatch(100_000)
    assert dispatcher.indexed == at  # nobody waits any more
    slave.dispatch()
    assert dispatcher.want_index() is None


@pytest.mark.parametrize(("bound", "most"), [("INDEX_LAG", 200_000), ("INDEX_LAG_ENTRIES", 400)])
def test_the_index_is_never_far_behind(
    bound: str, most: int, master: MessageStore, slave: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rmqlab.store.dispatch, bound, most)
    size = master.max_commit_log_offset / COUNT
    furthest = 0
    while slave.dispatch(50_000, may_index=False):
        furthest = max(furthest, slave.dispatcher.offset - slave.dispatcher.indexed)
    allowed = most if bound == "INDEX_LAG" else most * size
    assert allowed <= furthest <= allowed + 60_000
    assert slave.dispatched_offset == master.max_commit_log_offset


def test_a_clean_stop_finishes_the_index(master: MessageStore, slave: MessageStore, open_store: Open) -> None:
    """store-ha#5."""
    enter_queues_only(slave)
    slave.close()
    assert not (slave.config.store_path_root_dir / "abort").exists()
    slave = open_store(config=slave.config, is_slave=True)
    assert index_bytes(slave) == index_bytes(master)


@pytest.mark.parametrize("indexed", [0, 300_000])
def test_a_crash_loses_nothing_that_the_index_had_not_yet(
    indexed: int, slave: MessageStore, open_store: Open, tmp_path: Path
) -> None:
    """The young index file is dropped (store-ha#27), and rebuilt from the log file."""
    enter_queues_only(slave)
    slave.dispatcher.enter_index(indexed)
    shutil.copytree(slave.config.store_path_root_dir, tmp_path / "crashed")
    again = open_store("crashed", is_slave=True, mapped_file_size_commit_log=FILE, max_index_num=1000)
    assert again.dispatch_behind_bytes == 0
    assert finds_everything(again)


def test_records_before_the_files_walked_again_are_indexed_from_where_the_index_was(
    open_store: Open, tmp_path: Path
) -> None:
    """RocketMQ walks only the newest safe file.

    Its index was never behind, ours may have been.
    """
    master = open_store("master")
    for number in range(COUNT):
        master.put(new_message(b"x" * 250, unique_key=f"7F000001{number:024X}"))
    slave = open_store("slave", is_slave=True)
    while slave.max_commit_log_offset < master.max_commit_log_offset:
        slave.append_raw(slave.max_commit_log_offset, master.read_log(slave.max_commit_log_offset, 65536))
    enter_queues_only(slave)
    slave.dispatcher.enter_index(150_000)
    reached = slave.dispatcher.indexed
    slave.checkpoint.physic_msg_timestamp = slave.checkpoint.logics_msg_timestamp = END_OF_TIME
    slave.checkpoint.write()
    shutil.copytree(slave.config.store_path_root_dir, tmp_path / "crashed")
    again = open_store("crashed", is_slave=True)
    found = [
        bool(again.query("orders", f"7F000001{number:024X}", 9, 0, END_OF_TIME).buffers) for number in range(COUNT)
    ]
    last_indexed = found.index(True)
    entry = master.queue_entries("orders", 0, last_indexed, 1)[0]
    assert entry[0] + entry[1] == reached  # before it, what a crash takes of RocketMQ, too
    assert all(found[last_indexed:])


hex_keys = st.text("0123456789ABCDEF", min_size=32, max_size=32)
values = st.one_of(hex_keys, st.text("0Fxyé_ -~\x7f", min_size=1, max_size=40), st.just("7" * 31 + "~"))
names = st.sampled_from(["UNIQ_KEY", "KEYS", "MYKEYS", "XUNIQ_KEY", "WAIT", "TAGS"])


@example([("UNIQ_KEY", "0")], "", "orders")
@example([("UNIQ_KEY", "0" * 31)], "\x02", "orders")
@example([("UNIQ_KEY", "0" * 33)], "", "orders")
@example([("UNIQ_KEY", "7F" * 16)], "", "orders")
@given(
    st.lists(st.tuples(names, values), max_size=6),
    st.sampled_from(["", "\x02"]),
    st.sampled_from(["orders", "%RETRY%g", "größe"]),
)
def test_keys_read_from_a_record_are_those_of_its_properties(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], ending: str, topic: str
) -> None:
    """store-ha#24: both ways to read keys agree, also for a client's unique key."""
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + ending
    config = StoreConfig(
        store_path_root_dir=tmp_path_factory.mktemp("keys"), mapped_file_size_commit_log=65536, message_index_enable=False
    )  # fmt: skip
    opened = MessageStore.open(config, now_millis=lambda: 5)
    opened.put(msgspec.structs.replace(new_message(topic=topic), properties=text))
    keys = KeyCollector()
    KeyReader().read(opened.log.files.files[0], 0, opened.max_commit_log_offset, keys)
    opened.close()
    expected = index_hashes(b"\x02" + text.encode() + b"\x02", topic.encode() + b"#")
    assert list(keys.entries()) == [(hashed, 0, 5) for hashed in expected]
