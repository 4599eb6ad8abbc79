"""Queue locks of orderly consumers.

Class RebalanceLockManager; broker-requests section 3.10.
"""

import attrs

LOCK_LIFE = 60.0
"""Seconds after its last renewal for which a lock holds."""
MAX_LOCKS = 500_000
"""Maximum number of held locks. 4.9.8 keeps every queue that was ever locked."""
MAX_NAME_SIZE = 2048
"""Characters of the names of group, topic, broker and client together."""
_FIRST_PRUNED = 10_000


@attrs.frozen
class LockedQueue:
    """The queue of a lock: broker, topic, queue id, for one consumer group."""

    group: str
    topic: str
    broker_name: str
    queue_id: int


@attrs.define(eq=False)
class QueueLocks:
    """Locks of queues by client; in memory only, and each broker's own."""

    _owners: dict[LockedQueue, tuple[str | None, float]] = attrs.field(factory=dict, init=False)
    _pruned_at: int = attrs.field(default=_FIRST_PRUNED, init=False)

    def __len__(self) -> int:
        return len(self._owners)

    def lock(self, queue: LockedQueue, client_id: str | None, now: float) -> bool:
        """Acquire or renew a lock that is free, the client's own, or expired.

        False also if there are too many, or if the names are too long.
        """
        owner = self._owners.get(queue)
        if owner is not None and owner[0] != client_id and now - owner[1] <= LOCK_LIFE:
            return False
        if _names_size(queue, client_id) > MAX_NAME_SIZE or (owner is None and not self._has_room(now)):
            return False
        self._owners[queue] = (client_id, now)
        return True

    def _has_room(self, now: float) -> bool:
        """Return True if there is room for one more lock.

        Drops expired locks when the table has doubled since the last removal.
        """
        if len(self._owners) >= self._pruned_at:
            self._owners = {queue: owner for queue, owner in self._owners.items() if now - owner[1] <= LOCK_LIFE}
            self._pruned_at = max(2 * len(self._owners), _FIRST_PRUNED)
        return len(self._owners) < MAX_LOCKS

    def unlock(self, queue: LockedQueue, client_id: str | None) -> None:
        """Release a lock, if it is this client's."""
        owner = self._owners.get(queue)
        if owner is not None and owner[0] == client_id:
            del self._owners[queue]


def _names_size(queue: LockedQueue, client_id: str | None) -> int:
    return len(queue.group) + len(queue.topic) + len(queue.broker_name) + len(client_id or "")
