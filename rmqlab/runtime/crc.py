"""CRC-32 of bytes that are read in parts."""

import errno
import os
import zlib
from typing import Final

_POLYNOMIAL: Final = 0xEDB88320
"""Of CRC-32, with the lowest power in the highest bit."""
_ONE: Final = 1 << 31
"""The polynomial 1."""
_READ_BYTES: Final = 2**20


def crc_of_range(file: int, begin: int, end: int) -> int:
    """Return the CRC-32 of a range of an open file, up to its first hole.

    Raises OSError if it cannot be read.
    """
    crc = 0
    while begin < end and not _is_hole(file, begin):
        data = os.pread(file, min(_READ_BYTES, end - begin), begin)
        if not data:
            break
        crc = zlib.crc32(data, crc)
        begin += len(data)
    return crc


def _is_hole(file: int, at: int) -> bool:
    try:
        return os.lseek(file, at, os.SEEK_DATA) > at
    except OSError as exc:
        return exc.errno == errno.ENXIO  # file systems without holes have other errors


def joined_crc(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two parts together, the second of `size` bytes.

    Like crc32_combine of zlib: the first, times x to the power of the second part's bits.
    """
    shift, power = _ONE, _ONE >> 8
    while size:
        if size & 1:
            shift = _product(shift, power)
        power = _product(power, power)
        size >>= 1
    return _product(shift, first) ^ second


def _product(one: int, other: int) -> int:
    """Return the product of two polynomials, modulo that of CRC-32."""
    result = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            result ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return result
