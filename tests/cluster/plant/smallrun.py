"""A small run as files: journals, stores of a master and a slave, tables."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import SOME_DAY, MadeUpRun, write_journals
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    NewMessage,
    body_crc,
)
from rmqlab.remoting.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config

if TYPE_CHECKING:
    from rmqlab.remoting.body import Body

QUEUES = 2
SENDS = 40
SAMPLED = 10
"""Messages of the first queue that a second group consumes, before it ends."""
DELAYED_SENDS = 3
"""Of level 1, to another topic, each stored there when it is due."""
HALF_SENDS = 3
"""Committed half messages, to a third topic, and as many that are rolled back."""
ALL_SENDS = SENDS + DELAYED_SENDS + 2 * HALF_SENDS
RUN = "5a11"
STARTING = {"rate": 1.0, "role": "SYNC_MASTER", "profile": "4.9"}
RECORD = {"run": RUN, "spec": STARTING, "placement": {"network": "127.77", "subnet": 1, "slots": {"broker-a": 20}}}
LOG_END = 10_000
"""A log's end that brokers record: records of the run are there before it, and behind it."""
_REPEATED = 30
"""Times that a body has the id of its message, so that the log exceeds LOG_END."""
_STORE_SIZES = {"mapped_file_size_commit_log": 64 * 1024, "max_hash_slot_num": 100, "max_index_num": 400}
STORE_HOST = ("127.77.1.20", 10911)
"""That of `broker-a`."""
TOPICS = ("orders", "reminders", "payments", SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC)


def made_up_run() -> MadeUpRun:
    """Send to two queues in turn, deliver, commit, and end cleanly."""
    run = MadeUpRun()
    run.entries.insert(0, JournalEntry(SOME_DAY, "", "cluster_starting", STARTING))
    for number, node in enumerate(("produce-1", "consume-1", "sample-1"), 100):
        run.add(node, "node_spawned", pid=number)
    run.add("broker-a", "producer_joined", group="till", client_id="127.77.1.240@100#1")
    _sample_logs(run)
    for number in range(SENDS):
        run.send(number, queue_id=number % QUEUES, crc=crc_of(f"ID{number:06}"), sys_flag=0)
        run.deliver(number, number // QUEUES, queue_id=number % QUEUES)
        run.commit(number // QUEUES + 1, queue_id=number % QUEUES)
        if number < SAMPLED * QUEUES and number % QUEUES == 0:
            run.deliver(number, number // QUEUES, "sample-1", group="sample")
            run.commit(number // QUEUES + 1, "sample-1", group="sample")
        run.wait(0.1)
    for number in range(SENDS + DELAYED_SENDS, ALL_SENDS):
        message_id, content = f"ID{number:06}", crc_of(f"ID{number:06}")
        half = run.store(message_id, Queue(HALF_TOPIC, "broker-a", 0), run.logs)
        if number < ALL_SENDS - HALF_SENDS:
            run.send(number, topic="payments", crc=content, took=20)
        else:
            run.add("produce-1", "transaction_not_committed", message_id=message_id, topic="payments", state="rollback")
            run.send(number, topic="payments", crc=content, took=30, at=(), held_in=f"{HALF_TOPIC}:0")
            run.change_last(offset=half)
        run.store(str(half), Queue(OP_HALF_TOPIC, "broker-a", 0), run.logs)
    for number in range(SENDS, SENDS + DELAYED_SENDS):
        run.store(f"ID{number:06}", Queue(SCHEDULE_TOPIC, "broker-a", 0), run.logs)
        run.wait(1)
        run.send(number, topic="reminders", crc=crc_of(f"ID{number:06}"), sys_flag=0, took=1100)
    run.wait(30)  # brokers have saved their tables
    _sample_logs(run, LOG_END)
    run.add("broker-a-s", "topics_synced", topics=len(TOPICS), version=1)
    run.add("produce-1", "produced", sent=ALL_SENDS, SEND_OK=ALL_SENDS)
    run.add("consume-1", "consumed", delivered=SENDS)
    run.add("", "cluster_stopping")
    run.add("sample-1", "consumed", delivered=SAMPLED)
    for node in ("produce-1", "consume-1", "sample-1", *run.nodes):
        run.add(node, "node_stopped", pid=1, end="exit status 0")
    run.add("", "cluster_stopped")
    return run


def _sample_logs(run: MadeUpRun, max_offset: int = 0) -> None:
    """Let brokers write events of their own."""
    for node in run.logs:
        run.add(node, "log_sampled", max_offset=max_offset)


def write_run(run: MadeUpRun, directory: Path) -> Path:
    """Write a made-up run as a directory."""
    write_journals(run.entries, directory / "journal", RUN)
    (directory / "cluster.json").write_text(json.dumps(RECORD))
    (directory / "produce-1").mkdir()
    (directory / "produce-1" / "node.log").touch()
    for node, copies in run.logs.items():
        clock = ManualClock()
        store = MessageStore.open(small_config(directory / node / "store"), now_millis=clock)
        for copy in copies:
            clock.now = copy.stored_at
            message = _message(copy.message_id, copy.queue.topic, copy.queue.queue_id)
            store.put(
                msgspec.structs.replace(message, born_timestamp=copy.stored_at, born_host=("127.77.1.240", 40000))
            )
        store.close()
        _write_tables(directory / node)
    return directory


def _message(message_id: str, topic: str, queue_id: int) -> NewMessage:
    """Return a message for a topic.

    The id of a record that ends a half message is the offset of that message.
    """
    if topic == OP_HALF_TOPIC:
        return new_message(topic=topic, tags="d", body=message_id.encode(), store_host=STORE_HOST)
    of_topics = {
        SCHEDULE_TOPIC: {PROPERTY_DELAY: "1", PROPERTY_REAL_TOPIC: "reminders", PROPERTY_REAL_QID: "0"},
        HALF_TOPIC: {PROPERTY_REAL_TOPIC: "payments", PROPERTY_REAL_QID: "0"},
    }
    return new_message(
        topic=topic,
        queue_id=queue_id,
        unique_key=message_id,
        keys=message_id.lower(),
        body=_body(message_id),
        store_host=STORE_HOST,
        properties=of_topics.get(topic, {}),
    )


def _body(message_id: str) -> bytes:
    return message_id.encode() * _REPEATED


def crc_of(message_id: str) -> int:
    """Return the checksum that the producer records."""
    return content_crc(body_crc(_body(message_id)), 0, message_id.lower(), "")


def _write_tables(node: Path) -> None:
    sizes = "".join(f"{key} = {value}\n" for key, value in _STORE_SIZES.items())
    (node / "config.toml").write_text(f"keep_newer_consumer_offsets = true\n{sizes}")
    ends = dict.fromkeys(range(QUEUES), SENDS // QUEUES)
    tables: dict[str, Body] = {
        "consumerOffset.json": ConsumerOffsets(offset_table={"orders@shop": ends, "orders@sample": {0: SAMPLED}}),
        "topics.json": TopicConfigSerializeWrapper(
            topic_config_table={topic: TopicConfig(topic_name=topic) for topic in TOPICS}
        ),
        "subscriptionGroup.json": SubscriptionGroupWrapper(
            subscription_group_table={group: SubscriptionGroupConfig(group_name=group) for group in ("shop", "sample")}
        ),
        "delayOffset.json": DelayOffsets(offset_table={1: DELAYED_SENDS}),
    }
    (node / "store" / "config").mkdir(exist_ok=True)
    for name, table in tables.items():
        (node / "store" / "config" / name).write_bytes(table.encode_pretty())
