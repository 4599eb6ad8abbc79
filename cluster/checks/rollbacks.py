"""Consumer offsets that moved back: how often and how far; see rollbackevents.py.

Each queue and place counts once: a commit that a broker accepted, a slave's metadata sync, the correction of a consumer
whose offset is out of bounds, or a group whose next commit is below its last one.
"""

import itertools
from collections.abc import Iterator, Sequence

import attrs

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.rollbackevents import Rollback, find_rollbacks
from rmqlab.verdict.findings import Brokers, Evidence, Finding, count_of, unknown


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.ROLLBACKS`."""
    rollbacks = find_rollbacks(history)
    groups = {*itertools.chain.from_iterable(history.groups_of.values()), *(rollback.group for rollback in rollbacks)}
    if not groups:
        yield unknown("offset_rollbacks", "times", "no consumer group consumed or committed anything")
        return
    yield count_of(
        "offset_rollbacks", "times", rollbacks, lambda rollback: _evidence(rollback, history), brokers_of=_brokers_of
    )
    for group in sorted(groups):
        own = [rollback for rollback in rollbacks if rollback.group == group]
        yield count_of(
            f"offset_rollbacks {group}",
            "times",
            own,
            lambda rollback: _evidence(rollback, history),
            brokers_of=_brokers_of,
        )
        of_brokers = {
            brokers: _farthest(group, [one for one in own if _brokers_of(one) == brokers], history)
            for brokers in dict.fromkeys(map(_brokers_of, own))
        }
        yield attrs.evolve(_farthest(group, own, history), parts=of_brokers)


def _farthest(group: str, rollbacks: Sequence[Rollback], history: History) -> Finding:
    worst = max(rollbacks, key=lambda rollback: rollback.distance, default=None)
    return Finding(
        metric=f"rolled_back {group}",
        unit="messages",
        value=worst.distance if worst else 0,
        evidence=(_evidence(worst, history),) if worst else (),
    )


def _brokers_of(rollback: Rollback) -> Brokers:
    return frozenset({rollback.queue.broker})


def _evidence(rollback: Rollback, history: History) -> Evidence:
    return Evidence(
        text=f"{rollback.group}, {rollback.queue}: {rollback.text} from {rollback.before} to {rollback.after}",
        at_millis=rollback.at,
        entries=(rollback.entry, *history.around(rollback.at)),
    )
