"""Limits the bytes per second that are pushed to a peer far behind.

Class Quota.
"""

import attrs


@attrs.define
class Quota:
    """Counts bytes by second of the clock."""

    limit: int
    """Bytes per second."""
    _second: int = -1
    _used: int = 0

    def use(self, count: int, now: int) -> int:
        """Count bytes. Return how many ms to wait, 0 while the second is not used up."""
        second = now // 1000
        if second != self._second:
            self._second, self._used = second, 0
        self._used += count
        return 0 if self._used < self.limit else (second + 1) * 1000 - now
