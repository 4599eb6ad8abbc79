"""Tables and index files that cannot be what their broker wrote."""

import datetime as dt
import os
import shutil
import struct
from pathlib import Path

import pytest

from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.store.files.configfile import save_config_file
from rmqlab.store.files.disk import Disk
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.indexfiles import foreign_indexes, odd_index_names
from rmqlab.store.offline.sidefiles import (
    differing_tables,
    missing_tables,
    shared_logs,
    side_file_warnings,
    unreadable_tables,
)
from rmqlab.store.testing import ManualClock, new_message, small_config


def make_store(root: Path, prefix: str, count: int = 30) -> Path:
    """Write a store with an index file; return its root."""
    store = MessageStore.open(small_config(root / "store"), now_millis=ManualClock())
    for number in range(count):
        store.put(new_message(unique_key=f"{prefix}{number:04}", keys=f"k{number} l{number}"))
    store.dispatch()
    store.close()
    (root / "config.toml").write_text("max_hash_slot_num = 100\nmax_index_num = 400\n")
    return root / "store"


def index_of(root: Path) -> Path:
    (path,) = (root / "index").iterdir()
    return path


def save_topics(root: Path, queues: int, counter: int = 1) -> None:
    table = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=counter, timestamp=5),
        topic_config_table={
            "orders": TopicConfig(topic_name="orders", read_queue_nums=queues, write_queue_nums=queues)
        },
    )
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_bytes(table.encode())


def test_an_index_of_these_records_is_not_foreign(tmp_path: Path) -> None:
    assert list(foreign_indexes(make_store(tmp_path / "a", "A"))) == []


@pytest.mark.parametrize(
    ("count", "text"), [(40, "states 39 entries, and more follow"), (100, "and the last of them is empty")]
)
def test_a_head_with_another_number_of_entries_is_reported(tmp_path: Path, count: int, text: str) -> None:
    root = make_store(tmp_path / "a", "A")
    content = bytearray(index_of(root).read_bytes())
    assert struct.unpack_from(">i", content, 36) == (91,)
    struct.pack_into(">i", content, 36, count)
    index_of(root).write_bytes(content)
    (line,) = foreign_indexes(root)
    assert text in line


def test_names_of_index_files_are_times_in_the_order_of_their_messages(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A", count=300)
    files = sorted((root / "index").iterdir())
    assert len(files) == 3
    assert list(odd_index_names(root)) == []
    files[0].rename(files[0].with_name("20991231235959999"))
    (line,) = odd_index_names(root)
    assert line.startswith("store/index/20991231235959999: it states messages from 0 on")


def name_of(millis: int) -> str:
    at = dt.datetime.fromtimestamp(millis / 1000, dt.UTC)
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03}"


@pytest.mark.parametrize(("minutes_back", "is_odd"), [(0, False), (30, False), (60, False), (62, False), (180, True)])
def test_the_end_of_summer_time_gives_a_newer_file_an_earlier_name(
    tmp_path: Path, minutes_back: int, *, is_odd: bool
) -> None:
    root = make_store(tmp_path / "a", "A", count=300)
    for nth, path in enumerate(sorted((root / "index").iterdir())):
        (begin,) = struct.unpack(">q", path.read_bytes()[:8])
        zone = 7_200_000 - (minutes_back * 60_000 if nth == 2 else 0)
        path.rename(path.with_name(name_of(begin + zone + nth)))
    assert bool(list(odd_index_names(root))) is is_odd


@pytest.mark.parametrize(
    ("place", "by", "text"),
    [
        (0, -1, "for the message at 0, which was stored at"),
        (8, 5000, "queries of a time leave out the file"),
        (16, 1, "its head states messages from 1 to"),
        (24, -1, "and its entries lead from 0 to"),
        (24, 10**9, "and its entries lead from 0 to"),
    ],
    ids=["first time", "last time", "first offset", "last offset", "offset beyond the log"],
)
def test_a_head_with_other_messages_or_times_is_reported(tmp_path: Path, place: int, by: int, text: str) -> None:
    root = make_store(tmp_path / "a", "A")
    content = bytearray(index_of(root).read_bytes())
    struct.pack_into(">q", content, place, struct.unpack_from(">q", content, place)[0] + by)
    index_of(root).write_bytes(content)
    (line,) = foreign_indexes(root)
    assert text in line


def test_the_head_of_an_index_that_a_broker_cut_is_not_reported(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    file = IndexFile.open(index_of(root), 100, 400, Disk(), create=False)
    log_end = file.end_physical
    assert file.cut(log_end)
    file.file.close()
    (log,) = (root / "commitlog").iterdir()
    with log.open("r+b") as content:
        content.seek(log_end)
        content.write(bytes(400))
    assert list(foreign_indexes(root)) == []


@pytest.mark.parametrize("name", ["first", "20269931235959999", "0261231235959999"])
def test_a_name_that_no_broker_gives_is_reported(tmp_path: Path, name: str) -> None:
    root = make_store(tmp_path / "a", "A")
    index_of(root).rename(root / "index" / name)
    assert list(odd_index_names(root)) == [f"store/index/{name}: no broker gives an index file this name"]


def test_a_name_before_the_first_message_is_reported(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    index_of(root).rename(root / "index" / "20100101000000000")
    (line,) = odd_index_names(root)
    assert "its name is an earlier time than that of its first message" in line


def test_a_copy_of_an_index_file_is_reported(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    own = index_of(root)
    shutil.copy(own, own.with_name(str(int(own.name) + 1)))
    (line,) = odd_index_names(root)
    assert f"and {own.name}, which is older by its name" in line
    assert line.endswith("renamed or copied, or the local time was set back")


def test_an_index_of_another_broker_is(tmp_path: Path) -> None:
    root, other = make_store(tmp_path / "a", "A"), make_store(tmp_path / "b", "B")
    shutil.copy(index_of(other), index_of(root))
    (line,) = foreign_indexes(root)
    assert line.startswith(f"store/index/{index_of(root).name}: ")
    assert "the index of another broker" in line


@pytest.mark.parametrize("damage", [bytes, os.urandom])
def test_an_index_with_other_bytes_behind_its_head_is(tmp_path: Path, damage: type[bytes]) -> None:
    root = make_store(tmp_path / "a", "A")
    content = index_of(root).read_bytes()
    index_of(root).write_bytes(content[:40] + damage(len(content) - 40))
    assert len(list(foreign_indexes(root))) == 1


def test_a_head_without_entries_is(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    content = index_of(root).read_bytes()
    index_of(root).write_bytes(content[:32] + bytes(len(content) - 32))
    (line,) = foreign_indexes(root)
    assert line.endswith("and has no entries")


def test_a_few_records_that_are_gone_do_not_make_an_index_foreign(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    (log,) = (root / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.write(bytes(400))
    assert list(foreign_indexes(root)) == []


def test_an_index_of_other_sizes_proves_nothing(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    (root.parent / "config.toml").write_text("max_hash_slot_num = 'many'\n")
    index_of(root).write_bytes(bytes(index_of(root).stat().st_size))
    assert list(foreign_indexes(root)) == []


@pytest.mark.parametrize(("entries", "is_found"), [(0, True), (20, True), (60.5, True), (100, False), (390, False)])
def test_an_index_that_was_cut_is(tmp_path: Path, entries: float, *, is_found: bool) -> None:
    root = make_store(tmp_path / "a", "A")
    path = index_of(root)
    path.write_bytes(path.read_bytes()[: 40 + 4 * 100 + int(20 * (entries + 1))])
    found = [line.partition(": ")[2] for line in foreign_indexes(root)]
    assert found == ["its head states 90 entries, and it ends before the last of them: it was cut"] * is_found


def test_an_index_without_a_head_is_reported(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    index_of(root).write_bytes(b"")
    assert list(foreign_indexes(root)) == []
    index_of(root).write_bytes(bytes(12))
    assert [line.partition(": ")[2] for line in foreign_indexes(root)] == ["it is shorter than its head"]


def test_unreadable_tables_are_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    save_topics(root, 4)
    (root / "config" / "delayOffset.json").write_bytes(b'{"offsetTable"')
    (root / "config" / "consumerOffset.json").mkdir()
    (root / "config" / "consumerFilter.json").write_bytes(b'{"filterDataByTopic":3}')
    assert list(unreadable_tables(root)) == [
        "store/config/consumerOffset.json cannot be read: Is a directory",
        "store/config/delayOffset.json cannot be read: it is no such table",
        "store/config/consumerFilter.json cannot be read: it is no such table",
    ]


@pytest.mark.parametrize(("queues", "counter", "is_found"), [(4, 1, False), (3, 1, True), (3, 2, False)])
def test_tables_of_one_version_are_equal(tmp_path: Path, queues: int, counter: int, *, is_found: bool) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    save_topics(tmp_path / "a", 4)
    save_topics(tmp_path / "b", queues, counter)
    found = list(differing_tables(tmp_path / "a", tmp_path / "b"))
    assert found == ["config/topics.json: orders differ, at the same version of the table"] * is_found


@pytest.mark.parametrize(("name", "is_found"), [("bills", True), ("SELF_TEST_TOPIC", False), ("a", False)])
def test_a_topic_that_one_table_lacks_differs_unless_it_is_built_in(
    tmp_path: Path, name: str, *, is_found: bool
) -> None:
    for node in ("a", "b"):
        (tmp_path / node / "store").mkdir(parents=True)
        save_topics(tmp_path / node / "store", 4)
    path = tmp_path / "a" / "store" / "config" / "topics.json"
    table = TopicConfigSerializeWrapper.decode(path.read_bytes())
    topics = {**table.topic_config_table, name: TopicConfig(topic_name=name)}
    whole = TopicConfigSerializeWrapper(data_version=table.data_version, topic_config_table=topics)
    path.write_bytes(whole.encode())
    for one, other in (("a", "b"), ("b", "a")):
        found = list(differing_tables(tmp_path / one / "store", tmp_path / other / "store"))
        assert found == [f"config/topics.json: {name} differ, at the same version of the table"] * is_found


def test_a_power_loss_or_a_kill_explains_files(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_bytes(b"{")
    index_of(root).write_bytes(index_of(root).read_bytes()[:40].ljust(index_of(root).stat().st_size, b"\0"))
    lines = [
        line
        for line in side_file_warnings({"a": root}, {}, masters=("a",), after_power_loss=(), unclean=())
        if "is missing" not in line
    ]
    assert [line.partition(" ")[0] for line in lines] == ["a:", "a:"]
    assert list(side_file_warnings({"a": root}, {}, masters=("a",), after_power_loss=("a",), unclean=("a",))) == []


@pytest.mark.parametrize(
    "settings", ["max_index_num = -5", "max_hash_slot_num = 99999999999", "max_index_num = [", "x = 1"]
)
def test_settings_that_are_invalid_leave_an_index_unjudged(tmp_path: Path, settings: str) -> None:
    """Its sizes are not those of RocketMQ's defaults."""
    root = make_store(tmp_path / "a", "A")
    index_of(root).write_bytes(bytes(index_of(root).stat().st_size))
    (root.parent / "config.toml").write_text(settings)
    assert list(foreign_indexes(root)) == []


def test_an_index_without_hash_slots_finds_nothing(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    content = index_of(root).read_bytes()
    index_of(root).write_bytes(content[:40] + bytes(400) + content[440:])
    (line,) = foreign_indexes(root)
    assert "hash slots are empty" in line


def missing_names(root: Path, *, is_master: bool) -> list[str]:
    return [line.split()[0].rpartition("/")[2] for line in missing_tables(root, is_master=is_master)]


def test_tables_that_a_stopped_broker_wrote_are_missed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "a", "A")
    assert missing_names(root, is_master=True) == ["consumerOffset.json", "delayOffset.json", "topics.json"]
    assert missing_names(root, is_master=False) == ["consumerOffset.json"]
    copied = [line.split()[0] for line in missing_tables(root, is_master=False, has_copied=True)]
    assert copied == ["store/config/consumerOffset.json", "store/config/subscriptionGroup.json"]
    save_topics(root, 4)
    save_config_file(root / "config" / "consumerOffset.json", ConsumerOffsets(offset_table={"t@shop": {0: 1}}).encode())
    assert missing_names(root, is_master=True) == ["delayOffset.json", "subscriptionGroup.json"]


def test_an_idle_broker_has_no_topics_and_groups(tmp_path: Path) -> None:
    for name in ("commitlog", "config"):
        (tmp_path / name).mkdir()
    for name in ("lock", "config/delayOffset.json"):
        (tmp_path / name).touch()
    table = ConsumerOffsets(offset_table={"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 1}})
    save_config_file(tmp_path / "config" / "consumerOffset.json", table.encode())
    (tmp_path / "consumequeue" / "RMQ_SYS_TRANS_HALF_TOPIC").mkdir(parents=True)
    assert missing_names(tmp_path, is_master=True) == []


def test_a_log_of_links_is_no_copy(tmp_path: Path) -> None:
    roots = {name: make_store(tmp_path / name, name) for name in ("a", "b")}
    assert list(shared_logs(roots)) == []
    for path in (roots["b"] / "commitlog").iterdir():
        path.unlink()
        os.link(roots["a"] / "commitlog" / path.name, path)
    (line,) = shared_logs(roots)
    assert line == "b: store/commitlog has files of a by links: its log is no copy of its own"
