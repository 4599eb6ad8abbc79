"""Decompression of message bodies, within limits."""

import zlib
from typing import Final

from rmqlab.remoting.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    RecordError,
)

MAX_INFLATED: Final = 64 * 2**20
"""Maximum size of a decompressed body in bytes. By default brokers and producers reject bodies above 4 MiB."""


class DecompressionError(RecordError):
    """A compressed body is invalid or too large.

    `inflated`: bytes that were decompressed in vain, at most.
    """

    def __init__(self, reason: str, inflated: int) -> None:
        super().__init__(reason)
        self.inflated = inflated


_MAX_RATIO: Final = 1032
"""Bytes that DEFLATE makes of one byte, at most."""
_PIECE: Final = 2**20
"""Bytes that are decompressed at a time."""


def decompress_body(body: bytes, sys_flag: int, limit: int = MAX_INFLATED) -> bytes:
    """Return the uncompressed body.

    RecordError if it is invalid or larger than the limit; DecompressionError if parts of it were decompressed.

    Old clients leave the bits of the compression type at 0 for ZLIB.
    """
    if not sys_flag & COMPRESSED:
        return body
    kind = sys_flag & COMPRESSION_MASK
    if kind in (0, COMPRESSION_ZLIB):
        return _inflated(body, limit)
    missing = {COMPRESSION_LZ4: "LZ4: needs the package `lz4`", COMPRESSION_ZSTD: "ZSTD: needs the package `zstandard`"}
    raise RecordError(f"cannot read a body compressed with {missing.get(kind, f'type {kind >> 8}')}")


def _inflated(body: bytes, limit: int) -> bytes:
    """Decompress in pieces, so that the bytes before a fault are known."""
    stream = zlib.decompressobj()
    parts, size, rest = list[bytes](), 0, body
    try:
        while size <= limit and (part := stream.decompress(rest, min(_PIECE, limit + 1 - size))):
            parts.append(part)
            size += len(part)
            rest = stream.unconsumed_tail
    except zlib.error as exc:
        inflated = min(limit, size + min(_PIECE, _MAX_RATIO * len(rest)))
        raise DecompressionError(f"cannot decompress a body: {exc}", inflated) from None
    if size > limit:
        raise DecompressionError(f"body of {len(body)} bytes decompresses to more than {limit} bytes", limit)
    if not stream.eof:
        raise DecompressionError(f"compressed body of {len(body)} bytes is truncated", size)
    return b"".join(parts)
