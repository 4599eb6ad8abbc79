"""Queue entries of records: tags, odd topics, records without a place."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rmqlab.remoting.message import BORN_HOST_IPV6, IPV6_MASK
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]


@pytest.mark.parametrize(
    "properties",
    [
        {"TAGS": "TagA"},
        {"TAGS": "TagA", "WAIT": "true"},
        {"WAIT": "true", "TAGS": "TagA"},
        {"WAIT": "true", "TAGS": "TagA", "KEYS": "k"},
        {"MYTAGS": "no", "OTHER": "TAGS"},
        {"WAIT": "true"},
        {"TAGS": "Tag", "NAME": "b"},
        {"NAME": "b", "TAGS": "étiquette"},
    ],
)
def test_tags_are_found_wherever_they_stand(properties: dict[str, str], open_store: Open) -> None:
    """store-ha#19: twice, for tags that were seen before are known."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    for ending in ("", "\x02") * 2:
        master.put(msgspec.structs.replace(new_message(tags=properties.get("TAGS", "")), properties=text + ending))
    slave.append_raw(0, master.read_log(0, 60_000))
    slave.dispatch()
    assert slave.queue_entries("orders", 0, 0, 9) == master.queue_entries("orders", 0, 0, 9)


@pytest.mark.parametrize("topic", ["../outside", "/tmp/outside", "a/b", "..", ".", "nul\0"])
def test_a_topic_that_names_no_directory_gets_no_queue_and_no_file_anywhere(
    tmp_path: Path, open_store: Open, topic: str
) -> None:
    """Later messages are entered, and no file is written elsewhere.

    The topic comes from a hostile master or a damaged disk.
    """
    placeholder = "~" * len(topic)
    master = open_store("topic-master")
    assert not master.put(new_message(topic=topic)).is_stored
    for name in ("before", placeholder, "after"):
        assert master.put(new_message(topic=name)).is_stored
    log, stored = bytes(master.read_log(0, 2**20)), bytes([len(topic)])
    assert log.count(stored + placeholder.encode()) == 1
    log = log.replace(stored + placeholder.encode(), stored + topic.encode())
    slave = open_store("topic-slave", is_slave=True)
    slave.append_raw(0, log)
    slave.dispatch()
    assert {name for name, _ in slave.topics_queues()} == {"before", "after"}
    assert not list(tmp_path.rglob("*outside*"))
    assert not Path("/tmp/outside").exists()


def test_topics_that_no_directory_can_be_called_are_logged_once(
    open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    for topic in ("aa/bb", "bb/cc", "orders"):
        master.put(new_message(topic=topic.replace("/", "_")))
    log = bytes(master.read_log(0, master.max_commit_log_offset))
    slave.append_raw(0, log.replace(b"aa_bb", b"aa/bb").replace(b"bb_cc", b"bb/cc"))
    slave.dispatch()
    assert caplog.text.count("are in no queue") == 1
    assert [queue.topic for queue in slave.queues] == ["orders"]


@pytest.mark.parametrize("offset", [-1, -(2**31), 2**62, 2**63 - 1])
@pytest.mark.parametrize("count", [2, 40])
def test_a_record_without_a_place_in_its_queue_hides_no_other(open_store: Open, offset: int, count: int) -> None:
    """A queue would begin there, and no consumer could read it."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    log = bytearray()
    for number in range(count):
        begin = master.max_commit_log_offset
        master.put(new_message(b"%d" % number))
        record = bytearray(master.read_log(begin, 1000))
        record[20:28] = (offset if number == 0 else number - 1).to_bytes(8, "big", signed=True)
        log += record
    slave.append_raw(0, bytes(log))
    slave.dispatch()
    assert (slave.max_queue_offset("orders", 0), slave.dispatch_behind_bytes) == (count - 1, 0)
    assert slave.get_message("orders", 0, 0, 32).count == min(count - 1, 32)


@pytest.mark.parametrize(("size", "flag"), [(89, BORN_HOST_IPV6), (111, IPV6_MASK)])
@pytest.mark.parametrize("may_index", [True, False])
def test_a_record_that_is_shorter_than_its_head_is_skipped_at_the_end_of_a_file_too(
    open_store: Open, *, size: int, flag: int, may_index: bool
) -> None:
    """With IPv6 hosts the head has up to 112 bytes: here it would end behind the file."""
    file_size = 4096
    master = open_store("master")
    master.put(new_message(b"x"))
    master.put(new_message(b"x" * (file_size - size - 2 * master.max_commit_log_offset + 1)))
    log = bytearray(master.read_log(0, file_size))
    assert len(log) == file_size - size
    record = log[:size]
    record[:4], record[36:40] = size.to_bytes(4, "big"), flag.to_bytes(4, "big")
    slave = open_store("slave", is_slave=True, mapped_file_size_commit_log=file_size)
    slave.append_raw(0, bytes(log + record))
    while slave.dispatch(100, may_index=may_index):
        pass
    assert slave.dispatch_behind_bytes == 0
    assert slave.max_queue_offset("orders", 0) == 2
    slave.dispatcher.indexed = 0
    assert slave.dispatcher.enter_index() == file_size
