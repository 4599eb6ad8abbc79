"""Which consumer offsets a slave does not let its master overwrite: a decision over two tables, without I/O.

4.9 takes whatever the master has (store-ha#69), which is right while the master lives: a reset moves offsets back on
purpose. It is wrong for what consumers committed to the slave while the master was away, and for what the master had
not yet written to its disk when it died. So a slave that keeps notes the former, and recognises the latter by the
master's start time, which moves when it was restarted.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

Offsets = Mapping[str, Mapping[int, int]]
"""By `topic@group`, then by queue id."""


def kept_offsets(
    ours: Offsets, theirs: Offsets, own: Mapping[str, AbstractSet[int]], *, has_forgotten: bool
) -> dict[str, dict[int, int]]:
    """Give our offsets that stay though the master's are lower.

    `own` are the queues whose offsets were committed here: they stay, also where the master has none. If the master
    `has_forgotten`, so does every other that is lower there; one that it does not have at all may have been deleted.
    """
    kept = {}
    for key, queues in ours.items():
        known, noted = theirs.get(key, {}), own.get(key, frozenset())
        newer = {
            queue_id: offset
            for queue_id, offset in queues.items()
            if offset > known.get(queue_id, -1) and (queue_id in noted or (has_forgotten and queue_id in known))
        }
        if newer:
            kept[key] = newer
    return kept
