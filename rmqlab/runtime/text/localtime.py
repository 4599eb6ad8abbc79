"""Local time of any moment, also of one that Python's calendar lacks.

A clock may be wrong, and peers send timestamps.
"""

from datetime import UTC, datetime
from typing import Final

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def local_time(millis: int) -> datetime:
    """Return the local time of a moment in ms, to the second.

    Times before year 1 or after year 9999, which Java supports, become Python's first or last time.
    """
    try:
        return datetime.fromtimestamp(millis // 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return _FIRST if millis < 0 else _LAST
