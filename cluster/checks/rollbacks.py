"""Consumer offsets that moved back: how often and by how much (see moves.py).

Each queue and place counts once: a commit that a broker accepted, a slave's metadata sync, the correction of a consumer
whose offset is out of bounds, or a group whose next commit is below its last one.
"""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.moves import Move, find_moves
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.ROLLBACKS`."""
    moves = find_moves(history)
    groups = {*history.group_of.values(), *(move.group for move in moves)}
    if not groups:
        yield unknown("offset_rollbacks", "times", "no consumer group consumed or committed anything")
        return
    yield count_of("offset_rollbacks", "times", moves, lambda move: _evidence(move, history))
    for group in sorted(groups):
        own = [move for move in moves if move.group == group]
        yield count_of(f"offset_rollbacks {group}", "times", own, lambda move: _evidence(move, history))
        worst = max(own, key=lambda move: move.distance, default=None)
        yield Finding(
            metric=f"rolled_back {group}",
            unit="messages",
            value=worst.distance if worst else 0,
            evidence=(_evidence(worst, history),) if worst else (),
        )


def _evidence(move: Move, history: History) -> Evidence:
    return Evidence(
        says=f"{move.group}, {move.queue}: {move.says} from {move.before} to {move.after}",
        at_millis=move.at,
        entries=(move.entry, *history.around(move.at)),
    )
