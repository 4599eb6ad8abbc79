"""Plays case after case, and reduces each new way to break a claim.

In 4.9 a switch that fixes what was found is turned on for all that follows, so what breaks then is something else.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.hunt.case import Case, draw_case
from rmqlab.cluster.hunt.shrink import fixed_by, shrink
from rmqlab.cluster.hunt.trial import MOST_CPU_SECONDS, Trial, overtime, scratch, try_case, try_seed
from rmqlab.cluster.hunt.warmup import warm_up
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.simulation.child import in_order, run_in_children

SWITCHES = (
    "ha_report_at_once",
    "ha_drop_silent_master",
    "ha_fail_lost_slave_at_once",
    "ha_report_trouble",
    "ha_bootstrap_from_first_byte",
    "ha_refuse_false_reports",
    "ha_restart_expired_slave",
    "ha_truncate_diverged",
    "ha_check_master",
    "ha_verify_received",
    "keep_newer_consumer_offsets",
    "hand_back_consumer_offsets",
    "wake_held_pulls_on_slave",
    "in_sync_replicas",
)
"""Keys of docs/switches.md that may fix a case that is played in 4.9.

The first that does is turned on: the last refuses sends, which hides much.
"""


@attrs.frozen(kw_only=True)
class Failure:
    """A claim that a case breaks."""

    claim: str
    found: str
    """What the judge found, in words."""
    case: Case
    """The smallest one."""
    drawn: Case
    """The one that was drawn."""
    fixed_by: tuple[str, ...] = ()
    """Switches of which each alone, beside those of the case, keeps the claim. The first is turned on from then on."""
    after_seconds: float = 0.0
    """Real seconds since the start of the hunt."""

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Kind and target of the smallest case's faults."""
        return kinds_of(self.case)


@attrs.define(eq=False)
class Progress:
    """How far a hunt is."""

    seeds: int = 0
    unknown: int = 0
    """Cases with a claim that they could not decide."""
    problems: list[str] = attrs.field(factory=list)
    """Why cases could not be played, or a claim not judged, one text for each."""
    virtual_seconds: float = 0.0
    shrinking: str = ""
    """What is being reduced at the moment; empty while cases are drawn."""
    began: float = attrs.field(factory=time.monotonic)

    def count(self, seed: int, trial: Trial) -> None:
        """Add what was played with a seed."""
        self.seeds += 1
        self.virtual_seconds += trial.seconds
        self.unknown += bool(trial.unknown)
        reasons = [trial.problem] if trial.problem else [f"{claim}: {why}" for claim, why in trial.unknown.items()]
        self.problems += [f"seed {seed}: {reason}" for reason in reasons]

    @property
    def seconds(self) -> float:
        """Real seconds since the start."""
        return time.monotonic() - self.began

    def exit_status(self, *, is_broken: bool) -> int:
        """Return 0 if nothing broke, 1 if something did, 2 if that is not known."""
        is_unsure = self.unknown or self.problems or not self.seeds
        return 1 if is_broken else 2 if is_unsure else 0


@attrs.frozen(kw_only=True)
class Extent:
    """How long a hunt is, and how wide."""

    first_seed: int = 1
    seeds: int | None = 100
    """Number of seeds; None: until `minutes` are over."""
    minutes: float | None = None
    jobs: int = 2
    """Processes at a time."""

    def draw(self, progress: Progress) -> Iterator[int]:
        """Yield seeds until the end."""
        for number in itertools.count() if self.seeds is None else range(self.seeds):
            if self.minutes is not None and progress.seconds > 60 * self.minutes:
                return
            yield self.first_seed + number


@attrs.frozen(kw_only=True)
class Hunt:
    """A hunt for schedules of faults that break a claim."""

    claims: tuple[str, ...]
    kinds: tuple[str, ...]
    profile: str = "4.9"
    extent: Extent = Extent()
    switches: tuple[str, ...] = SWITCHES
    """Switches that are tried on each failure found in 4.9."""
    on: tuple[str, ...] = ()
    """Those that are on from the start."""
    is_short: bool = False
    """True to draw short cases only."""
    role: str = ""
    """Role of all masters; drawn if empty."""
    flush: str = ""
    """Flush of all brokers; drawn if empty."""

    def run(self, progress: Progress, on_change: Callable[[], object] = lambda: None) -> Iterator[Failure]:
        """Yield each new way to break a claim, in its smallest form."""
        warm_up()
        with scratch():
            yield from self._failures(progress, on_change)

    def _failures(self, progress: Progress, on_change: Callable[[], object]) -> Iterator[Failure]:
        known: list[Failure] = []
        for drawn, trial in self._trials(self.draw(progress, known)):
            progress.count(drawn.seed, trial)
            for claim in trial.broken:
                case = attrs.evolve(drawn, switches=self._on(known))
                if self._is_new(claim, case, drawn, known):
                    progress.shrinking = f"seed {case.seed} breaks {claim}"
                    on_change()
                    known.append(self._reduce(claim, case, progress))
                    progress.shrinking = ""
                    yield known[-1]
            on_change()

    def _on(self, known: Iterable[Failure]) -> tuple[str, ...]:
        """Return the chosen switches, and the first fix of each known failure."""
        return (*self.on, *(failure.fixed_by[0] for failure in known if failure.fixed_by))

    def draw(self, progress: Progress, known: Sequence[Failure]) -> Iterator[Case]:
        """Yield the cases of all seeds.

        Each has the switches that fix the failures known so far.
        """
        for seed in self.extent.draw(progress):
            case = draw_case(seed, self.profile, self.kinds, is_short=self.is_short)
            role, flush = self.role or case.role, self.flush or case.flush
            yield attrs.evolve(case, switches=self._on(known), role=role, flush=flush)

    def _trials(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Trial]]:
        """Play cases, and yield them in the order of their ends."""
        played: list[Case] = []

        def plays() -> Iterator[Callable[[], Trial]]:
            for case in cases:
                played.append(case)
                yield functools.partial(try_case, case, self.claims)

        for number, trial in self._play(plays(), self.claims):
            yield played[number], trial

    def _play(self, plays: Iterable[Callable[[], Trial]], claims: Sequence[str]) -> Iterator[tuple[int, Trial]]:
        late = functools.partial(overtime, claims)
        return run_in_children(plays, self.extent.jobs, cpu_seconds=MOST_CPU_SECONDS, overtime=late)

    def _is_new(self, claim: str, case: Case, drawn: Case, known: Sequence[Failure]) -> bool:
        """True if no failure explains the case.

        One that nothing fixes explains all cases with its faults. The others are fixed in the case, which may have
        been drawn before they were found: then it is played again.
        """
        unfixed = [failure for failure in known if failure.claim == claim and not failure.fixed_by]
        if any(failure.kinds <= kinds_of(case) for failure in unfixed):
            return False
        return case == drawn or next(self._breaks(claim, [case]))

    def _breaks(self, claim: str, cases: Sequence[Case]) -> Iterator[bool]:
        return (claim in trial.broken for trial in self._try(claim, cases))

    def _try(self, claim: str, cases: Sequence[Case]) -> Iterator[Trial]:
        """Play cases, and yield their results in order.

        Those that are running when the caller stops are killed, and the others are not played.
        """
        return in_order(self._play((functools.partial(try_case, one, [claim]) for one in cases), [claim]))

    def _reduce(self, claim: str, case: Case, progress: Progress) -> Failure:
        breaks = functools.partial(self._breaks, claim)
        smallest = shrink(case, breaks)
        trial = next(self._try(claim, [smallest]))
        fixes = fixed_by(smallest, case, self.switches, breaks) if self.profile == "4.9" else []
        return Failure(
            claim=claim,
            found=trial.broken[claim],
            case=smallest,
            drawn=case,
            fixed_by=tuple(fixes),
            after_seconds=progress.seconds,
        )


@attrs.frozen(kw_only=True)
class SeedHunt:
    """A hunt for seeds with which a scenario does not hold."""

    scenario: Scenario
    profile: str = "4.9"
    extent: Extent = Extent()

    def run(self, progress: Progress, on_change: Callable[[], object] = lambda: None) -> Iterator[tuple[int, Trial]]:
        """Yield each seed with which an expectation is violated."""
        warm_up()
        drawn: list[int] = []

        def plays() -> Iterator[Callable[[], Trial]]:
            for seed in self.extent.draw(progress):
                drawn.append(seed)
                yield functools.partial(try_seed, self.scenario, self.profile, seed)

        with scratch():
            for number, trial in run_in_children(plays(), self.extent.jobs):
                progress.count(drawn[number], trial)
                if trial.broken:
                    yield drawn[number], trial
                on_change()


def kinds_of(case: Case) -> frozenset[tuple[str, str]]:
    """Return kind and target of each fault: they distinguish ways to break a claim."""
    return frozenset((fault.kind, fault.target) for fault in case.faults)
