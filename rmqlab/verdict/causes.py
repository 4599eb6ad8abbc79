"""Causes of repeated deliveries, and of records that a store no longer has."""

from collections.abc import Mapping
from typing import Final

DUPLICATE_CAUSES: Final[Mapping[str, str]] = {
    "client_retry": "a client's retry stored the message twice",
    "offset_rollback": "the group's offset went back",
    "rebalance": "the queue moved to another consumer before a commit",
    "redelivery": "a consumer handed the message back",
    "unexplained": "the journal shows no cause",
}
"""By name, in the order of reports. Each repeated delivery counts under exactly one."""

REMOVING_KINDS: Final = ("file_deleted", "store_wiped", "power_lost", "log_truncated", "log_dropped")
"""Kinds of events that remove records from a node's store."""

STALE_INDEX_KINDS: Final = (
    "node_killed", "node_crashed", "power_lost", "store_wiped", "log_truncated", "log_dropped",
)  # fmt: skip
"""Kinds of events after which a node's index may have entries of records that its log no longer has."""
RESET_MILLIS: Final = 15_000
"""Milliseconds in which a consumer applies a reset of its offsets: it waits 10 s for messages that it processes."""
