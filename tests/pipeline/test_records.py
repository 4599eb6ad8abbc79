"""Bodies of records, decompressed for Spark."""

import zlib

import pyarrow as pa
import pytest

from rmqlab.pipeline.stores import records
from rmqlab.remoting.compression import MAX_INFLATED
from rmqlab.remoting.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    StoredMessage,
    body_crc,
    encode_message,
)


@pytest.mark.parametrize("kind", [COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD])
def test_a_body_that_inflates_without_bound_is_left_as_it_is_stored(kind: int) -> None:
    """issue 12.14"""
    flags = COMPRESSED | kind
    small, large = (_compressed(bytes(size), kind) for size in (1000, MAX_INFLATED + 1))
    assert records._decompressed(small, flags, MAX_INFLATED) == (bytes(1000), 0)
    assert records._decompressed(large, flags, MAX_INFLATED)[0] == large
    assert records._decompressed(small[:-3], flags, MAX_INFLATED)[0] in (small[:-3], bytes(1000))


def test_bodies_after_many_that_inflate_in_vain_may_grow_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two are decompressed as far as the limit of a body.

    Bodies of usual growth are all decompressed.
    """
    monkeypatch.setattr(records, "MAX_INFLATED", 100_000)
    monkeypatch.setattr(records, "MAX_INFLATED_IN_VAIN", 200_000)
    inflated: list[int] = []
    decompressed = records._decompressed

    def counted(body: bytes, sys_flag: int, limit: int) -> tuple[bytes, int]:
        result = decompressed(body, sys_flag, limit)
        inflated.append(result[1])
        return result

    monkeypatch.setattr(records, "_decompressed", counted)
    text = b"a text of usual growth" * 20
    bodies = [*[zlib.compress(bytes(500_000))] * 20, zlib.compress(text)]
    log = [_record(body, COMPRESSED, number) for number, body in enumerate(bodies)]
    starts = [sum(map(len, log[:number])) for number in range(len(log))]
    decoded, _ = records.decode_records(memoryview(b"".join(log)), starts)
    assert decoded.bodies().to_pylist() == [*bodies[:-1], text]
    assert inflated == [100_000] * 2 + [100 * len(bodies[0])] * 18 + [0]


def test_bodies_with_a_large_total_size_are_split_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB of records can have bodies of 4 GB, more than a column and a worker hold."""
    monkeypatch.setattr(records, "MAX_INFLATED_TOGETHER", 2500)
    bodies = [bytes(1000), bytes(1000), b"plain", bytes(1000), bytes(4000), bytes(10)]
    flags = [0 if body == b"plain" else COMPRESSED for body in bodies]
    log, starts = bytearray(), []
    for number, (body, flag) in enumerate(zip(bodies, flags, strict=True)):
        starts.append(len(log))
        log += _record(zlib.compress(body) if flag else body, flag, number)
    decoded, unsound = records.decode_records(memoryview(bytes(log)), starts)
    schema = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary()), ("state", pa.string())])
    states = pa.array([f"state {number}" for number in range(len(bodies))])
    batches = list(records.record_batches(decoded, schema, {"state": states}))
    assert unsound is None
    assert [batch.num_rows for batch in batches] == [3, 1, 1, 1]
    table = pa.Table.from_batches(batches)
    assert table["body"].to_pylist() == bodies
    assert table["queueOffset"].to_pylist() == list(range(len(bodies)))
    assert table["state"].to_pylist() == states.to_pylist()


def _record(body: bytes, sys_flag: int, queue_offset: int) -> bytes:
    """A record of a log."""
    here = ("127.0.0.1", 10911)
    return encode_message(
        StoredMessage(
            store_size=0,
            body_crc=body_crc(body),
            queue_id=0,
            flag=0,
            queue_offset=queue_offset,
            physical_offset=0,
            sys_flag=sys_flag,
            born_timestamp=0,
            born_host=here,
            store_timestamp=0,
            store_host=here,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=body,
            topic="orders",
            properties_text="",
            properties={},
        )
    )


def _compressed(body: bytes, kind: int) -> bytes:
    if kind == COMPRESSION_ZLIB:
        return zlib.compress(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, records._ARROW_CODECS[kind]) as stream:
        stream.write(body)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed
