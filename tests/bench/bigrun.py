"""Writes synthetic runs of any size, a million messages in seconds.

The journals and commit logs are like those of a cluster. One producer, one consumer, a master and its slave with equal
logs. Nothing is wrong but what is planted: the last `LOST` sends were acknowledged, and are in no store.
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from rmqlab.pipeline.recordlayout import BODY_AT, NUMBER_FIELDS
from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, StoredMessage, body_crc, encode_message

LOST = 3
_DAY = 1_795_200_000_000
_QUEUES = 4
_PER_MILLISECOND = 10
_FILE_BYTES = 2**30
_AT_ONCE = 100_000
_CRC_AT = NUMBER_FIELDS["body_crc"].at
_MARKS = {"queue_id": (0x71727374, ">i4"), "queue_offset": (0x6162636465666768, ">i8"),
          "physical_offset": (0x5152535455565758, ">i8"), "born": (0x4142434445464748, ">i8"),
          "stored": (0x3132333435363738, ">i8")}  # fmt: skip
"""Placeholders of fields in the template, which mark their places."""


def write_run(place: Path, count: int, body_size: int = 100) -> int:
    """Write a run of so many messages below `place`.

    Returns the bytes of all its files.
    """
    write_log(place / "broker-a" / "store", count, body_size)
    shutil.copytree(place / "broker-a", place / "broker-a-s")
    write_journals(place / "journal", count)
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


# ---- commit logs -----------------------------------------------------------------------------------------


def write_log(store: Path, count: int, size: int, *, seed: int | None = None) -> int:
    """A commit log of `count` records with bodies of this size, in files of 1 GB.

    Returns its end. With a seed bodies are random; without it all are equal, as a column store likes them.
    """
    random = None if seed is None else np.random.default_rng(seed)
    directory = store / "commitlog"
    directory.mkdir(parents=True)
    template = _template(size)
    in_a_file = (_FILE_BYTES - BLANK_SIZE) // len(template)
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


def _template(size: int) -> bytes:
    """One record, by the store's own code, with marks in the places of what differs."""
    body, marks = b"x" * size, {name: value for name, (value, _) in _MARKS.items()}
    return encode_message(
        StoredMessage(
            0, body_crc(body), marks["queue_id"], 0, marks["queue_offset"], marks["physical_offset"], 0, marks["born"],
            ("127.0.0.1", 1), marks["stored"], ("127.0.0.1", 2), 0, 0, body, "orders",
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
    times = _DAY + numbers // _PER_MILLISECOND
    values = {"queue_id": numbers % _QUEUES, "queue_offset": numbers // _QUEUES, "physical_offset": offsets,
              "born": times, "stored": times}  # fmt: skip
    for name, (mark, kind) in _MARKS.items():
        width = np.dtype(kind).itemsize
        at = template.index(mark.to_bytes(width, "big"))
        rows[:, at : at + width] = values[name].astype(kind).view(np.uint8).reshape(len(numbers), width)
    at = template.index(b"?" * 32)
    ids = b"".join([b"%032X" % number for number in numbers.tolist()])
    rows[:, at : at + 32] = np.frombuffer(ids, np.uint8).reshape(len(numbers), 32)
    return rows


# ---- journals --------------------------------------------------------------------------------------------


def write_journals(directory: Path, count: int) -> None:
    """What the nodes, a producer and a consumer of such a run would have written."""
    directory.mkdir(parents=True)
    nodes: dict[str, dict[str, Any]] = {"namesrv-1": {"address": "a:1"}}
    for index, name in enumerate(("broker-a", "broker-a-s")):
        nodes[name] = {"address": f"{name}:1", "broker_name": "broker-a", "broker_id": index}
    for name, fields in nodes.items():
        (directory / f"{name}.msgpack").write_bytes(_entry(_DAY, name, "node_ready", fields))
    for node, make in (("produce-1", _sent), ("consume-1", _delivered)):
        with (directory / f"{node}.msgpack").open("wb", buffering=2**20) as file:
            file.writelines(make(node, count))


def _sent(node: str, count: int) -> Iterator[bytes]:
    for number in range(count + LOST):
        began_at = _DAY + number // _PER_MILLISECOND
        fields = _place(number) | {"outcome": "SEND_OK", "began_at": began_at, "attempts": 1, "took": 1}
        yield _entry(began_at + 1, node, "sent", fields)


def _delivered(node: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        fields = _place(number) | {"group": "shop", "reconsume_times": 0, "from_broker_id": 0}
        yield _entry(_DAY + number // _PER_MILLISECOND + 2, node, "delivered", fields)


def _place(number: int) -> dict[str, Any]:
    where = {"broker": "broker-a", "queue": number % _QUEUES, "offset": number // _QUEUES}
    return {"number": number, "message_id": f"{number:032X}", "topic": "orders", **where}


def _entry(at: int, node: str, kind: str, fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"v": 1, "at": at, "node": node, "kind": kind, "fields": fields})
    return packed
