"""The hunt itself: plays case after case, and reduces each new way to break a claim to its smallest form."""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.hunt.case import Case, draw_case
from rmqlab.cluster.hunt.shrink import mended_by, shrink
from rmqlab.cluster.hunt.trial import Trial, try_case
from rmqlab.simulation.child import run_in_children

SWITCHES = (
    "ha_report_at_once",
    "ha_drop_silent_master",
    "in_sync_replicas",
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
)
"""Keys of docs/switches.md that may mend a case that is played in 4.9."""


@attrs.frozen(kw_only=True)
class Find:
    """A claim that a case breaks."""

    claim: str
    found: str
    """What the judge found, in words."""
    case: Case
    """The smallest one."""
    drawn: Case
    """The one that was drawn."""
    mended_by: tuple[str, ...] = ()
    """Switches of which each alone keeps the claim."""
    after_seconds: float = 0.0
    """Real seconds since the begin of the hunt."""

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Kind and target of the smallest case's moves: what tells two finds of a claim apart."""
        return frozenset((move.kind, move.target) for move in self.case.moves)


@attrs.define(eq=False)
class Progress:
    """How far a hunt is."""

    seeds: int = 0
    unknown: int = 0
    """Cases with a claim that they could not decide."""
    problems: list[str] = attrs.field(factory=list)
    """Why cases could not be played, one text for each."""
    virtual_seconds: float = 0.0
    shrinking: str = ""
    """What is being reduced at the moment; empty while cases are drawn."""
    began: float = attrs.field(factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Real seconds since the begin."""
        return time.monotonic() - self.began


@attrs.frozen(kw_only=True)
class Hunt:
    """What to hunt for, and how long."""

    claims: tuple[str, ...]
    kinds: tuple[str, ...]
    profile: str = "4.9"
    first_seed: int = 1
    seeds: int | None = 100
    """Number of cases; None: until `minutes` are over."""
    minutes: float | None = None
    jobs: int = 2
    """Processes at a time."""

    def run(self, progress: Progress, on_change: Callable[[], object] = lambda: None) -> Iterator[Find]:
        """Yield each new way to break a claim, in its smallest form."""
        known: list[Find] = []
        for case, trial in self._trials(self._cases(progress)):
            progress.seeds += 1
            progress.virtual_seconds += trial.seconds
            progress.unknown += bool(trial.unknown)
            if trial.problem:
                progress.problems.append(f"seed {case.seed}: {trial.problem}")
            for claim in trial.broken:
                if not any(find.claim == claim and is_like(case, find) for find in known):
                    progress.shrinking = f"seed {case.seed} breaks {claim}"
                    on_change()
                    known.append(self._reduce(claim, case, trial, progress))
                    progress.shrinking = ""
                    yield known[-1]
            on_change()

    def _cases(self, progress: Progress) -> Iterator[Case]:
        for number in itertools.count() if self.seeds is None else range(self.seeds):
            if self.minutes is not None and progress.seconds > 60 * self.minutes:
                return
            yield draw_case(self.first_seed + number, self.profile, self.kinds)

    def _trials(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Trial]]:
        """Play cases, and yield them in the order of their ends."""
        played: list[Case] = []

        def plays() -> Iterator[Callable[[], Trial]]:
            for case in cases:
                played.append(case)
                yield functools.partial(try_case, case, self.claims)

        for number, trial in run_in_children(plays(), self.jobs):
            yield played[number], trial

    def _reduce(self, claim: str, case: Case, trial: Trial, progress: Progress) -> Find:
        def breaks(cases: Sequence[Case]) -> list[bool]:
            trials = dict(run_in_children((functools.partial(try_case, one, [claim]) for one in cases), self.jobs))
            return [claim in trials[number].broken for number in range(len(cases))]

        smallest = shrink(case, breaks)
        mending = mended_by(smallest, SWITCHES, breaks) if self.profile == "4.9" else []
        return Find(
            claim=claim,
            found=trial.broken[claim],
            case=smallest,
            drawn=case,
            mended_by=tuple(mending),
            after_seconds=progress.seconds,
        )


def is_like(case: Case, find: Find) -> bool:
    """True if a case has all the moves of a find, so that it most likely breaks the claim in the same way."""
    return find.case.role == case.role and find.kinds <= {(move.kind, move.target) for move in case.moves}
