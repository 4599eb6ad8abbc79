"""The bytes of entries, index units and blanks (sections 1.2 to 1.4).

Entry (class DLedgerEntryCoder), 48 bytes and the body:

    magic 4, size 4, index 8, term 8, pos 8, channel 4, chainCrc 4, bodyCrc 4, bodySize 4, body

Index unit of entry i, 32 bytes at 32 i: magic 4, pos 8, size 4, index 8, term 8.

Blank at the end of a data file: -1 as int32, length of the rest of the file as int32, zeros.
"""

import struct
from typing import Final, NamedTuple

import attrs

from rmqlab.store.log.loglayout import ENTRY_BLANK_MAGIC, ENTRY_HEADER, ENTRY_MAGIC

MAGIC: Final = ENTRY_MAGIC
BLANK_MAGIC: Final = ENTRY_BLANK_MAGIC
MIN_BLANK: Final = 8
"""Bytes that an entry leaves free at the end of its file (MmapFileList.MIN_BLANK_LEN)."""
HEADER: Final = ENTRY_HEADER
UNIT: Final = struct.Struct(">iqiqq")
BLANK: Final = struct.Struct(">ii")
BODY_OFFSET: Final = HEADER.size
"""The record of a message begins this many bytes behind its entry's position (dledger#5)."""
MAX_ENTRY: Final = 4 * 2**20
"""Bytes of an entry, its header included: the size of DLedger's write buffer (section 1.2)."""


class IndexUnit(NamedTuple):
    """The index unit of an entry: its position, size, index and term.

    `number` is its index; `size` counts its header, too.
    """

    magic: int
    pos: int
    size: int
    number: int
    term: int

    def encode(self) -> bytes:
        return UNIT.pack(*self)

    @classmethod
    def decode(cls, raw: bytes | memoryview, at: int = 0) -> "IndexUnit":
        """Parse 32 bytes at a position."""
        return cls(*UNIT.unpack_from(raw, at))


class EntryHeader(NamedTuple):
    """The 48 bytes before a body.

    `number` is the index; `size` counts header and body.
    """

    magic: int
    size: int
    number: int
    term: int
    pos: int
    channel: int
    chain_crc: int
    body_crc: int
    body_size: int

    @classmethod
    def decode(cls, raw: bytes | memoryview, at: int = 0) -> "EntryHeader":
        """Parse 48 bytes at a position."""
        return cls(*HEADER.unpack_from(raw, at))

    @property
    def unit(self) -> IndexUnit:
        """The index unit of this entry."""
        return IndexUnit(self.magic, self.pos, self.size, self.number, self.term)

    def is_valid_at(self, pos: int) -> bool:
        """True if recovery accepts this header at a position (dledger#48)."""
        return (
            self.magic == MAGIC
            and self.pos == pos
            and self.body_size >= 0
            and self.size == self.body_size + HEADER.size
        )


@attrs.frozen(kw_only=True)
class Entry:
    """One entry of the log.

    CRCs do not count in comparisons (DLedgerEntry.equals, dledger#44).
    """

    index: int
    term: int
    pos: int
    """Position of its first byte in the data files."""
    body: bytes
    magic: int = MAGIC
    channel: int = 0
    chain_crc: int = attrs.field(default=0, eq=False)
    body_crc: int = attrs.field(default=0, eq=False)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return HEADER.size + len(self.body)

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.pos + self.size

    @property
    def unit(self) -> IndexUnit:
        """Its index unit."""
        return IndexUnit(self.magic, self.pos, self.size, self.index, self.term)

    def encode(self) -> bytes:
        """Return header and body (dledger#2)."""
        header = HEADER.pack(
            self.magic,
            self.size,
            self.index,
            self.term,
            self.pos,
            self.channel,
            self.chain_crc,
            self.body_crc,
            len(self.body),
        )
        return header + self.body

    @classmethod
    def decode(cls, raw: bytes | memoryview) -> "Entry":
        """Parse an entry. struct.error if it is shorter than its header."""
        header = EntryHeader.decode(raw)
        return cls(
            index=header.number,
            term=header.term,
            pos=header.pos,
            body=bytes(raw[HEADER.size : HEADER.size + header.body_size]),
            magic=header.magic,
            channel=header.channel,
            chain_crc=header.chain_crc,
            body_crc=header.body_crc,
        )


def blank(length: int) -> bytes:
    """Return the rest of a data file that the next entry does not fit into."""
    return BLANK.pack(BLANK_MAGIC, length) + bytes(length - BLANK.size)
