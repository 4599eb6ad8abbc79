"""Places of texts in a java.util.HashMap.

The order of its iteration depends on them.
"""

from typing import Final

from rmqlab.remoting.message import java_hash

_SMALLEST_TABLE: Final = 16


def bucket_count(size: int) -> int:
    """Return the number of buckets of a map that has grown to this size.

    Of one that was made without a given capacity.
    """
    buckets = _SMALLEST_TABLE
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def spread_hash(text: str) -> int:
    """Return a hash whose lowest bits are the number of the bucket (HashMap.hash)."""
    hashed = java_hash(text) & 0xFFFFFFFF
    return hashed ^ hashed >> 16
