"""Cases of a hunt, drawn from seeds. Pure.

A case is a cluster, its clients, and the faults against it.
"""

import random
from collections.abc import Collection, Sequence

import attrs

from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, NAMESERVER, SLAVE, Fault
from rmqlab.cluster.hunt.possible import is_possible

FIRST_FAULT = 20.0
"""Seconds after the start: the clients have run for a while."""
MOST_KINDS = 5
"""Kinds of faults in one case. Few of many kinds find more than a few of each."""
_SHARE_DURING_ANOTHER = 0.5
"""Part of the faults that begin during another one."""
_SHARE_LONGEST = 0.25
"""Part of the faults that last as long as possible: clients and slaves notice much only after 30 or 45 s."""
_FOCUS = (None, None, MASTER, SLAVE)
"""On which broker alone the faults of a case are. Some claims are made only while the other broker is well."""
_SHORTLY = 5.0
"""Seconds that count as during a fault that is over at once."""
_SHARE_CUT = 0.25
"""Part of the cases that end with faults in force: what heals hides what was wrong before."""
_WORK = (0.0, 0.0, 1.0)
"""Seconds that a consumer may need for a message."""
_SHARE_PAIRED = 0.25
"""Part of the long cases whose faults are a pair and nothing else: with other faults fewer claims are made."""
PLAIN, ORDERLY, DELAYED, COMMITTED, ASKED = "plain", "orderly", "delayed", "committed", "asked"
LOADS = (PLAIN, ORDERLY, DELAYED, COMMITTED, ASKED)
"""Plain messages; the same for an orderly consumer; beside delayed ones; beside half messages that their producer
commits at once, or when it is asked."""
HALVES = (COMMITTED, ASKED)


@attrs.frozen
class Shape:
    """How long a case is, and how much happens in it."""

    first: float
    """Seconds after the start when the first fault may begin."""
    span: float
    """Seconds in which faults begin."""
    longest: float
    """Seconds that a fault lasts, at most."""
    most_faults: int
    loads: Sequence[str]


LONG = Shape(first=FIRST_FAULT, span=60.0, longest=60.0, most_faults=8, loads=LOADS)
SHORT = Shape(first=10.0, span=15.0, longest=12.0, most_faults=4, loads=(PLAIN, ORDERLY, DELAYED, COMMITTED))
"""A third of the processor time of a long one: the consumer has run for 2 s when the first fault begins. Without half
messages that wait for a question: brokers ask once a minute."""
_SHARE_SHORT = 0.5


@attrs.frozen(kw_only=True)
class Case:
    """A cluster, its load, and the faults against it."""

    seed: int
    profile: str = "4.9"
    role: str = "SYNC_MASTER"
    flush: str = "ASYNC_FLUSH"
    rate: float = 3.0
    """Messages per second."""
    work: float = 0.0
    """Seconds that a consumer needs for a message."""
    load: str = PLAIN
    """One of LOADS."""
    faults: tuple[Fault, ...] = ()
    cut_at: float | None = None
    """Seconds after which it ends with all faults in force; None: everything is undone first."""
    switches: tuple[str, ...] = ()
    """Keys that are set beside those of the profile."""

    def uses(self, kind: str) -> bool:
        """True if a fault is of this kind."""
        return any(fault.kind == kind for fault in self.faults)

    def touches(self, target: str) -> bool:
        """True if a fault is on this target."""
        return any(fault.target == target for fault in self.faults)

    def in_force_at_end(self) -> list[Fault]:
        """Return the faults that are not undone."""
        return [] if self.cut_at is None else [fault for fault in self.faults if fault.ends_at >= self.cut_at]


def draw_case(seed: int, profile: str, kinds: Collection[str], *, is_short: bool = False) -> Case:
    """Return the case of a seed, with faults of these kinds.

    Half of the cases are short ones; all of them with `is_short`.
    """
    rng = random.Random(f"case {seed}")  # noqa: S311 -- to be repeated, not to be secret
    shape = SHORT if rng.random() < _SHARE_SHORT or is_short else LONG
    pair = [] if shape is SHORT else _draw_pair(seed, kinds)
    count = rng.randint(1, shape.most_faults)
    names = [name for name in KINDS if name in kinds]
    names = rng.sample(names, min(len(names), rng.randint(1, MOST_KINDS)))
    focus = rng.choice(_FOCUS)
    faults: list[Fault] = []
    for _ in range(count):
        kind = rng.choice(names)
        fault = Fault(
            kind,
            _draw_target(rng, kind, focus),
            round(_draw_time(rng, faults, shape), 1),
            round(_draw_seconds(rng, kind, shape), 1),
        )
        if is_possible([*faults, fault]):
            faults.append(fault)
    cut_at = _draw_cut(rng, faults) if rng.random() < _SHARE_CUT and not pair else None
    return Case(
        seed=seed,
        profile=profile,
        role=rng.choice(["SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"]),
        flush=rng.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
        work=rng.choice(_WORK),
        load=rng.choice(shape.loads),
        faults=begun_before(cut_at, sorted(pair or faults, key=lambda fault: fault.at)),
        cut_at=cut_at,
    )


def _draw_pair(seed: int, kinds: Collection[str]) -> list[Fault]:
    """Return two faults that show something only together, in one order, or none.

    It has a generator of its own, so that the other cases do not depend on what pairs there are.
    """
    rng = random.Random(f"pair {seed}")  # noqa: S311 -- as above
    pair = rng.choice([_consumer_begins_at_slave, _consumer_begins_after_nameserver])(rng)
    is_drawn = rng.random() < _SHARE_PAIRED and all(fault.kind in kinds for fault in pair)
    return pair if is_drawn and is_possible(pair) else []


def _consumer_begins_at_slave(rng: random.Random) -> list[Fault]:
    """Return faults after which a consumer finds its offsets at the slave alone.

    Nobody committed them there. By then its group has consumed more than the slave's offsets may be behind.
    """
    begin, seconds = round(rng.uniform(40, 60), 1), round(rng.uniform(8, 15), 1)
    return [
        Fault("consumer", CONSUMER, begin, seconds),
        Fault("kill", MASTER, round(begin + rng.uniform(1, 5), 1), round(seconds + rng.uniform(10, 30), 1)),
    ]


def _consumer_begins_after_nameserver(rng: random.Random) -> list[Fault]:
    """Return faults after which a consumer asks a restarted nameserver for routes.

    They last so long that brokers have registered again before the end.
    """
    begin, seconds = round(FIRST_FAULT + rng.uniform(0, 20), 1), round(rng.uniform(1, 10), 1)
    return [
        Fault("kill", NAMESERVER, begin, seconds),
        Fault("consumer", CONSUMER, begin, round(seconds + rng.uniform(10, 20), 1)),
    ]


def _draw_cut(rng: random.Random, faults: Sequence[Fault]) -> float:
    """Return when a case ends: mostly during a fault."""
    fault = rng.choice(faults)
    return round(fault.at + rng.uniform(1, max(fault.seconds, _SHORTLY)), 1)


def begun_before(cut_at: float | None, faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults that begin before the end of their case."""
    return tuple(fault for fault in faults if cut_at is None or fault.at < cut_at)


def _draw_target(rng: random.Random, kind: str, focus: str | None) -> str:
    targets = KINDS[kind].targets
    return rng.choice([target for target in targets if target in (focus, CONSUMER)] or targets)


def _draw_seconds(rng: random.Random, kind: str, shape: Shape) -> float:
    if KINDS[kind].end is None:
        return 0.0
    most = min(KINDS[kind].most, shape.longest)
    return most if rng.random() < _SHARE_LONGEST else rng.uniform(KINDS[kind].least, most)


def _draw_time(rng: random.Random, faults: Sequence[Fault], shape: Shape) -> float:
    """Return when a fault begins: often during another one.

    Two that overlap do more than one after the other.
    """
    if faults and rng.random() < _SHARE_DURING_ANOTHER:
        other = rng.choice(faults)
        return rng.uniform(other.at, max(other.ends_at, other.at + _SHORTLY))
    return shape.first + rng.uniform(0, shape.span)
