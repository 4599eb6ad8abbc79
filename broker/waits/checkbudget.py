"""Limits how long new messages are compared with held pulls at once.

A queue may have some thousand held pulls, and a batch a thousand messages, so their comparisons can take seconds. Other
requests wait meanwhile.
"""

from typing import Final

import attrs

from rmqlab.runtime.net.slices import Later

CHECKS_AT_ONCE: Final = 20_000
"""Pairs of a held pull and a new message that are compared before sockets, timers and tasks have their turn."""
FILTER_SECONDS_AT_ONCE: Final = 0.02
"""Seconds that SQL92 filters of held pulls may run before sockets, timers and tasks have their turn."""
_UNCOUNTED_CHECKS: Final = 200
"""Comparisons of one arrival that are not counted; an ordinary queue has fewer."""


@attrs.define(eq=False)
class CheckBudget:
    """Comparisons and seconds that are left until others have their turn."""

    later: Later
    _checks_left: int = attrs.field(default=CHECKS_AT_ONCE, init=False)
    _filter_seconds_left: float = attrs.field(default=FILTER_SECONDS_AT_ONCE, init=False)
    _is_renewal_scheduled: bool = attrs.field(default=False, init=False)

    def spend_checks(self, count: int) -> bool:
        """Count the comparisons of one arrival. False if they are too many for now."""
        if count <= _UNCOUNTED_CHECKS:
            return True
        if count > self._checks_left:
            return False
        self._checks_left -= count
        self._schedule_renewal()
        return True

    @property
    def may_filter(self) -> bool:
        """False if filters have used up their time for now."""
        return self._filter_seconds_left > 0

    def spend_filter_seconds(self, seconds: float) -> None:
        """Count the time that one filter took, by stopwatch.wall."""
        self._filter_seconds_left -= seconds
        self._schedule_renewal()

    def _schedule_renewal(self) -> None:
        if not self._is_renewal_scheduled:
            self._is_renewal_scheduled = True
            self.later(self._renew)

    def _renew(self) -> None:
        self._is_renewal_scheduled = False
        self._checks_left, self._filter_seconds_left = CHECKS_AT_ONCE, FILTER_SECONDS_AT_ONCE
