"""Stores of a real RocketMQ 4.9.4: fully read, and rewritten with the same bytes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqlab.remoting.message import BLANK_MAGIC, NewMessage, StoredMessage, decode_message
from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock

COPIES = ["master", "slave", "master-kill9"]
END_OF_TIME = 2**62

Restore = Callable[[str], StoreConfig]
Open = Callable[..., MessageStore]


def sent_messages(manifest: dict[str, Any], copy: str) -> Iterator[dict[str, Any]]:
    """Messages whose offset the client received; half messages have none."""
    sent = manifest["messages"] + manifest["bulk_messages"]
    sent += manifest["messages_kill9"] if copy == "master-kill9" else []
    return (message for message in sent if message["physical_offset"] is not None)


def records_of(log: Path) -> Iterator[StoredMessage]:
    """All records of a commit log, read without the store."""
    for path in sorted(log.iterdir()):
        raw, at = path.read_bytes(), 0
        while any(raw[at : at + 4]) and int.from_bytes(raw[at + 4 : at + 8], "big", signed=True) != BLANK_MAGIC:
            record = decode_message(raw, at)
            yield record
            at += record.store_size


def as_new(record: StoredMessage) -> NewMessage:
    """What a broker hands to the store to have this record made."""
    return NewMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        body=record.body,
        flag=record.flag,
        sys_flag=record.sys_flag & ~0x30,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        properties=record.properties_text,
    )


@pytest.mark.parametrize("copy", COPIES)
def test_every_message_is_found_by_offset_and_queue(
    copy: str, manifest: dict[str, Any], restore: Restore, open_store: Open
) -> None:
    store = open_store(config=restore(copy), is_slave=copy == "slave")
    assert store.dispatch_behind_bytes == 0
    for sent in sent_messages(manifest, copy):
        view = store.message_at(sent["physical_offset"])
        assert view is not None
        record = decode_message(view)
        assert record.is_intact
        assert record.topic == sent.get("stored_topic", sent["topic"])
        assert record.properties["UNIQ_KEY"] == sent["msgId"]
        assert (record.queue_offset, record.offset_message_id) == (sent["queueOffset"], sent["offsetMsgId"])
        pulled = store.get_message(record.topic, record.queue_id, record.queue_offset, 1)
        assert b"".join(pulled.buffers) == view


@pytest.mark.parametrize("copy", COPIES)
def test_every_message_is_found_by_its_keys_unless_the_crash_took_the_index(
    copy: str, manifest: dict[str, Any], restore: Restore, open_store: Open
) -> None:
    """store-ha#24, #27: after a kill, only the last log file is indexed again."""
    config = restore(copy)
    store = open_store(config=config, is_slave=copy == "slave")
    assert store.index is not None
    kept, walked = 984_000, config.mapped_file_size_commit_log  # end of the full index file; start of the last log file
    for sent in sent_messages(manifest, copy):
        offset, topic = sent["physical_offset"], sent.get("stored_topic", sent["topic"])
        lost = copy == "master-kill9" and kept < offset < walked
        for key in [sent["msgId"], *(sent["keys"] or "").split()]:
            found = store.query(topic, key, 64, 0, END_OF_TIME).buffers
            assert (store.message_at(offset) in found) is not lost, (key, offset)


def test_checkpoint_index_header_and_queue_ends_are_what_rocketmq_meant(
    manifest: dict[str, Any], restore: Restore, open_store: Open
) -> None:
    store = open_store(config=restore("master"))
    for topic, status in manifest["topic_status"].items():
        for line in status.splitlines()[1:]:
            _, queue_id, low, high, *_ = line.split()
            assert store.min_queue_offset(topic, int(queue_id)) == int(low)
            assert store.max_queue_offset(topic, int(queue_id)) == int(high)
    newest = store.query("StoreBulk", "bulk-0", 1, 0, END_OF_TIME)
    assert newest.index_last_update_timestamp == store.checkpoint.logics_msg_timestamp
    assert store.checkpoint.index_msg_timestamp > 0


def test_a_store_written_from_the_same_messages_has_the_same_bytes(
    restore: Restore, new_like_golden: StoreConfig, open_store: Open, clock: ManualClock
) -> None:
    """Compares whole files: records, blank, queues, index slots, entries and headers.

    Items: store-ha#8, 11, 19, 20, 23.
    """
    theirs, ours = restore("master"), new_like_golden
    clock.step = 0
    store = open_store(config=ours)
    for record in records_of(theirs.store_path_commit_log):
        clock.now = record.store_timestamp
        result = store.put(as_new(record))
        assert (result.physical_offset, result.queue_offset) == (record.physical_offset, record.queue_offset)
    store.close()
    for folder in ("commitlog", "consumequeue"):
        for path in (theirs.store_path_root_dir / folder).rglob("0*"):
            if path.is_file():
                mine = ours.store_path_root_dir / path.relative_to(theirs.store_path_root_dir)
                assert mine.read_bytes() == path.read_bytes(), path
    indexes = [sorted((config.store_path_root_dir / "index").iterdir()) for config in (theirs, ours)]
    for their_path, our_path in zip(*indexes, strict=True):
        assert our_path.read_bytes() == their_path.read_bytes(), their_path
    checkpoints = [(config.store_path_root_dir / "checkpoint").read_bytes() for config in (theirs, ours)]
    assert checkpoints[0] == checkpoints[1]
    assert not (ours.store_path_root_dir / "abort").exists()


@pytest.mark.parametrize("when", ["piece by piece", "as a bulk"])
def test_a_slave_that_receives_the_log_builds_the_same_queues_and_index(
    when: str, restore: Restore, new_like_golden: StoreConfig, open_store: Open
) -> None:
    """store-ha#45, 48: dispatch in odd-sized pieces or at the end, as the real slave."""
    theirs, ours = restore("slave"), new_like_golden
    store = open_store(config=ours, is_slave=True)
    for path in sorted(theirs.store_path_commit_log.iterdir()):
        raw = path.read_bytes()
        end = len(raw) if path.name.endswith("0" * 7) else len(raw.rstrip(b"\0")) + 1
        for at in range(0, end, 8191):
            assert store.append_raw(int(path.name) + at, raw[at : min(end, at + 8191)])
            if when == "piece by piece":
                store.dispatch()
    indexed_at = []
    while store.dispatch(50_000):
        indexed_at.append(store.dispatcher.indexed)
    assert indexed_at.count(0) > 10 if when == "as a bulk" else not indexed_at
    for path in (theirs.store_path_root_dir / "consumequeue").rglob("0*"):
        if path.is_file():
            mine = ours.store_path_root_dir / path.relative_to(theirs.store_path_root_dir)
            assert mine.read_bytes() == path.read_bytes(), path
    assert store.index is not None
    their_files = sorted((theirs.store_path_root_dir / "index").iterdir())
    for their_path, our_file in zip(their_files, store.index.files, strict=True):
        assert our_file.file.path.read_bytes() == their_path.read_bytes(), their_path
