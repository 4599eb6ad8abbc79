"""Where the fields of a stored record are, and where records begin in a buffer.

A record has three sections: the fields up to its born host, those up to its store host, and those after it. An IPv6
host is 12 bytes longer than an IPv4 host, and moves all later sections. Layout: store-ha section 2.
"""

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from rmqlab.remoting.message import BORN_HOST_IPV6, FIXED_SIZE, MESSAGE_MAGIC, STORE_HOST_IPV6, SYS_FLAG_AT
from rmqlab.store.log.loglayout import entry_header_at

IPV4_SIZE: Final = 8
"""Bytes of an address and a port."""
IPV6_EXTRA: Final = 12
BODY_SIZE_AT: Final = 84
BODY_AT: Final = 88
_SIZE_MAGIC_PLACE: Final = struct.Struct(">ii20xq")


@attrs.frozen
class NumberField:
    """A number in the header of a record."""

    at: int
    """Offset from the record's begin in bytes, with IPv4 hosts."""
    kind: str
    """numpy type."""
    section: int


@attrs.frozen
class HostField:
    """An address and a port in the header of a record."""

    at: int
    """Offset from the record's begin in bytes, with IPv4 hosts."""
    section: int
    ipv6_flag: int
    """Bit of sysFlag that is set if the address is IPv6."""


NUMBER_FIELDS: Final = {
    "size": NumberField(0, ">i4", 0),
    "body_crc": NumberField(8, ">i4", 0),
    "queue_id": NumberField(12, ">i4", 0),
    "flag": NumberField(16, ">i4", 0),
    "queue_offset": NumberField(20, ">i8", 0),
    "physical_offset": NumberField(28, ">i8", 0),
    "sys_flag": NumberField(SYS_FLAG_AT, ">i4", 0),
    "born_timestamp": NumberField(40, ">i8", 0),
    "store_timestamp": NumberField(56, ">i8", 1),
    "reconsume_times": NumberField(72, ">i4", 2),
    "prepared_transaction_offset": NumberField(76, ">i8", 2),
    "body_size": NumberField(BODY_SIZE_AT, ">i4", 2),
}
BORN_HOST: Final = HostField(48, 0, BORN_HOST_IPV6)
STORE_HOST: Final = HostField(64, 1, STORE_HOST_IPV6)


Walk = Callable[[memoryview, int, int, int | None, int], tuple[Sequence[int], int]]
"""`walk`, or a function with the same result."""


def walk(
    data: memoryview, at: int, end: int, base: int | None = None, most: int = sys.maxsize
) -> tuple[list[int], int]:
    """Return where records begin between `at` and `end`, and the end of the last one.

    Stops at bytes that are not a record, at an incomplete record, after `most` records, and, if `base` is the commit
    log offset of the first byte, at a record with another position. Without such a stop the second value is at least
    `end`, or the data ends. With `base`, the headers of DLedger entries are skipped.
    """
    starts: list[int] = []
    unpack, whole = _SIZE_MAGIC_PLACE.unpack_from, len(data)
    while at < end and at + FIXED_SIZE <= whole and len(starts) < most:
        begin = at
        size, magic, place = unpack(data, begin)
        if magic != MESSAGE_MAGIC and base is not None and (lead := entry_header_at(data, at, base)):
            begin = at + lead
            if begin >= end or begin + FIXED_SIZE > whole:
                break
            size, magic, place = unpack(data, begin)
        if magic != MESSAGE_MAGIC or size < FIXED_SIZE or begin + size > whole:
            break
        if base is not None and place != base + begin:
            break
        starts.append(begin)
        at = begin + size
    return starts, at
