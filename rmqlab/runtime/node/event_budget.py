"""Limits the bytes of events that peers can cause.

A peer that connects, registers or resets offsets in a loop causes an event each time. Without a limit it fills the
disk: a journal is never truncated, because judges read all of it.
"""

from typing import Final

import attrs

from rmqlab.runtime.journals.schema import EVENT_TYPES

BURST: Final = 8 * 2**20
"""Bytes of events of one kind that a process records at once: some 40,000 events."""
RATE: Final = 256
"""Bytes per second of the events of one kind after that: some 20 MB a day."""

TRAFFIC: Final = frozenset(
    {
        "log_sampled",
        "served",
        "offset_committed",
        "held_pulls_overdue",
        "transaction_checked",
        "transaction_given_up",
    }
)
"""Kinds without a limit: samples, those that the setting journal_traffic requests of a broker, and those that need a
new record in the log for each event. The log then grows faster than the journal."""
LIMITED_KINDS: Final = (
    frozenset(event.name for event in EVENT_TYPES.values() if event.source not in ("workload", "supervisor", "any"))
    - TRAFFIC
)
"""Kinds that brokers and nameservers record."""


@attrs.define
class _Account:
    spent: float
    """Bytes of events, less RATE for each second since."""
    at_millis: int


@attrs.define(eq=False)
class EventBudget:
    """Counts the bytes of recent events by kind, and limits them to BURST.

    Times are milliseconds of the cluster's clock.
    """

    _accounts: dict[str, _Account] = attrs.field(factory=dict, init=False)

    def admits(self, kind: str, at_millis: int) -> bool:
        """Return False if the events of this kind have used up their bytes.

        The kind is one of LIMITED_KINDS.
        """
        account = self._accounts.setdefault(kind, _Account(0, at_millis))
        account.spent = max(account.spent - max(at_millis - account.at_millis, 0) / 1000 * RATE, 0)
        account.at_millis = at_millis
        return account.spent < BURST

    def spend(self, kind: str, size: int) -> None:
        """Count the bytes of an admitted event."""
        self._accounts[kind].spent += size
