"""Writes the stores of synthetic runs of any size, a million records in seconds.

Message `number` is in queue `number % QUEUES` at offset `number // QUEUES`, and is stored PER_MILLISECOND a
millisecond.
"""

import struct
from pathlib import Path

import numpy as np

from rmqlab.pipeline.stores.recordlayout import BODY_AT, NUMBER_FIELDS
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, StoredMessage, body_crc, encode_message

TOPIC = "orders"
GROUP = "shop"
QUEUES = 4
BEGAN_AT = 1_795_200_000_000
PER_MILLISECOND = 10
_FILE_BYTES = 2**30
_QUEUE_FILE_ENTRIES = 300_000
_AT_ONCE = 100_000
_CRC_AT = NUMBER_FIELDS["body_crc"].at
_INDEX_HEAD = struct.Struct(">qqqqii")
_INDEX_ENTRY = np.dtype([("hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_SLOTS = 5_000_000
_MARKS = {"queue_id": (0x71727374, ">i4"), "queue_offset": (0x6162636465666768, ">i8"),
          "physical_offset": (0x5152535455565758, ">i8"), "born": (0x4142434445464748, ">i8"),
          "stored": (0x3132333435363738, ">i8")}  # fmt: skip
"""Placeholders of fields in the template, which mark their places."""
STORE_HOST = ("127.77.1.20", 10911)


def queue_end(queue_id: int, count: int) -> int:
    """Return the end of a queue of a store with so many records."""
    return (count - queue_id + QUEUES - 1) // QUEUES


def sent_crc(size: int) -> int:
    """Return the `content_crc` of unseeded records with `size` body bytes."""
    return content_crc(body_crc(_body(size)), flag=0, keys="", tags="")


def write_store(store: Path, count: int, size: int) -> int:
    """Write the store of a broker that stopped in good order.

    Bodies have `size` bytes. Returns the end of its log.
    """
    end = write_log(store, count, size)
    _write_queues(store, count, size)
    _write_index(store, count, size)
    _write_tables(store / "config", count)
    return end


# ---- commit logs -----------------------------------------------------------------------------------------


def write_log(store: Path, count: int, size: int, *, seed: int | None = None) -> int:
    """A commit log of `count` records with bodies of this size, in files of 1 GB.

    Returns its end. With a seed bodies are random; without it all are equal, as a column store likes them.
    """
    random = None if seed is None else np.random.default_rng(seed)
    directory = store / "commitlog"
    directory.mkdir(parents=True)
    template = _template(size)
    in_a_file = _records_in_file(len(template))
    base = 0
    for first in range(0, count, in_a_file):
        here = min(in_a_file, count - first)
        with (directory / f"{base:020d}").open("wb") as file:
            for start in range(first, first + here, _AT_ONCE):
                numbers = np.arange(start, min(start + _AT_ONCE, first + here))
                rows = _records(template, numbers, base + (numbers - first) * len(template))
                if random is not None:
                    _fill_bodies(rows, size, random)
                file.write(rows)
            if first + here == count:
                return base + here * len(template)
            left = _FILE_BYTES - here * len(template)
            file.write(struct.pack(">ii", left, BLANK_MAGIC).ljust(left, b"\0"))
        base += _FILE_BYTES
    return base


def _records_in_file(record: int) -> int:
    return (_FILE_BYTES - BLANK_SIZE) // record


def _body(size: int) -> bytes:
    return b"x" * size


def _template(size: int) -> bytes:
    """One record, by the store's own code, with marks in the places of what differs."""
    body, marks = _body(size), {name: value for name, (value, _) in _MARKS.items()}
    return encode_message(
        StoredMessage(
            0, body_crc(body), marks["queue_id"], 0, marks["queue_offset"], marks["physical_offset"], 0, marks["born"],
            ("127.0.0.1", 1), marks["stored"], STORE_HOST, 0, 0, body, TOPIC,
            f"UNIQ_KEY\x01{'?' * 32}\x02WAIT\x01true", {},
        )
    )  # fmt: skip


def _fill_bodies(rows: np.ndarray, size: int, random: np.random.Generator) -> None:
    bodies = random.integers(0, 256, (len(rows), size), np.uint8)
    rows[:, BODY_AT : BODY_AT + size] = bodies
    crcs = np.fromiter((body_crc(body) for body in bodies), np.int64, len(rows))
    rows[:, _CRC_AT : _CRC_AT + 4] = crcs.astype(">i4").view(np.uint8).reshape(len(rows), 4)


def _records(template: bytes, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    rows = np.tile(np.frombuffer(template, np.uint8), (len(numbers), 1))
    times = BEGAN_AT + numbers // PER_MILLISECOND
    values = {"queue_id": numbers % QUEUES, "queue_offset": numbers // QUEUES, "physical_offset": offsets,
              "born": times, "stored": times}  # fmt: skip
    for name, (mark, kind) in _MARKS.items():
        width = np.dtype(kind).itemsize
        at = template.index(mark.to_bytes(width, "big"))
        rows[:, at : at + width] = values[name].astype(kind).view(np.uint8).reshape(len(numbers), width)
    at = template.index(b"?" * 32)
    ids = b"".join([b"%032X" % number for number in numbers.tolist()])
    rows[:, at : at + 32] = np.frombuffer(ids, np.uint8).reshape(len(numbers), 32)
    return rows


# ---- queues, index, tables -------------------------------------------------------------------------------


def _log_offsets(numbers: np.ndarray, record: int) -> np.ndarray:
    """Return the commit log offsets of records of this size."""
    files, places = np.divmod(numbers, _records_in_file(record))
    return files * _FILE_BYTES + places * record


def _write_queues(store: Path, count: int, size: int) -> None:
    record = len(_template(size))
    for queue_id in range(QUEUES):
        directory = store / "consumequeue" / TOPIC / str(queue_id)
        directory.mkdir(parents=True)
        for first in range(0, queue_end(queue_id, count), _QUEUE_FILE_ENTRIES):
            offsets = np.arange(first, min(first + _QUEUE_FILE_ENTRIES, queue_end(queue_id, count)))
            entries = np.zeros(len(offsets), np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")]))
            entries["log_offset"] = _log_offsets(offsets * QUEUES + queue_id, record)
            entries["size"] = record
            with (directory / f"{first * entries.itemsize:020d}").open("wb") as file:
                file.write(entries.tobytes())
                file.truncate(_QUEUE_FILE_ENTRIES * entries.itemsize)


def _write_index(store: Path, count: int, size: int) -> None:
    """Write an index file of all records; it ends with its last entry."""
    numbers = np.arange(count)
    offsets = _log_offsets(numbers, len(_template(size)))
    entries = np.zeros(count + 1, _INDEX_ENTRY)  # the first one is never used
    hashes = [_key_hashes(numbers[start : start + _AT_ONCE]) for start in range(0, count, _AT_ONCE)]
    entries["hash"][1:] = np.concatenate(hashes)
    entries["log_offset"][1:] = offsets
    entries["seconds"][1:] = numbers // PER_MILLISECOND // 1000
    slots, heads = entries["hash"][1:] % _SLOTS, np.zeros(_SLOTS, ">i4")
    heads[slots] = numbers + 1  # the last entry of each slot
    order = np.argsort(slots, kind="stable")
    follows = slots[order[1:]] == slots[order[:-1]]
    entries["previous"][order[1:][follows] + 1] = order[:-1][follows] + 1
    ended_at, used = BEGAN_AT + (count - 1) // PER_MILLISECOND, np.count_nonzero(heads)
    head = _INDEX_HEAD.pack(BEGAN_AT, ended_at, 0, int(offsets[-1]), used, count + 1)
    (store / "index").mkdir()
    (store / "index" / "20261120184000000").write_bytes(head + heads.tobytes() + entries.tobytes())


def _key_hashes(numbers: np.ndarray) -> np.ndarray:
    """Return the hashes of the records' keys, `TOPIC#UNIQ_KEY`.

    They are the absolute values of Java's hash codes.
    """
    keys = b"".join([b"%s#%032X" % (TOPIC.encode(), number) for number in numbers.tolist()])
    hashed = np.zeros(len(numbers), np.uint32)
    for column in np.frombuffer(keys, np.uint8).reshape(len(numbers), -1).T:
        hashed = hashed * np.uint32(31) + column
    return np.maximum(np.abs(hashed.view(np.int32)), 0)  # the lowest number has no absolute value


def _write_tables(config: Path, count: int) -> None:
    config.mkdir()
    topics = {TOPIC: TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)}
    groups = {GROUP: SubscriptionGroupConfig(group_name=GROUP)}
    offsets = {f"{TOPIC}@{GROUP}": {queue_id: queue_end(queue_id, count) for queue_id in range(QUEUES)}}
    tables = {
        "topics.json": TopicConfigSerializeWrapper(topic_config_table=topics),
        "subscriptionGroup.json": SubscriptionGroupWrapper(subscription_group_table=groups),
        "consumerOffset.json": ConsumerOffsets(offset_table=offsets),
    }
    for name, table in tables.items():
        (config / name).write_bytes(table.encode())
