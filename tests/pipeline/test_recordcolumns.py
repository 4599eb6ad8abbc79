"""Columns of many records: compared with the single decoder, on damaged logs too."""

import itertools
import os
import pathlib
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmqlab.pipeline.audit.sources import JudgedStores
from rmqlab.pipeline.options import OptionError
from rmqlab.pipeline.stores import commitlogs, storesource
from rmqlab.pipeline.stores.properties import find_properties
from rmqlab.pipeline.stores.recordlayout import walk
from rmqlab.pipeline.stores.records import RECORD_COLUMNS, Records, decode_records
from rmqlab.pipeline.stores.recordwalk import walk_many
from rmqlab.pipeline.stores.storesource import COLUMNS, StoreSource
from rmqlab.remoting.compression import decompress_body
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import (
    BORN_HOST_IPV6,
    COMPRESSED,
    PROPERTY_REAL_TOPIC,
    STORE_HOST_IPV6,
    Host,
    RecordError,
    StoredMessage,
    body_crc,
    decode_message,
    encode_message,
    parse_properties,
)
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.store.log.loglayout import ENTRY_HEADER
from rmqlab.store.tagscodes import expected_code

Write = Callable[..., pathlib.Path]

ODD_BYTES = [
    b"\x01",
    b"\x02",
    b"\0",
    b"\xff",
    b"\xc3",
    "é".encode(),
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"REAL_TOPIC",
    b"DELAY",
    b"x",
]
PROPERTIES = st.lists(st.sampled_from(ODD_BYTES), max_size=12).map(b"".join)
TOPICS = st.sampled_from([b"", b"orders", b"or\xffders", HALF_TOPIC.encode(), SCHEDULE_TOPIC.encode()])
PORTS = st.integers(-(2**31), 2**31 - 1)
IPV4 = st.tuples(st.ip_addresses(v=4).map(str), PORTS)
IPV6 = st.tuples(st.ip_addresses(v=6).map(str), PORTS)
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MILLIS = st.integers(0, 2**41)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@st.composite
def encoded_records(draw: st.DrawFn) -> bytes:
    """One record, with topics and properties that may be invalid UTF-8."""
    born, store = draw(IPV4 | IPV6), draw(IPV4 | IPV6)
    body, topic, properties = draw(st.binary(max_size=40)), draw(TOPICS), draw(PROPERTIES)
    deflate = draw(st.booleans())
    message = StoredMessage(
        store_size=0, body_crc=draw(st.sampled_from([body_crc(body), 1])), queue_id=draw(INTS), flag=draw(INTS),
        queue_offset=draw(LONGS), physical_offset=draw(st.integers(0, 2**63 - 1)),
        sys_flag=_flags(born, store) | (COMPRESSED if draw(st.booleans()) else 0),
        born_timestamp=draw(MILLIS), born_host=born, store_timestamp=draw(MILLIS), store_host=store,
        reconsume_times=draw(INTS), prepared_transaction_offset=draw(LONGS),
        body=zlib.compress(body) if deflate else body, topic="", properties_text="", properties={},
    )  # fmt: skip
    return _with_tail(encode_message(message), topic, properties)


def _flags(born: Host, store: Host) -> int:
    return (BORN_HOST_IPV6 if ":" in born[0] else 0) | (STORE_HOST_IPV6 if ":" in store[0] else 0)


def _with_tail(record: bytes, topic: bytes, properties: bytes) -> bytes:
    """Replace the empty topic and properties of a record."""
    tail = bytes([len(topic)]) + topic + len(properties).to_bytes(2, "big") + properties
    return (len(record) - 3 + len(tail)).to_bytes(4, "big") + record[4:-3] + tail


def decoded(raw: bytes) -> Records:
    view = memoryview(raw)
    starts, end = walk(view, 0, len(view))
    assert end == len(view)
    found, unsound = decode_records(view, starts)
    assert unsound is None
    return found


def row_of(raw: bytes) -> dict[str, Any]:
    """The row of one record, from the plain decoder."""
    message = decode_message(raw)
    properties = message.properties
    return {
        "topic": message.topic, "queueId": message.queue_id, "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset, "msgId": message.offset_message_id,
        "uniqKey": properties.get("UNIQ_KEY"), "keys": properties.get("KEYS"), "tags": properties.get("TAGS"),
        "tagsCode": expected_code(message),
        "realTopic": properties.get(PROPERTY_REAL_TOPIC) if message.topic in (HALF_TOPIC, SCHEDULE_TOPIC) else None,
        "properties": list(properties.items()), "propertiesText": message.properties_text, "body": _body(message),
        "storeSize": message.store_size, "flag": message.flag, "sysFlag": message.sys_flag,
        "bodyCrc": message.body_crc, "recordCrc": zlib.crc32(raw),
        "contentCrc": content_crc(
            message.body_crc, message.flag, properties.get("KEYS", ""), properties.get("TAGS", "")
        ),
        "bornTimestamp": EPOCH + timedelta(milliseconds=message.born_timestamp), "bornHost": _text(message.born_host),
        "storeTimestamp": EPOCH + timedelta(milliseconds=message.store_timestamp),
        "storeHost": _text(message.store_host), "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }  # fmt: skip


def _body(message: StoredMessage) -> bytes:
    try:
        return decompress_body(message.body, message.sys_flag)
    except RecordError:
        return message.body


def _text(host: Host) -> str:
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@hypothesis.given(st.lists(encoded_records(), max_size=8))
def test_every_column_equals_the_decoder_of_a_single_record(raws: list[bytes]) -> None:
    found = decoded(b"".join(raws))
    expected = [row_of(raw) for raw in raws]
    for name, (_, column) in RECORD_COLUMNS.items():
        assert column(found).to_pylist() == [row[name] for row in expected], name
    assert found.body_is_intact().tolist() == [decode_message(raw).is_intact for raw in raws]


@pytest.mark.parametrize(("millis", "micros"), [(2**63 - 1, 2**63 - 1), (2**60, 2**63 - 1), (-(2**63), -(2**63))])
def test_a_time_beyond_those_of_spark_is_the_last_one(millis: int, micros: int) -> None:
    raw = bytearray(hypothesis.find(encoded_records(), lambda _: True))
    raw[56:64] = millis.to_bytes(8, "big", signed=True)
    (found,) = RECORD_COLUMNS["storeTimestamp"][1](decoded(bytes(raw))).cast(pa.int64()).to_pylist()
    assert abs(found - micros) < 1000


@hypothesis.given(st.lists(encoded_records(), max_size=8), st.data())
def test_a_selection_of_records_has_the_columns_of_those_alone(raws: list[bytes], data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(raws), max_size=len(raws)))
    chosen = decoded(b"".join(raws)).take(pa.array(mask, pa.bool_()).to_numpy(zero_copy_only=False))
    alone = decoded(b"".join(raw for raw, wanted in zip(raws, mask, strict=True) if wanted))
    for name, (_, column) in RECORD_COLUMNS.items():
        assert column(chosen).equals(column(alone)), name


@hypothesis.given(st.lists(encoded_records(), min_size=1, max_size=6), st.data())
def test_the_first_record_with_inconsistent_lengths_is_reported(raws: list[bytes], data: st.DataObject) -> None:
    """Any four bytes after the size and the magic may change."""
    number = data.draw(st.integers(0, len(raws) - 1))
    at = data.draw(st.integers(8, len(raws[number]) - 4))
    damage = data.draw(st.binary(min_size=4, max_size=4))
    raws[number] = raws[number][:at] + damage + raws[number][at + 4 :]
    view = memoryview(b"".join(raws))
    found, unsound = decode_records(view, walk(view, 0, len(view))[0])
    assert unsound == (None if _is_sound(raws[number]) else number)
    assert len(found) == (len(raws) if unsound is None else number)


def _is_sound(raw: bytes) -> bool:
    try:
        return decode_message(raw).store_size == len(raw)
    except RecordError:
        return False


# ---- where records begin ---------------------------------------------------------------------------------


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Runs of records of one size, some behind entry headers, some damaged."""
    log = b""
    for size, count in draw(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 3, 63, 64, 65, 150])), max_size=5)
    ):
        is_entry = draw(st.booleans())
        for _ in range(count):
            lead = ENTRY_HEADER.size if is_entry else 0
            record = encode_message(attrs.evolve(_PLAIN, body=b"x" * size, physical_offset=BASE + len(log) + lead))
            if is_entry:
                log += ENTRY_HEADER.pack(1, lead + len(record), 0, 0, BASE + len(log), 0, 0, 0, len(record))
            log += record
    for at, damage in draw(
        st.lists(st.tuples(st.integers(0, max(0, len(log) - 4)), st.binary(max_size=4)), max_size=2)
    ):
        log = log[:at] + damage + log[at + len(damage) :]
    return log


BASE = 2**30
_PLAIN = StoredMessage(
    0, 0, 0, 0, 0, 0, 0, 0, ("127.0.0.1", 1), 0, ("127.0.0.1", 2), 0, 0, b"", "orders", "", {},
)  # fmt: skip


@hypothesis.given(logs(), st.data())
def test_records_are_found_as_one_by_one(log: bytes, data: st.DataObject) -> None:
    begin, end = data.draw(st.integers(0, len(log))), data.draw(st.integers(0, len(log) + 9))
    most = data.draw(st.sampled_from([0, 1, 64, 65, 100, 2**40]))
    for base in (BASE, BASE + 1, None, 10**20):
        for at in (0, begin):
            starts, stop = walk_many(memoryview(log), at, end, base, most)
            assert (starts.tolist(), stop) == walk(memoryview(log), at, end, base, most)


TEXTS = st.lists(st.text(st.sampled_from("\x01\x02aé"), max_size=10), max_size=6)


@hypothesis.given(TEXTS, st.sampled_from(["a", "aa", "é"]), st.integers(0, 2))
def test_properties_equal_the_parser_of_a_single_text(texts: list[str], name: str, skipped: int) -> None:
    found = find_properties(pa.array(texts, pa.string())[skipped:])
    expected = [parse_properties(text) for text in texts[skipped:]]
    assert found.column(name).to_pylist() == [one.get(name) for one in expected]
    assert found.maps().to_pylist() == [list(one.items()) for one in expected]


# ---- whole logs ------------------------------------------------------------------------------------------

_SLIM = ("commitLogOffset", "storeSize", "state", "uniqKey")
_TYPES = {
    "string": StringType(), "int": IntegerType(), "bigint": LongType(), "binary": BinaryType(),
    "timestamp": TimestampType(), "map<string,string>": MapType(StringType(), StringType()),
}  # fmt: skip


def read(store: pathlib.Path, columns: Sequence[str] = _SLIM, **options: str) -> list[dict[str, Any]]:
    """Rows of a log in the order of the ranges, as Spark's worker reads them."""
    schema = StructType([StructField(name, _TYPES[COLUMNS[name]]) for name in columns])
    reader = StoreSource({"path": str(store), **options}).reader(schema)
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            rows += batch.to_pylist()
    return rows


@pytest.mark.parametrize("most", [1, 7, 8192])
@pytest.mark.parametrize("range_bytes", ["4096", "5001", "1000000"])
def test_records_across_borders_of_chunks_and_ranges_are_read_once(
    write_log: Write, monkeypatch: pytest.MonkeyPatch, most: int, range_bytes: str
) -> None:
    store = write_log("a", [b"x" * (number % 50) for number in range(200)])
    monkeypatch.setattr(commitlogs, "CHUNK_RECORDS", most)
    rows = read(store, maxPartitionBytes=range_bytes)
    assert [row["uniqKey"] for row in rows] == [f"{number:032X}" for number in range(200)]
    ends = [row["commitLogOffset"] + row["storeSize"] for row in rows]
    assert [row["commitLogOffset"] for row in rows] == [0, *ends[:-1]]


def reader_of(store: pathlib.Path, **options: str) -> DataSourceReader:
    schema = StructType([StructField("commitLogOffset", LongType())])
    return StoreSource({"path": str(store), **options}).reader(schema)


@pytest.mark.parametrize("tasks", [1, 2, 7, 16])
def test_logs_are_cut_into_as_many_tasks_as_wanted(write_log: Write, tasks: int) -> None:
    """issue 15: a log below 64 MB was one task, whatever the number of cores."""
    store = write_log("a", [b"x" * (number % 50) for number in range(300)])
    write_log("b", [b"x"], size=40_000)
    parts = reader_of(store.parent.parent, minPartitions=str(tasks)).partitions()
    assert tasks <= len(parts) <= tasks + 2
    assert len(read(store.parent.parent, minPartitions=str(tasks))) == 301


def test_ranges_of_a_log_are_at_least_4_kb_and_at_most_the_size_asked_for(write_log: Write) -> None:
    store = write_log("a", [b"one"], size=64 * 1024)
    assert len(reader_of(store, minPartitions="1000").partitions()) == 16
    assert len(reader_of(store, minPartitions="2", maxPartitionBytes="8k").partitions()) == 8
    with pytest.raises(OptionError, match="option maxPartitionBytes is '4k1': expected"):
        reader_of(store, maxPartitionBytes="4k1")
    with pytest.raises(OptionError, match="no option minPartition; did you mean minPartitions"):
        reader_of(store, minPartition="4")


def test_an_empty_log_has_no_rows(write_log: Write) -> None:
    assert read(write_log("a", [])) == []


def test_records_of_other_topics_are_left_out(write_log: Write) -> None:
    store = write_log("a", [b"one", b"two"])
    assert len(read(store, topics="orders,others")) == 2
    assert read(store, topics="others") == []


@pytest.mark.parametrize("seed", range(20))
def test_damage_leaves_the_other_records_whole(write_log: Write, seed: int) -> None:
    """Rows follow each other without a gap, and only the damaged records differ."""
    store = write_log("a", [b"body" * (number % 9) for number in range(100)])
    whole = read(store)
    path = store / "commitlog" / f"{0:020d}"
    raw, begin, size = bytearray(path.read_bytes()), 97 * seed + 11, 5 * seed + 1
    raw[begin : begin + size] = bytes([0xA5]) * size
    path.write_bytes(raw)
    rows = read(store, maxPartitionBytes="4096")
    for row, following in itertools.pairwise(rows):
        assert row["commitLogOffset"] + row["storeSize"] == following["commitLogOffset"]
    hit = [_overlaps(row, begin, begin + size) for row in whole]
    assert any(hit)
    kept = [row for row in whole if not _overlaps(row, begin, begin + size)]
    assert [row for row in rows if not _overlaps(row, begin, begin + size)] == kept


def _overlaps(row: dict[str, Any], begin: int, end: int) -> bool:
    at: int = row["commitLogOffset"]
    return at < end and begin < at + int(row["storeSize"])


def test_a_column_that_is_not_asked_for_is_not_computed(write_log: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_log("a", [b"one"])

    def fail(*_: object) -> None:
        raise AssertionError("computed")

    for name in ("properties_text", "topics", "hosts", "bodies", "crcs", "body_is_intact"):
        monkeypatch.setattr(Records, name, property(fail))
    assert read(store, ["commitLogOffset", "queueId"]) == [{"commitLogOffset": 0, "queueId": 0}]
    with pytest.raises(AssertionError, match="computed"):
        read(store, ["uniqKey"])


def test_a_chunk_is_walked_once(write_log: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """issue 15: most of a chunk with many small records was walked several times."""
    walked: list[int] = []

    def counting(*arguments: Any) -> tuple[np.ndarray, int]:
        starts, at = walk_many(*arguments)
        walked.extend(starts.tolist())
        return starts, at

    monkeypatch.setattr(storesource, "walk_many", counting)
    monkeypatch.setattr(commitlogs, "CHUNK_RECORDS", 7)
    rows = read(write_log("a", [b"x"] * 100))
    assert walked == [row["commitLogOffset"] for row in rows]


def test_batches_do_not_keep_a_file_open(write_log: Write) -> None:
    path = write_log("a", [b"one", b"two"]) / "commitlog" / f"{0:020d}"
    schema = StructType([StructField(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
    reader = StoreSource({"path": str(path.parent)}).reader(schema)
    [partition] = reader.partitions()
    batches = reader.read(partition)
    [first] = itertools.islice(batches, 1)
    assert first.num_rows == 2
    assert path in open_files()
    assert list(batches) == []
    assert path not in open_files()


@pytest.mark.parametrize(("source", "is_mapped"), [(StoreSource, True), (JudgedStores, False)])
def test_only_the_source_of_users_maps_a_log(write_log: Write, source: type[StoreSource], is_mapped: bool) -> None:  # noqa: FBT001
    path = write_log("a", [b"one", b"two"]) / "commitlog" / f"{0:020d}"
    schema = StructType([StructField(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
    reader = source({"path": str(path.parent)}).reader(schema)
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    assert next(batches).num_rows == 2
    assert (str(path) in pathlib.Path("/proc/self/maps").read_text()) == is_mapped
    list(batches)


def open_files() -> list[pathlib.Path]:
    return [pathlib.Path(os.path.realpath(link)) for link in pathlib.Path("/proc/self/fd").iterdir()]
