"""Decides which consumer offsets of a slave its master must not overwrite.

The decision compares the offsets of one group in one topic, without I/O. 4.9 applies all of the master's offsets
(store-ha#69), which is right while the master lives: a reset moves offsets back on purpose. It is wrong for offsets
that consumers committed to the slave while the master was away, and for offsets that the master had not yet saved when
it died. So the slave records the former, and detects the latter by the master's start time, which changes with a
restart.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

Offsets = Mapping[int, int]
"""By queue id."""


def kept_offsets(ours: Offsets, theirs: Offsets, own: AbstractSet[int], *, has_forgotten: bool) -> dict[int, int]:
    """Return our offsets that stay although the master's are lower.

    `own` are the queues whose offsets were committed here: they stay, also where the master has none. If the master
    `has_forgotten`, so does every other that is lower there; one that it does not have at all may have been deleted.
    """
    return {
        queue_id: offset
        for queue_id, offset in ours.items()
        if offset > theirs.get(queue_id, -1) and (queue_id in own or (has_forgotten and queue_id in theirs))
    }
