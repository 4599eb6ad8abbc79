"""The table of `make planted`: one line for each kind, followed by its failures."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from rmqlab.cluster.plant.model import Planted
from tests.planted.compare import Outcome

_SHOWN = 100
"""Characters of one unexpected report of a judge."""


@attrs.frozen(kw_only=True)
class Trial:
    """One planted violation, and how the judges did."""

    planted: Planted
    outcomes: Mapping[str, Outcome]
    """By judge."""
    seconds: float
    """For planting and judging."""

    @property
    def is_right(self) -> bool:
        return all(outcome.is_right for outcome in self.outcomes.values())

    def as_json(self) -> dict[str, Any]:
        outcomes = {name: attrs.asdict(outcome) for name, outcome in self.outcomes.items()}
        return {**self.planted.as_json(), "outcomes": outcomes, "seconds": round(self.seconds, 2)}


def print_table(faults: Mapping[str, Sequence[str]], trials: Sequence[Trial], unplanted: Sequence[str]) -> None:
    """Print a line for each kind, what went wrong, and a sum.

    `unplanted` are the trials for which the run has no place.
    """
    judges = list(faults)
    for name, said in faults.items():
        print(f"run without violation, {name}: {'; '.join(said) or 'nothing reported'}")
    print(f"{'kind':20}" + "".join(f"{name:>8}" for name in judges) + f"{'named':>8}{'clean':>8}{'seconds':>9}")
    for kind, group in itertools.groupby(trials, key=lambda trial: trial.planted.kind.name):
        print(_line(kind, list(group), judges))
    wrong = [trial for trial in trials if not trial.is_right]
    for trial in wrong:
        for name, outcome in trial.outcomes.items():
            _print_faults(trial.planted, name, outcome)
    for one in unplanted:
        print(one)
    print(f"{len(trials) - len(wrong)} of {len(trials) + len(unplanted)} right")


def _line(kind: str, trials: Sequence[Trial], judges: Iterable[str]) -> str:
    found = "".join(f"{_found(trials, judge):>8}" for judge in judges)
    named = _share(trials, lambda trial: not any(one.missed or one.misnamed for one in trial.outcomes.values()))
    alone = _share(trials, lambda trial: not any(one.extra for one in trial.outcomes.values()))
    seconds = sum(trial.seconds for trial in trials)
    return f"{kind:20}{found}{named:>8}{alone:>8}{seconds:9.1f}"


def _found(trials: Sequence[Trial], judge: str) -> str:
    return _share(trials, lambda trial: not trial.outcomes[judge].missed)


def _share(trials: Sequence[Trial], is_good: Callable[[Trial], bool]) -> str:
    return f"{sum(map(is_good, trials))}/{len(trials)}"


def _print_faults(planted: Planted, judge: str, outcome: Outcome) -> None:
    where = f"{planted.kind.name} --seed {planted.seed} ({', '.join(planted.change.nodes)}), {judge}"
    for what, pieces in (
        ("missed", outcome.missed),
        ("named wrongly", outcome.misnamed),
        ("also reported", outcome.extra),
    ):
        if pieces:
            print(f"{where}: {what} {'; '.join(piece[:_SHOWN] for piece in pieces)}")
