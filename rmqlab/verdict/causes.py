"""Causes of repeated deliveries, and of records that a store no longer has."""

from collections.abc import Mapping
from typing import Final

DUPLICATE_CAUSES: Final[Mapping[str, str]] = {
    "client_retry": "stored twice, by a client that tried again",
    "offset_rollback": "the group's offset went back",
    "rebalance": "the queue changed hands before a commit",
    "redelivery": "handed back by a consumer",
    "unexplained": "for no cause that the journal shows",
}
"""By name, in the order of reports. Each repeated delivery counts under exactly one."""

REMOVING_KINDS: Final = ("file_deleted", "store_wiped", "power_lost", "log_truncated", "log_dropped")
"""Kinds of events that remove records from a node's store."""
