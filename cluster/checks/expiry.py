"""The places of messages that brokers may have deleted for their age."""

import math

import attrs

from rmqlab.cluster.checks.copies import NodeStore, Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.verdict.expiry import are_clocks_right, latest_deleted


@attrs.frozen
class _Kept:
    """What a broker that deleted files has kept."""

    first_offsets: dict[Queue, int]
    latest_deleted: float
    """The latest time at which a deleted message can have been created."""

    def lacks(self, queue: Queue, offset: int, created_at: int) -> bool:
        is_before = offset < self.first_offsets.get(queue, offset + 1)
        return is_before and created_at <= self.latest_deleted


class Expiry:
    """What the brokers of a run may have deleted for its age."""

    def __init__(self, history: History, stores: Stores) -> None:
        deleting = {entry.node for entry in history.of_kind("file_deleted")}
        is_right = are_clocks_right(entry.fields for entry in history.of_kind("fault_applied"))
        self._kept: dict[str, list[_Kept]] = {}
        for store in stores.nodes.values():
            if store.node in deleting:
                self._kept.setdefault(store.broker, []).append(_kept(store, are_clocks_right=is_right))

    def may_have(self, queue: Queue, offset: int, created_at: int = 0) -> bool:
        """Return True if a broker of the queue may have deleted a message.

        `created_at` is the begin of its send, in ms; 0 if unknown.
        """
        return any(kept.lacks(queue, offset, created_at) for kept in self._kept.get(queue.broker, ()))


def _kept(store: NodeStore, *, are_clocks_right: bool) -> _Kept:
    first_offsets: dict[Queue, int] = {}
    for copy in store.copies:
        first_offsets[copy.queue] = min(copy.offset, first_offsets.get(copy.queue, copy.offset))
    first_stored_at = min((copy.stored_at for copy in store.copies), default=None)
    latest = latest_deleted(first_stored_at, are_clocks_right=are_clocks_right)
    return _Kept(first_offsets, math.inf if latest is None else latest)
