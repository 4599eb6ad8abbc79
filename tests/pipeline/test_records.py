"""Bodies of records, decompressed for Spark."""

import zlib

import pyarrow as pa
import pytest

from rmqlab.pipeline import records
from rmqlab.remoting.message import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD, MAX_INFLATED


@pytest.mark.parametrize("kind", [COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD])
def test_a_body_that_inflates_without_bound_is_left_as_it_is_stored(kind: int) -> None:
    """issue 12.14"""
    flags = COMPRESSED | kind
    small, large = (_compressed(bytes(size), kind) for size in (1000, MAX_INFLATED + 1))
    assert records._decompressed(small, flags) == bytes(1000)
    assert records._decompressed(large, flags) == large
    assert records._decompressed(small[:-3], flags) in (small[:-3], bytes(1000))


def _compressed(body: bytes, kind: int) -> bytes:
    if kind == COMPRESSION_ZLIB:
        return zlib.compress(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, records._ARROW_CODECS[kind]) as stream:
        stream.write(body)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed
