"""Cases of a hunt, drawn from seeds. Pure.

A case is a cluster, its clients, and the faults against it.
"""

import random
from collections.abc import Collection, Sequence

import attrs

from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, MEMBERS, NAMESERVER, SLAVE, Fault
from rmqlab.cluster.hunt.possible import is_possible
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, MASTER_SLAVE

FIRST_FAULT = 20.0
"""Seconds after the start when the first fault may begin; the clients have run for a while then."""
MOST_KINDS = 5
"""Maximum number of kinds of faults in one case. Several faults of few kinds find more than one of each kind."""
_SHARE_DURING_ANOTHER = 0.5
"""Share of faults that begin during another fault."""
_SHARE_LONGEST = 0.25
"""Share of faults with the maximum duration: many time-outs of clients and slaves are 30 or 45 s."""
_FOCUS = {MASTER_SLAVE: (None, None, MASTER, SLAVE), DLEDGER: (None, None, *MEMBERS)}
"""The only broker with faults; None: all. Some claims apply only while the other brokers have no fault."""
_SHORTLY = 5.0
"""Seconds after a fault without a duration that count as during it."""
_SHARE_CUT = 0.25
"""Share of cases that end with faults in force. Healing a fault can repair the violation that it caused."""
_WORK = (0.0, 0.0, 1.0)
"""Possible processing times of a consumer, in seconds per message."""
_SHARE_PAIRED = 0.25
"""Share of long cases that have one pair of faults and no others. With other faults fewer claims apply."""
PLAIN, ORDERLY, DELAYED, COMMITTED, CHECKED = "plain", "orderly", "delayed", "committed", "asked"
LOADS = (PLAIN, ORDERLY, DELAYED, COMMITTED, CHECKED)
"""Plain messages; plain messages with an orderly consumer; plain and delayed messages; plain and half messages that the
producer commits at once; the same, committed when the broker checks the transaction."""
HALF_MESSAGE_LOADS = (COMMITTED, CHECKED)


@attrs.frozen
class CaseLimits:
    """Limits of a drawn case: times, number of faults, and loads."""

    first: float
    """Seconds after the start when the first fault may begin."""
    span: float
    """Length of the interval in which faults begin, in seconds."""
    longest: float
    """Maximum duration of a fault, in seconds."""
    most_faults: int
    loads: Sequence[str]


LONG = CaseLimits(first=FIRST_FAULT, span=60.0, longest=60.0, most_faults=8, loads=LOADS)
SHORT = CaseLimits(first=10.0, span=15.0, longest=12.0, most_faults=4, loads=(PLAIN, ORDERLY, DELAYED, COMMITTED))
"""A short case takes a third of the processor time of a long one. Its consumer has run for 2 s when the first fault
begins. It has no half messages that wait for a check, because brokers check once a minute."""
_SHARE_SHORT = 0.5


@attrs.frozen(kw_only=True)
class Case:
    """A cluster, its load, and the faults against it."""

    seed: int
    profile: str = "4.9"
    mode: str = MASTER_SLAVE
    role: str = "SYNC_MASTER"
    """No effect in a DLedger group."""
    flush: str = "ASYNC_FLUSH"
    rate: float = 3.0
    """Messages per second."""
    work: float = 0.0
    """Processing time of the consumer, in seconds per message."""
    load: str = PLAIN
    """One of LOADS."""
    faults: tuple[Fault, ...] = ()
    cut_at: float | None = None
    """Seconds after which the case ends with faults in force; None: all faults are undone before the end."""
    switches: tuple[str, ...] = ()
    """Switches that are on in addition to those of the profile."""

    def uses(self, kind: str) -> bool:
        """True if a fault is of this kind."""
        return any(fault.kind == kind for fault in self.faults)

    def touches(self, target: str) -> bool:
        """True if a fault is on this target."""
        return any(fault.target == target for fault in self.faults)

    @property
    def brokers(self) -> tuple[str, ...]:
        return MEMBERS if self.mode == DLEDGER else (MASTER, SLAVE)

    def in_force_at_end(self) -> list[Fault]:
        """Return the faults that are not undone."""
        return [] if self.cut_at is None else [fault for fault in self.faults if fault.ends_at >= self.cut_at]


def draw_case(
    seed: int, profile: str, kinds: Collection[str], *, is_short: bool = False, mode: str = MASTER_SLAVE
) -> Case:
    """Return the case of a seed, with faults of these kinds.

    Half of the cases are short ones; all of them with `is_short`.
    """
    rng = random.Random(f"case {seed}")  # noqa: S311 -- to be repeated, not to be secret
    limits = SHORT if rng.random() < _SHARE_SHORT or is_short else LONG
    pair = [] if limits is SHORT or mode == DLEDGER else _draw_pair(seed, kinds)
    count = rng.randint(1, limits.most_faults)
    names = [name for name in KINDS if name in kinds]
    names = rng.sample(names, min(len(names), rng.randint(1, MOST_KINDS)))
    focus = rng.choice(_FOCUS[mode])
    faults: list[Fault] = []
    for _ in range(count):
        kind = rng.choice(names)
        fault = Fault(
            kind,
            _draw_target(rng, KINDS[kind].targets_in(mode), focus),
            round(_draw_time(rng, faults, limits), 1),
            round(_draw_seconds(rng, kind, limits), 1),
        )
        if is_possible([*faults, fault]):
            faults.append(fault)
    cut_at = _draw_cut(rng, faults) if rng.random() < _SHARE_CUT and not pair else None
    return Case(
        seed=seed,
        profile=profile,
        mode=mode,
        role=rng.choice(["SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"]),
        flush=rng.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
        work=rng.choice(_WORK),
        load=rng.choice(limits.loads),
        faults=begun_before(cut_at, sorted(pair or faults, key=lambda fault: fault.at)),
        cut_at=cut_at,
    )


def _draw_pair(seed: int, kinds: Collection[str]) -> list[Fault]:
    """Return a pair of faults that can break a claim only together, or none.

    Uses a separate random generator, so that new pairs do not change the other cases.
    """
    rng = random.Random(f"pair {seed}")  # noqa: S311 -- as above
    pair = rng.choice([_consumer_begins_at_slave, _consumer_begins_after_nameserver])(rng)
    is_drawn = rng.random() < _SHARE_PAIRED and all(fault.kind in kinds for fault in pair)
    return pair if is_drawn and is_possible(pair) else []


def _consumer_begins_at_slave(rng: random.Random) -> list[Fault]:
    """Return faults after which a consumer can read its offsets only from the slave.

    The slave copied them from its master. The group has consumed more messages than the copied offsets may be behind.
    """
    begin, seconds = round(rng.uniform(40, 60), 1), round(rng.uniform(8, 15), 1)
    return [
        Fault("consumer", CONSUMER, begin, seconds),
        Fault("kill", MASTER, round(begin + rng.uniform(1, 5), 1), round(seconds + rng.uniform(10, 30), 1)),
    ]


def _consumer_begins_after_nameserver(rng: random.Random) -> list[Fault]:
    """Return faults after which a consumer fetches routes from a restarted nameserver.

    They last long enough for the brokers to register again before the end.
    """
    begin, seconds = round(FIRST_FAULT + rng.uniform(0, 20), 1), round(rng.uniform(1, 10), 1)
    return [
        Fault("kill", NAMESERVER, begin, seconds),
        Fault("consumer", CONSUMER, begin, round(seconds + rng.uniform(10, 20), 1)),
    ]


def _draw_cut(rng: random.Random, faults: Sequence[Fault]) -> float:
    """Return the end of a case, in seconds; usually during a fault."""
    fault = rng.choice(faults)
    return round(fault.at + rng.uniform(1, max(fault.seconds, _SHORTLY)), 1)


def begun_before(cut_at: float | None, faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults that begin before the end of their case."""
    return tuple(fault for fault in faults if cut_at is None or fault.at < cut_at)


def _draw_target(rng: random.Random, targets: Sequence[str], focus: str | None) -> str:
    return rng.choice([target for target in targets if target in (focus, CONSUMER)] or targets)


def _draw_seconds(rng: random.Random, kind: str, limits: CaseLimits) -> float:
    if KINDS[kind].end is None:
        return 0.0
    most = min(KINDS[kind].most, limits.longest)
    return most if rng.random() < _SHARE_LONGEST else rng.uniform(KINDS[kind].least, most)


def _draw_time(rng: random.Random, faults: Sequence[Fault], limits: CaseLimits) -> float:
    """Return the begin of a fault, in seconds; often during another one.

    Overlapping faults find more than faults in succession.
    """
    if faults and rng.random() < _SHARE_DURING_ANOTHER:
        other = rng.choice(faults)
        return rng.uniform(other.at, max(other.ends_at, other.at + _SHORTLY))
    return limits.first + rng.uniform(0, limits.span)
