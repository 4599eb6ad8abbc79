"""Times in which members of a group must agree on their queues.

Nothing disturbs the cluster then. Members rebalance every 20 s and after each change, by the members that a broker
names and by their own route. They send heartbeats and read routes every 30 s. A broker forgets a silent member after
120 s (ClientHousekeepingService).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

DISTURBING_KINDS: Final = (
    "broker_connection_lost", "broker_expired", "broker_registered", "broker_unregistered", "cluster_ready",
    "cluster_starting", "cluster_stopping", "command", "commit_failed", "consumer_joined", "fault_applied",
    "fault_healed", "group_deleted", "member_elected", "member_role_changed", "node_added", "node_crashed",
    "node_killed", "node_paused", "node_ready", "node_removed", "node_resumed", "node_spawned", "node_stopped",
    "offset_illegal", "offset_reset", "operated", "pull_failed", "rebalance_failed", "rebalanced", "role_changed",
    "route_believed", "route_changed", "route_missing", "settings_changed", "topic_deleted", "topics_synced",
)  # fmt: skip
"""Kinds of events after which members of a group may disagree about their queues for a while."""
SETTLED_MILLIS: Final = 180_000
"""Milliseconds of the cluster's clock after which members agree again."""
CALLS_AT_ONCE: Final = 20
"""Calls of a consumer that may be under way when it releases a queue: threads of class DefaultMQPushConsumer."""
_OPENING: Final = ("fault_applied", "node_paused")
_CLOSING: Final = ("node_resumed", "node_killed", "node_crashed", "node_stopped")
_LASTING: Final = "operated"
"""An operation may change a topic's queues; a client may read routes as rarely as its settings say."""


def settled_after(slack: int) -> int:
    """Return the milliseconds until members agree.

    A busy machine may be late by `slack`.
    """
    return max(SETTLED_MILLIS, slack)


def calm_spans(
    events: Iterable[tuple[int, str, str, Mapping[str, Any]]], ended_at: int, settled: int
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each calm time.

    Nothing has happened for `settled` milliseconds before it.
    `events` are those of DISTURBING_KINDS as (time, node, kind, fields), in their order.
    """
    calm_from: int | None = None
    open_causes: set[str] = set()
    for at, node, kind, fields in events:
        if calm_from is not None and not open_causes and at > calm_from:
            yield calm_from, at
        calm_from = at + settled
        cause = f"fault {fields.get('id')}" if kind.startswith("fault_") else f"pause {node}"
        if kind in _OPENING:
            open_causes.add(cause)
        elif kind == "fault_healed" or kind in _CLOSING:
            open_causes.discard(cause)
        elif kind == _LASTING:
            open_causes.add(kind)
    if calm_from is not None and not open_causes and ended_at > calm_from:
        yield calm_from, ended_at
