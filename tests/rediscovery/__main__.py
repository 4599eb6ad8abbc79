"""Hunts in the 4.9 profile, and counts the flaws that it names.

Run it: `make rediscovery`. The hunt is that of `rmqlab hunt --profile 4.9 --minutes 15 --jobs 2`: it gets the claims
and all kinds of faults. A flaw is named when a switch of docs/switches.md fixes what was found, and none that is on
fixes it already. It ends after the processor time that two cores have in 15 minutes, so a busy machine finds as much as
an idle one.

Prints a row for each failure, as docs/hunt.md has them. Exit status 1 if fewer than LEAST flaws are named by failures
of at most MOST_STEPS steps.
"""

import argparse
import resource
import sys

from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import kinds_for
from rmqlab.cluster.hunt.hunt import Failure, Hunt, HuntBudget, Progress

LEAST = 10
MOST_STEPS = 6
MINUTES = 15.0
CORES = 2
PROFILE = "4.9"


class OverError(Exception):
    """The hunt has used its processor time."""


def processor_seconds() -> float:
    """Return the processor time that this process and its ended children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def steps_of(failure: Failure) -> int:
    """Return how many steps the faults of a failure have.

    Each has its begin, and its end unless it is over at once or stays in force.
    """
    in_force = failure.case.in_force_at_end()
    return sum(2 if fault.is_timed and fault not in in_force else 1 for fault in failure.case.faults)


def row(failure: Failure) -> str:
    """Return the row of the table."""
    switch = f"`{failure.fixed_by[0]}`" if failure.fixed_by else "no switch alone"
    faults = ", ".join(map(str, failure.case.faults))
    return f"| {switch} | `{failure.claim}` | {failure.case.seed} | {processor_seconds() / CORES:.0f} | {steps_of(failure)} | {faults} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Hunt for the flaws of 4.9.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of two cores")
    parser.add_argument("--jobs", type=int, default=CORES)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    most, progress, named = options.minutes * 60 * CORES, Progress(), dict[str, int]()
    budget = HuntBudget(seeds=None, first_seed=options.first_seed, jobs=options.jobs)
    hunt = Hunt(claims=tuple(CLAIMS), kinds=kinds_for(PROFILE), profile=PROFILE, budget=budget)

    def check() -> None:
        if processor_seconds() > most:
            raise OverError

    print("| fixed by | claim | seed | seconds | steps | faults |\n|---|---|---|---|---|---|", flush=True)
    try:
        for failure in hunt.run(progress, check):
            print(row(failure), flush=True)
            if failure.fixed_by:
                named.setdefault(failure.fixed_by[0], steps_of(failure))
    except OverError:
        pass
    short = [switch for switch, steps in named.items() if steps <= MOST_STEPS]
    print(
        f"{len(named)} flaws named, {len(short)} of them in at most {MOST_STEPS} steps;"
        f" {progress.seeds} schedules, {processor_seconds():.0f} s of processor time"
    )
    print(f"problems: {progress.problems}" if progress.problems else "every schedule could be played")
    return 0 if len(short) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
