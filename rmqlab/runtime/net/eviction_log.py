"""Log lines about connections that a limit closed or rejected, limited in number.

A flood of connections must not flood the log, too.
"""

import logging
from typing import Final

import attrs

log = logging.getLogger(__name__)

PERIOD: Final = 60.0
"""Seconds between two lines of one kind."""


@attrs.define(eq=False)
class EvictionLog:
    """Logs the first connection of each kind and period.

    The line has the number of others since the last one.
    """

    _logged_at: dict[str, float] = attrs.field(factory=dict, init=False)
    _unlogged: dict[str, int] = attrs.field(factory=dict, init=False)

    def note(self, kind: str, peer: str, reason: str, now: float) -> None:
        """Log a connection, or count it.

        `kind` is one of a few fixed names; `now` is in seconds.
        """
        logged_at = self._logged_at.get(kind)
        if logged_at is not None and now - logged_at < PERIOD:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            return
        self._logged_at[kind] = now
        others = self._unlogged.pop(kind, 0)
        more = f" ({others} more since the last such line)" if others else ""
        log.warning("%s: connection %s: %s%s", peer, kind, reason, more)
