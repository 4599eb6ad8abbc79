"""Measured transfer rate of a connection, in bytes per second."""

import attrs

_RATE_WINDOW = 1.0


@attrs.define(eq=False)
class ByteRate:
    """Bytes per second over the last whole second or so."""

    _since: float
    _bytes: int = 0
    _last: int = 0

    def count(self, size: int, now: float) -> None:
        """Count bytes that were transferred just now."""
        self._roll(now)
        self._bytes += size

    def per_second(self, now: float) -> int:
        """The rate, 0 after a second without bytes."""
        self._roll(now)
        return self._last

    def _roll(self, now: float) -> None:
        elapsed = now - self._since
        if elapsed >= _RATE_WINDOW:
            # Without a transfer since, an old count is not the present rate.
            self._last = int(self._bytes / elapsed) if elapsed < 2 * _RATE_WINDOW else 0
            self._since, self._bytes = now, 0
