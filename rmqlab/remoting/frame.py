"""Frames: a length, a header, a body. No I/O, no logging.

    offset  size  field
    0       i32   number of bytes after this field: 4 + header + body
    4       u8    serialize type: 0 JSON header, 1 ROCKETMQ binary header
    5       u24   header size
    8             header, then body

Source: remoting-and-nameserver section 1.1; class NettyDecoder.
"""

import struct

import attrs
import msgspec

from rmqlab.remoting.foreignprotocol import detect_protocol

_PREFIX = struct.Struct(">iI")

JSON = 0
ROCKETMQ = 1

MAX_FRAME = 16 * 2**20
"""Maximum frame size in bytes, including the length field: lengths up to 16777212 are accepted (remoting#1)."""

MAX_HEADER = 2**24 - 1
"""Maximum header size in bytes: its size field has 24 bits."""

MAX_RECEIVED_HEADER = 2**20
"""The same for headers that are read, because an event loop waits while a long one is parsed.

The longest of RocketMQ has message properties of 32,767 characters, 200 KB if each is an escape. Properties up to four
times as long, which brokers reject with code 13, fit too.
"""


class RemoteProtocolError(Exception):
    """The peer violated the protocol.

    Close the connection without a reply (remoting#2).
    """


class ForeignProtocolError(RemoteProtocolError):
    """The peer uses another protocol.

    The message names the protocol and suggests a remedy.
    """


class HeaderTooLargeError(ValueError):
    """A header cannot be sent: it, or a part of it, is too long for its size field."""


class Frame(msgspec.Struct, frozen=True):
    """One frame, split into header and body but not decoded."""

    serialize_type: int
    header: bytes
    body: bytes = b""


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return frame_prefix(frame.serialize_type, len(frame.header), len(frame.body)) + frame.header + frame.body


def frame_prefix(serialize_type: int, header_size: int, body_size: int) -> bytes:
    """Return the eight bytes before the header.

    HeaderTooLargeError if the header is too long.
    """
    if header_size > MAX_HEADER:
        raise HeaderTooLargeError(f"header of {header_size} bytes; at most {MAX_HEADER} fit")
    return _PREFIX.pack(4 + header_size + body_size, serialize_type << 24 | header_size)


@attrs.define
class FrameDecoder:
    """Splits a stream of bytes into frames, and buffers an incomplete frame."""

    max_frame: int = MAX_FRAME
    _kept: bytearray = attrs.field(factory=bytearray, init=False)
    _needed: int = attrs.field(default=0, init=False)

    def feed(self, data: bytes) -> list[Frame]:
        """Append received bytes; return the complete frames.

        RemoteProtocolError for an invalid frame.
        """
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return []  # avoid copying a large incomplete body for every piece
            data = bytes(self._kept)
            self._kept.clear()
        frames, at = [], 0
        size = len(data)
        while size - at >= 8:
            length, marked = _PREFIX.unpack_from(data, at)
            header_size = marked & 0xFFFFFF
            # Checked before the body arrives: a hostile length must not fill the buffer.
            if not 4 + header_size <= length <= self.max_frame - 4 or marked >> 24 > ROCKETMQ:
                raise _refused(
                    data[at : at + 4],
                    f"length {length}, header size {header_size}, serialize type {marked >> 24}:"
                    f" expected at most {self.max_frame - 4}, a header that fits, and type {JSON} or {ROCKETMQ}",
                )
            if header_size > MAX_RECEIVED_HEADER:
                raise RemoteProtocolError(f"header of {header_size} bytes: expected at most {MAX_RECEIVED_HEADER}")
            end = at + 4 + length
            if end > size:
                self._needed = 4 + length
                break
            body_at = at + 8 + header_size
            frames.append(Frame(marked >> 24, data[at + 8 : body_at], data[body_at:end]))
            at = end
        else:
            self._needed = 8 if size - at >= 4 else 4  # the length is checked as soon as it is complete
            if size - at >= 4 and not 4 <= _LENGTH.unpack_from(data, at)[0] <= self.max_frame - 4:
                length = _LENGTH.unpack_from(data, at)[0]
                raise _refused(data[at : at + 4], f"length {length}: expected 4 to {self.max_frame - 4}")
        if at < size:
            self._kept += data[at:] if at else data
        return frames

    @property
    def missing(self) -> int:
        """Number of bytes until the next check.

        This is at the end of the incomplete frame, or of its prefix.
        """
        return self._needed - len(self._kept)

    @property
    def buffered(self) -> int:
        """Number of bytes of the incomplete frame."""
        return len(self._kept)


def _refused(beginning: bytes, text: str) -> RemoteProtocolError:
    """Return the error for an invalid frame.

    If its first bytes identify another protocol, the error names that protocol.
    """
    named = detect_protocol(beginning)
    return RemoteProtocolError(text) if named is None else ForeignProtocolError(named)


_LENGTH = struct.Struct(">i")
