"""`python -m tests.bench.spark`: what the data sources and the audit cost, beside Spark's own scan of the same rows.

Needs the extra `spark`. Absolute figures move with the machine and its load; the ratios are what to look at.
"""

import argparse
import functools
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack

from pipeline.audit.audit import audit_run
from pipeline.overlay import Machine
from pipeline.session import open_session
from remoting.message import StoredMessage, body_crc, encode_message
from tests.bench.spark_topics import fill, live_master, measure_stream, topic_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAY = 1_795_200_000_000
_FILE_BYTES = 2**30
SUBJECTS = ("read", "stream", "audit")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark", description=__doc__)
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="this subject; repeatable")
    parser.add_argument("--messages", type=int, action="append", help="sizes of the audited runs; repeatable")
    parser.add_argument("--rows", type=int, default=500_000, help="rows that are read")
    parser.add_argument("--memory", default="4g", help="heap of the JVM")
    arguments = parser.parse_args()
    wanted = arguments.only or SUBJECTS
    machine = Machine(heap=arguments.memory, is_short=False)
    with tempfile.TemporaryDirectory(prefix="rmqlab-bench-") as directory, open_session(machine=machine) as spark:
        if "read" in wanted:
            for size in (100, 1000):
                measure_read(spark, Path(directory) / f"read-{size}", arguments.rows, size)
        if "stream" in wanted:
            with live_master(Path(directory) / "stream") as server:
                measure_stream(spark, server, Path(directory) / "stream", rate=1000, batches=60)
        if "audit" in wanted:
            for count in arguments.messages or (100_000, 1_000_000):
                measure_audit(spark, Path(directory) / f"audit-{count}", count)


def measure_read(spark: "SparkSession", place: Path, rows: int, size: int) -> None:
    """Store files and a live master, with and without bodies, and the same rows from parquet."""
    byte_count = write_log(place / "broker-a", rows, size)
    load = spark.read.format("rocketmq-store")
    slim = "topic string, queueId int, queueOffset bigint, uniqKey string, storeTimestamp timestamp, bodyCrc int"
    columns = f"{slim}, body binary"
    parquet = str(place / "parquet")
    load.schema(columns).load(str(place)).write.parquet(parquet)
    frames: dict[str, Callable[[], DataFrame]] = {
        "store, without bodies": lambda: spark.read.format("rocketmq-store").schema(slim).load(str(place)),
        "store, with bodies": lambda: spark.read.format("rocketmq-store").schema(columns).load(str(place)),
        "parquet": lambda: spark.read.parquet(parquet),
    }
    with live_master(place.with_name(place.name + "-live")) as server:
        fill(server, "orders", rows, size)
        frames |= topic_frames(spark, server, "orders", slim, columns)
        for name, make in frames.items():
            seconds = min(_seconds(functools.partial(_drain, make)) for _ in range(3))
            print(
                f"{size:5} B  {name:24} {rows / seconds:12,.0f} rows/s {byte_count / seconds / 1e6:8,.0f} MB/s of log"
            )


def _drain(make: "Callable[[], DataFrame]") -> None:
    make().write.format("noop").mode("overwrite").save()


def measure_audit(spark: "SparkSession", place: Path, count: int) -> None:
    """A run with one producer, one consumer, a master and its slave, and nothing wrong."""
    for node in ("broker-a", "broker-a-s"):
        write_log(place / node / "store", count, 100)
    write_journals(place / "journal", count)
    seconds = _seconds(lambda: print(f"{count:,} messages:", audit_run(spark, place).verdict, end=" "))
    print(f"in {seconds:.1f} s, {seconds / count * 1e6:.1f} us a message")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def write_log(store: Path, count: int, size: int) -> int:
    """A commit log of `count` records with bodies of this size, in files of 1 GB; answers its bytes."""
    (store / "commitlog").mkdir(parents=True)
    base = at = 0
    file = (store / "commitlog" / f"{base:020d}").open("wb")
    for number in range(count):
        raw = _record(number, size, base + at)
        if at + len(raw) + 8 > _FILE_BYTES:
            file.write(struct.pack(">iI", _FILE_BYTES - at, 0xCBD43194).ljust(_FILE_BYTES - at, b"\0"))
            file.close()
            base, at = base + _FILE_BYTES, 0
            file = (store / "commitlog" / f"{base:020d}").open("wb")
            raw = _record(number, size, base + at)
        file.write(raw)
        at += len(raw)
    file.close()
    return base + at


def _record(number: int, size: int, offset: int) -> bytes:
    body = b"x" * size
    return encode_message(
        StoredMessage(
            0, body_crc(body), number % 4, 0, number // 4, offset, 0, _DAY + number // 10, ("127.0.0.1", 1),
            _DAY + number // 10, ("127.0.0.1", 2), 0, 0, body, "orders",
            f"KEYS\x01n{number}\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true", {},
        )
    )  # fmt: skip


def write_journals(directory: Path, count: int) -> None:
    """What the nodes, a producer and a consumer of such a run would have written."""
    directory.mkdir(parents=True)
    nodes = {"namesrv-1": {"address": "a:1"}}
    nodes |= {name: {"address": f"{name}:1", "broker_name": "broker-a", "broker_id": index}  # type: ignore[dict-item]
              for index, name in enumerate(("broker-a", "broker-a-s"))}  # fmt: skip
    for name, fields in nodes.items():
        (directory / f"{name}.msgpack").write_bytes(_entry(_DAY, name, "node_ready", fields))
    for node, make in (("produce-1", _sent), ("consume-1", _delivered)):
        with (directory / f"{node}.msgpack").open("wb") as file:
            file.writelines(make(node, count))


def _sent(node: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        fields = _place(number) | {"outcome": "SEND_OK", "began_at": _DAY + number // 10, "attempts": 1, "took": 1}
        yield _entry(_DAY + number // 10 + 1, node, "sent", fields)


def _delivered(node: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        fields = _place(number) | {"group": "shop", "reconsume_times": 0, "from_broker_id": 0}
        yield _entry(_DAY + number // 10 + 2, node, "delivered", fields)


def _place(number: int) -> dict[str, Any]:
    where = {"broker": "broker-a", "queue": number % 4, "offset": number // 4}
    return {"number": number, "message_id": f"{number:032X}", "topic": "orders", **where}


def _entry(at: int, node: str, kind: str, fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"v": 1, "at": at, "node": node, "kind": kind, "fields": fields})
    return packed


if __name__ == "__main__":
    main()
