"""Cases of a hunt, drawn from seeds. Pure.

A case is a cluster, its clients, and the moves against it. It becomes a scenario file, so what breaks a claim can be read, changed and played by `rmqlab run`.
"""

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import attrs

from rmqlab.cluster.hunt.moves import CONSUMER, KINDS, MASTER, Move, StepTable

FIRST_MOVE = 20.0
"""Seconds after the begin: the clients have run for a while."""
SPAN = 60.0
"""Seconds in which moves begin."""
MOST_MOVES = 6
LOG_FILE_BYTES = 16_384
"""Size of a commit log file: small, so that a short run has several."""
FLUSH_MILLIS = 10_000
"""Period of ASYNC_FLUSH, so that a power loss finds something to lose."""
RATE = 10
"""Cluster seconds per real second, when real processes play it."""
_SHARE_DURING_ANOTHER = 0.5
"""Part of the moves that begin during another one."""
_SHORTLY = 5.0
"""Seconds that count as during a move that is over at once."""
_GAP = 2.0
"""Seconds between two moves on one target."""

HEALED, WRITES_ARE_BACK, SLAVE_HAS_ALL, ALL_IS_CONSUMED = (
    "healed",
    "writes are back",
    "slave has all",
    "all is consumed",
)
"""Labels of steps, which claims refer to."""


@attrs.frozen(kw_only=True)
class Case:
    """A cluster, its load, and the moves against it."""

    seed: int
    profile: str = "4.9"
    role: str = "SYNC_MASTER"
    flush: str = "ASYNC_FLUSH"
    rate: float = 3.0
    """Messages per second."""
    moves: tuple[Move, ...] = ()
    switches: tuple[str, ...] = ()
    """Keys that are set beside those of the profile."""

    def uses(self, kind: str) -> bool:
        """True if a move is of this kind."""
        return any(move.kind == kind for move in self.moves)

    def touches(self, target: str) -> bool:
        """True if a move is on this target."""
        return any(move.target == target for move in self.moves)


def draw_case(seed: int, profile: str, kinds: Collection[str]) -> Case:
    """Return the case of a seed, with moves of these kinds."""
    rng = random.Random(f"case {seed}")  # noqa: S311 -- to be repeated, not to be secret
    count = rng.randint(1, MOST_MOVES)
    names = [name for name in KINDS if name in kinds]
    moves: list[Move] = []
    for _ in range(count):
        kind = rng.choice(names)
        move = Move(
            kind,
            rng.choice(KINDS[kind].targets),
            round(_draw_time(rng, moves), 1),
            round(rng.uniform(KINDS[kind].least, KINDS[kind].most), 1) if KINDS[kind].end is not None else 0.0,
        )
        if is_possible([*moves, move]):
            moves.append(move)
    return Case(
        seed=seed,
        profile=profile,
        role=rng.choice(["SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"]),
        flush=rng.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
        moves=tuple(sorted(moves, key=lambda move: move.at)),
    )


def _draw_time(rng: random.Random, moves: Sequence[Move]) -> float:
    """Return when a move begins: often during another one.

    Two that overlap do more than one after the other.
    """
    if moves and rng.random() < _SHARE_DURING_ANOTHER:
        other = rng.choice(moves)
        return rng.uniform(other.at, max(other.ends_at, other.at + _SHORTLY))
    return FIRST_MOVE + rng.uniform(0, SPAN)


def label_of(number: int, move: Move) -> str:
    """Return the label of a move's first step; the first move has number 1."""
    return f"{number}: {move.kind}"


def is_possible(moves: Sequence[Move]) -> bool:
    """True if a cluster can play these moves, and is promised to survive them.

    No process, disk and link has two moves at a time, and only one disk loses something: RocketMQ promises nothing after
    that.
    """
    if sum(KINDS[move.kind].loses_data for move in moves) > 1:
        return False
    by_target: dict[str, list[Move]] = {}
    for move in moves:
        kind = KINDS[move.kind]
        by_target.setdefault("the link" if kind.is_of_link else f"{move.target}{kind.part}", []).append(move)
    for own in by_target.values():
        own.sort(key=lambda move: move.at)
        if any(after.at < before.ends_at + _GAP for before, after in itertools.pairwise(own)):
            return False
    return True


def scenario_of(case: Case, expectations: Sequence[StepTable], *, name: str, claim: str) -> dict[str, Any]:
    """Return the case as a scenario file has it, before it is written."""
    consumers = 1 + sum(move.kind == "consumer" for move in case.moves)
    workloads: list[dict[str, Any]] = [
        {"name": "orders", "kind": "produce", "topic": "orders", "rate_per_second": case.rate, "size": 1000},
        *(
            {"name": f"{CONSUMER}-{n}", "kind": "consume", "topic": "orders", "group": CONSUMER}
            for n in _up_to(consumers)
        ),
    ]
    return {
        "name": name,
        "claim": claim,
        "cluster": {
            "rate": RATE,
            "role": case.role,
            "flush": case.flush,
            "broker_settings": {
                "profile": case.profile,
                "mapped_file_size_commit_log": LOG_FILE_BYTES,
                "flush_interval_commit_log": FLUSH_MILLIS,
                "flush_commit_log_thorough_interval": FLUSH_MILLIS,
                **{switch: 2 if switch == "in_sync_replicas" else True for switch in case.switches},
            },
        },
        "workload": [{**workload, "start": "step"} for workload in workloads],
        "step": [*_beginning(), *_steps(case.moves), *_ending(case.moves, consumers)],
        "expect": list(expectations),
    }


def _up_to(count: int) -> Iterator[int]:
    return iter(range(1, count + 1))


def _beginning() -> Iterator[StepTable]:
    yield {"wait": f"slave-in-sync {MASTER}", "produce": "orders"}
    yield {"wait": "sent.SEND_OK orders 20", "consume": f"{CONSUMER}-1"}


def _steps(moves: Sequence[Move]) -> Iterator[StepTable]:
    """Yield the steps of all moves, by time."""
    timed: list[tuple[float, int, StepTable]] = []
    consumers = 0
    for number, move in enumerate(moves, 1):
        kind, label, first = KINDS[move.kind], label_of(number, move), move.target
        second = first
        if move.target == CONSUMER:
            consumers += 1
            first, second = f"{CONSUMER}-{consumers}", f"{CONSUMER}-{consumers + 1}"
        timed.append((move.at, 2 * number, kind.begin(first, label)))
        if kind.end is not None:
            timed.append((move.ends_at, 2 * number + 1, kind.end(second, label)))
    for at, _, step in sorted(timed, key=lambda one: one[:2]):
        yield {"at": f"{at:g} s", **step}


def _ending(moves: Sequence[Move], consumers: int) -> Iterator[StepTable]:
    last = max([FIRST_MOVE, *(move.ends_at for move in moves)])
    yield {"at": f"{last + 1:g} s", "mark": HEALED}
    yield {"wait": "sent.SEND_OK orders 20", "within": "60 s", "mark": WRITES_ARE_BACK}
    yield {"after": "5 s", "stop-workload": "orders"}
    yield {"wait": f"slave-caught-up {MASTER}", "within": "60 s", "mark": SLAVE_HAS_ALL}
    yield {"wait": f"consumed-all {CONSUMER}", "within": "120 s", "mark": ALL_IS_CONSUMED}
    yield {"after": "12 s", "stop-workload": f"{CONSUMER}-{consumers}"}
