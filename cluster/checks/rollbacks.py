"""Consumer offsets that went back.

* `offset_rollbacks`, `offset_rollbacks GROUP`: how often an offset went back, one for each queue and place: by a commit
  that a broker took; by a slave's metadata sync, which overwrites newer offsets with the master's; by a consumer that
  was told its offset is out of bounds; by a group whose next commit is below its last one.
* `rolled_back GROUP`: the most messages by which one offset went back at once.

Unknown: for a group that neither consumed nor committed anything in the journal; without a group, where there is no
such group at all.
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
    yield count_of("offset_rollbacks", "times", moves, lambda move: _tell(move, history))
    for group in sorted(groups):
        own = [move for move in moves if move.group == group]
        yield count_of(f"offset_rollbacks {group}", "times", own, lambda move: _tell(move, history))
        worst = max(own, key=lambda move: move.distance, default=None)
        yield Finding(
            metric=f"rolled_back {group}",
            unit="messages",
            value=worst.distance if worst else 0,
            evidence=(_tell(worst, history),) if worst else (),
        )


def _tell(move: Move, history: History) -> Evidence:
    return Evidence(
        says=f"{move.group}, {move.queue}: {move.says} from {move.before} to {move.after}",
        at_millis=move.at,
        entries=(move.entry, *history.around(move.at)),
    )
