"""Frames: a length, a header, a body. Bytes in, frames out; nothing here awaits or logs.

    offset  size  field
    0       i32   bytes that follow this field: 4 + header + body
    4       u8    serialize type: 0 JSON header, 1 ROCKETMQ binary header
    5       u24   header size
    8             header, then body

Source: remoting-and-nameserver section 1.1; class NettyDecoder.
"""

import struct

import attrs
import msgspec

from rmqlab.remoting.strangers import stranger

_PREFIX = struct.Struct(">iI")

JSON = 0
ROCKETMQ = 1

MAX_FRAME = 16 * 2**20
"""Bytes, counting the four of the length field: a length of 16777212 is the largest taken (remoting#1)."""

MAX_HEADER = 2**24 - 1
"""Bytes: its size has 24 bits."""


class RemoteProtocolError(Exception):
    """The peer broke the protocol. The connection cannot be trusted: close it, without a reply (remoting#2)."""


class StrangerError(RemoteProtocolError):
    """The peer speaks another protocol. The text names it, and says what to do."""


class HeaderTooLargeError(ValueError):
    """A header that we were to send has no form on the wire: its size, or a part's, does not fit its field."""


class Frame(msgspec.Struct, frozen=True):
    """One frame, taken apart but not understood."""

    serialize_type: int
    header: bytes
    body: bytes = b""


def encode_frame(frame: Frame) -> bytes:
    """Put a frame on the wire."""
    return frame_prefix(frame.serialize_type, len(frame.header), len(frame.body)) + frame.header + frame.body


def frame_prefix(serialize_type: int, header_size: int, body_size: int) -> bytes:
    """Give the eight bytes before the header. HeaderTooLargeError if its size has more than 24 bits."""
    if header_size > MAX_HEADER:
        raise HeaderTooLargeError(f"a header of {header_size} bytes; at most {MAX_HEADER}")
    return _PREFIX.pack(4 + header_size + body_size, serialize_type << 24 | header_size)


@attrs.define
class FrameDecoder:
    """Feed it whatever arrived; it answers the frames that are complete, and keeps the rest."""

    max_frame: int = MAX_FRAME
    _kept: bytearray = attrs.field(factory=bytearray, init=False)
    _needed: int = attrs.field(default=0, init=False)

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes as they were cut by the network. RemoteProtocolError for a frame that cannot be."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return []  # a large body arrives: do not look at it again with every piece
            data = bytes(self._kept)
            self._kept.clear()
        frames, at = [], 0
        size = len(data)
        while size - at >= 8:
            length, marked = _PREFIX.unpack_from(data, at)
            header_size = marked & 0xFFFFFF
            # Checked before its bytes arrive: a hostile length must not make us buffer.
            if not 4 + header_size <= length <= self.max_frame - 4 or marked >> 24 > ROCKETMQ:
                raise _refused(
                    data[at : at + 4],
                    f"length {length}, header size {header_size}, serialize type {marked >> 24}:"
                    f" expected at most {self.max_frame - 4}, a header that fits, and type {JSON} or {ROCKETMQ}",
                )
            end = at + 4 + length
            if end > size:
                self._needed = 4 + length
                break
            body_at = at + 8 + header_size
            frames.append(Frame(marked >> 24, data[at + 8 : body_at], data[body_at:end]))
            at = end
        else:
            self._needed = 8 if size - at >= 4 else 4  # the length is looked at as soon as it is there
            if size - at >= 4 and not 4 <= _LENGTH.unpack_from(data, at)[0] <= self.max_frame - 4:
                length = _LENGTH.unpack_from(data, at)[0]
                raise _refused(data[at : at + 4], f"length {length}: expected 4 to {self.max_frame - 4}")
        if at < size:
            self._kept += data[at:] if at else data
        return frames

    @property
    def missing(self) -> int:
        """Bytes that the unfinished frame still needs, as far as is known."""
        return self._needed - len(self._kept)

    @property
    def buffered(self) -> int:
        """Bytes of an unfinished frame."""
        return len(self._kept)


def _refused(beginning: bytes, text: str) -> RemoteProtocolError:
    """Say what is wrong with a frame; where it is none but another protocol, which one."""
    named = stranger(beginning)
    return RemoteProtocolError(text) if named is None else StrangerError(named)


_LENGTH = struct.Struct(">i")
