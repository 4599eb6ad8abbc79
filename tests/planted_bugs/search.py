"""Plays hunted cases in this tree, until one breaks a claim that it should keep.

Prints the case and the claims as JSON, or the first seeds that broke something, for all seeds.

python -m tests.planted_bugs.search SEEDS JOBS [KNOWN]

KNOWN has, as JSON, the claims that break without a bug, by seed: with it, the search ends at the first other one.
"""

import contextlib
import functools
import json
import sys
from collections.abc import Collection, Mapping

from rmqlab.cluster.hunt.case import draw_case
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import kinds_for
from rmqlab.cluster.hunt.trial import MOST_CPU_SECONDS, scratch, timed_out, try_case
from rmqlab.cluster.hunt.warmup import warm_up
from rmqlab.simulation.child import run_in_children

PROFILE = "hardened"


def search(seeds: int, jobs: int, known: Mapping[str, Collection[str]] | None) -> dict[str, list[str]]:
    """Return broken claims by seed; those of one seed if `known` is given."""
    cases = [draw_case(seed, PROFILE, kinds_for(PROFILE)) for seed in range(1, seeds + 1)]
    plays = (functools.partial(try_case, case, tuple(CLAIMS)) for case in cases)
    found: dict[str, list[str]] = {}
    warm_up()
    late = functools.partial(timed_out, CLAIMS)
    with (
        scratch(),
        contextlib.closing(run_in_children(plays, jobs, cpu_seconds=MOST_CPU_SECONDS, overtime=late)) as trials,
    ):
        for number, trial in trials:
            seed = str(cases[number].seed)
            broken = [claim for claim in trial.broken if claim not in (known or {}).get(seed, ())]
            if broken:
                found[seed] = broken
                if known is not None:
                    break
    return found


if __name__ == "__main__":
    known = json.loads(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps(search(int(sys.argv[1]), int(sys.argv[2]), known)))
