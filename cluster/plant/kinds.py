"""The table of all kinds of violations."""

from collections.abc import Mapping
from typing import Final

from rmqlab.cluster.plant.contradictions import CONTRADICTIONS
from rmqlab.cluster.plant.files import FILES
from rmqlab.cluster.plant.forged import FORGED
from rmqlab.cluster.plant.headers import HEADERS
from rmqlab.cluster.plant.heldback import HELD_BACK
from rmqlab.cluster.plant.journals import JOURNALS
from rmqlab.cluster.plant.misplaced import MISPLACED_RECORDS
from rmqlab.cluster.plant.model import Kind
from rmqlab.cluster.plant.queues import QUEUES
from rmqlab.cluster.plant.records import RECORDS
from rmqlab.cluster.plant.tables import TABLES
from rmqlab.cluster.plant.uncommitted import UNCOMMITTED

KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        *RECORDS,
        *HEADERS,
        *MISPLACED_RECORDS,
        *HELD_BACK,
        *UNCOMMITTED,
        *QUEUES,
        *FILES,
        *JOURNALS,
        *FORGED,
        *CONTRADICTIONS,
        *TABLES,
    )
}
"""By name, in the order of reports."""
