"""Measures a pull for the journal: its duration, and how long its broker held it.

Times are the cluster's clock.

A broker holds a pull that finds nothing until a message arrives or the suspend timeout ends (broker-requests
section 2.7). That time is no outage: the broker would have returned a message at once.
"""

import attrs
import trio

from rmqlab.client.broker_api import PullResult, PullStatus
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.net.remoting_errors import ConnectionLostError

HOLD_SWEEP = 6.0
"""Seconds by which a broker may exceed the suspend timeout: it examines held pulls every 5 s."""


@attrs.define(eq=False)
class PullTiming:
    """One pull.

    `suspend` is how long it lets the broker wait for messages, in seconds.
    """

    suspend: float
    began_at: float = attrs.field(factory=trio.current_time)
    _sent_at: float | None = attrs.field(default=None, init=False)
    _sent_millis: int = attrs.field(default=0, init=False)

    def sent(self) -> None:
        """The request is about to be written."""
        self._sent_at, self._sent_millis = trio.current_time(), wall_millis()

    @property
    def took(self) -> int:
        """Milliseconds since the pull began, with the time for a connection."""
        return round((trio.current_time() - self.began_at) * 1000)

    def held_before(self, result: PullResult, *, is_slave: bool) -> int:
        """Return how many ms before this reply the broker may have held the pull.

        A message carries the time at which its master stored it, not when it reached a slave. So a slave's reply
        counts as held if it comes in time, however old its messages are (issue 14.5).
        """
        if result.status is PullStatus.NO_NEW_MSG:
            return self._held() or round(self.suspend * 1000)
        if not result.messages:
            return 0
        if is_slave:
            return self._held()
        stored_at = result.messages[0].store_timestamp
        is_prompt = wall_millis() - stored_at <= HOLD_SWEEP * 1000
        return self._held() if stored_at >= self._sent_millis and is_prompt else 0

    def held_before_loss(self, exc: Exception) -> int:
        """Return the same for a pull that fails now.

        Only a lost connection can end a pull that the broker holds.
        """
        return self._held() if isinstance(exc, ConnectionLostError) else 0

    def _held(self) -> int:
        """Milliseconds since the request was sent.

        0 if it was not, or the reply is overdue.
        """
        if self._sent_at is None or (took := trio.current_time() - self._sent_at) > self.suspend + HOLD_SWEEP:
            return 0
        return round(took * 1000)
