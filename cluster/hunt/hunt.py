"""Plays cases, and reduces each case that breaks a claim in a new way.

With profile 4.9, a switch that fixes a failure is turned on in all later cases, so that they find other failures.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.hunt.case import Case, draw_case
from rmqlab.cluster.hunt.shrink import fixing_switches, shrink
from rmqlab.cluster.hunt.trial import MOST_CPU_SECONDS, Trial, scratch, timed_out, try_case, try_seed
from rmqlab.cluster.hunt.warmup import warm_up
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, MASTER_SLAVE
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
"""Switches (docs/switches.md) that are tried as fixes of a failure with profile 4.9.

The first that fixes it is turned on. The last ones refuse sends, which hides other failures, so they are tried last.
"""
GROUP_SWITCHES = ("keep_newer_consumer_offsets", "hand_back_consumer_offsets", "wake_held_pulls_on_slave")
"""Those that concern DLedger groups, too."""


@attrs.frozen(kw_only=True)
class Failure:
    """A claim that a case breaks."""

    claim: str
    found: str
    """What the judge found, in words."""
    case: Case
    """The smallest case that was found."""
    drawn: Case
    """The case that was drawn."""
    fixed_by: tuple[str, ...] = ()
    """Switches that fix the failure, each alone in addition to those of the case. The first is turned on afterwards."""
    after_seconds: float = 0.0
    """Real seconds since the start of the hunt."""

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Kind and target of the smallest case's faults."""
        return kinds_of(self.case)


@attrs.define(eq=False)
class Progress:
    """The progress of a hunt."""

    seeds: int = 0
    unknown: int = 0
    """Number of cases with a claim that could not be judged."""
    problems: list[str] = attrs.field(factory=list)
    """Reasons why cases could not be played or claims not judged; one text for each case."""
    virtual_seconds: float = 0.0
    shrinking: str = ""
    """The claim whose case is being reduced; empty while cases are drawn."""
    began: float = attrs.field(factory=time.monotonic)

    def count(self, seed: int, trial: Trial) -> None:
        """Add the result of a seed."""
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
        """Return 0 if no claim broke, 1 if one did, 2 if that is unknown."""
        is_unsure = self.unknown or self.problems or not self.seeds
        return 1 if is_broken else 2 if is_unsure else 0


@attrs.frozen(kw_only=True)
class HuntBudget:
    """Limits of a hunt: seeds, minutes, and parallel processes."""

    first_seed: int = 1
    seeds: int | None = 100
    """Number of seeds; None: until `minutes` are over."""
    minutes: float | None = None
    jobs: int = 2
    """Number of parallel processes."""

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
    mode: str = MASTER_SLAVE
    budget: HuntBudget = HuntBudget()
    switches: tuple[str, ...] = SWITCHES
    """Switches that are tried on each failure found in 4.9."""
    on: tuple[str, ...] = ()
    """Switches that are on from the start."""
    is_short: bool = False
    """True to draw short cases only."""
    role: str = ""
    """Role of all masters; drawn if empty."""
    flush: str = ""
    """Flush of all brokers; drawn if empty."""

    def run(self, progress: Progress, on_change: Callable[[], object] = lambda: None) -> Iterator[Failure]:
        """Yield each new way to break a claim, in its smallest form."""
        warm_up(self.mode)
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
        for seed in self.budget.draw(progress):
            case = draw_case(seed, self.profile, self.kinds, is_short=self.is_short, mode=self.mode)
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
        late = functools.partial(timed_out, claims)
        return run_in_children(plays, self.budget.jobs, cpu_seconds=MOST_CPU_SECONDS, overtime=late)

    def _is_new(self, claim: str, case: Case, drawn: Case, known: Sequence[Failure]) -> bool:
        """True if no failure explains the case.

        A failure that no switch fixes explains all cases with the same kinds of faults. If the case was drawn before
        a fixed failure was found, it is played again with that failure's switch.
        """
        unfixed = [failure for failure in known if failure.claim == claim and not failure.fixed_by]
        if any(failure.kinds <= kinds_of(case) for failure in unfixed):
            return False
        return case == drawn or next(self._breaks(claim, [case]))

    def _breaks(self, claim: str, cases: Sequence[Case]) -> Iterator[bool]:
        return (claim in trial.broken for trial in self._try(claim, cases))

    def _try(self, claim: str, cases: Sequence[Case]) -> Iterator[Trial]:
        """Play cases, and yield their results in order.

        When the caller stops early, running cases are killed and the others are not played.
        """
        return in_order(self._play((functools.partial(try_case, one, [claim]) for one in cases), [claim]))

    def _reduce(self, claim: str, case: Case, progress: Progress) -> Failure:
        breaks = functools.partial(self._breaks, claim)
        smallest = shrink(case, breaks)
        trial = next(self._try(claim, [smallest]))
        fixes = fixing_switches(smallest, case, self.switches, breaks) if self.profile == "4.9" else []
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
    budget: HuntBudget = HuntBudget()

    def run(self, progress: Progress, on_change: Callable[[], object] = lambda: None) -> Iterator[tuple[int, Trial]]:
        """Yield each seed with which an expectation is violated."""
        warm_up()
        drawn: list[int] = []

        def plays() -> Iterator[Callable[[], Trial]]:
            for seed in self.budget.draw(progress):
                drawn.append(seed)
                yield functools.partial(try_seed, self.scenario, self.profile, seed)

        with scratch():
            for number, trial in run_in_children(plays(), self.budget.jobs):
                progress.count(drawn[number], trial)
                if trial.broken:
                    yield drawn[number], trial
                on_change()


def switches_in(mode: str) -> tuple[str, ...]:
    """Return the switches that concern clusters of a mode."""
    return GROUP_SWITCHES if mode == DLEDGER else SWITCHES


def kinds_of(case: Case) -> frozenset[tuple[str, str]]:
    """Return kind and target of each fault. Failures with equal sets count as one."""
    return frozenset((fault.kind, fault.target) for fault in case.faults)
