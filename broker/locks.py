"""Queue locks of orderly consumers (class RebalanceLockManager; broker-requests section 3.10)."""

import attrs

LOCK_LIFE = 60.0
"""Seconds after its last renewal for which a lock holds."""


@attrs.frozen
class LockedQueue:
    """What a lock is on: a consumer group's message queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int


@attrs.define(eq=False)
class QueueLocks:
    """Who holds which queue; in memory only, and each broker's own."""

    _owners: dict[LockedQueue, tuple[str | None, float]] = attrs.field(factory=dict, init=False)

    def lock(self, queue: LockedQueue, client_id: str | None, now: float) -> bool:
        """Take or renew a lock that is free, our own, or expired."""
        owner = self._owners.get(queue)
        if owner is not None and owner[0] != client_id and now - owner[1] <= LOCK_LIFE:
            return False
        self._owners[queue] = (client_id, now)
        return True

    def unlock(self, queue: LockedQueue, client_id: str | None) -> None:
        """Give a lock back, if it is this client's."""
        owner = self._owners.get(queue)
        if owner is not None and owner[0] == client_id:
            del self._owners[queue]
