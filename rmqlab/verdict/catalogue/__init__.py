"""Every metric of a run: unit, definition, limits, and conditions for `unknown`.

Both judges compute these; `rmqlab check --metrics` prints them. Seconds are of the cluster's clock. BROKER is a
broker name (`broker-a`), NODE and SLAVE a node (`broker-a-s`), QUEUE is `topic@broker-a:0`, GROUP a consumer group,
NAMESERVER `namesrv-1`, and a WATCHER is a nameserver or a workload (`produce-1`).
"""

import itertools
from typing import Final

from rmqlab.verdict.catalogue.messages import (
    CONTENT_DISAGREEMENT,
    DELIVERED_EARLY,
    DELIVERED_UNSTORED,
    DUPLICATES,
    HEADER_DISAGREEMENT,
    LOSS,
    ORDER,
    ORIGIN_DISAGREEMENT,
    OVERDUE,
    PLACE_DISAGREEMENT,
    STORE_TIME_DISAGREEMENT,
    STORED_UNCOMMITTED,
)
from rmqlab.verdict.catalogue.service import CLOCKS, DETECTION, ROLLBACKS, ROUTES, UNAVAILABILITY
from rmqlab.verdict.catalogue.shared import (
    BYTES,
    DELIVERIES,
    ENTRIES,
    GROUPS,
    MESSAGES,
    RECORDS,
    SECONDS,
    TIMES,
    TOPICS,
)
from rmqlab.verdict.catalogue.stores import (
    DELAY_OFFSET_AHEAD,
    DELAY_OFFSET_BEHIND,
    DIVERGENCE,
    GROUPS_MISSING,
    OFFSET_FILES,
    RECORDS_AND_QUEUES,
    REPLICATION,
    STORE_FILES,
    TABLE_FILES,
)

__all__ = [
    "BYTES",
    "CLOCKS",
    "CONTENT_DISAGREEMENT",
    "DELAY_OFFSET_AHEAD",
    "DELAY_OFFSET_BEHIND",
    "DELIVERED_EARLY",
    "DELIVERED_UNSTORED",
    "DELIVERIES",
    "DETECTION",
    "DIVERGENCE",
    "DUPLICATES",
    "ENTRIES",
    "GROUPS",
    "GROUPS_MISSING",
    "HEADER_DISAGREEMENT",
    "LOSS",
    "MESSAGES",
    "METRICS",
    "OFFSET_FILES",
    "ORDER",
    "ORIGIN_DISAGREEMENT",
    "OVERDUE",
    "PLACE_DISAGREEMENT",
    "RECORDS",
    "RECORDS_AND_QUEUES",
    "REPLICATION",
    "ROLLBACKS",
    "ROUTES",
    "SECONDS",
    "STORED_UNCOMMITTED",
    "STORE_FILES",
    "STORE_TIME_DISAGREEMENT",
    "TABLE_FILES",
    "TIMES",
    "TOPICS",
    "UNAVAILABILITY",
]

METRICS: Final = tuple(
    itertools.chain(
        LOSS,
        DUPLICATES,
        ORDER,
        UNAVAILABILITY,
        DETECTION,
        ROUTES,
        ROLLBACKS,
        OFFSET_FILES,
        REPLICATION,
        DIVERGENCE,
        RECORDS_AND_QUEUES,
        STORE_FILES,
        (DELIVERED_UNSTORED, PLACE_DISAGREEMENT, CONTENT_DISAGREEMENT, ORIGIN_DISAGREEMENT, HEADER_DISAGREEMENT),
        (STORED_UNCOMMITTED, DELIVERED_EARLY, OVERDUE, STORE_TIME_DISAGREEMENT),
        TABLE_FILES,
        CLOCKS,
    )
)
"""All metrics, in the order of reports."""
