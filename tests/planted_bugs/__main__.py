"""Hunts for bugs that were planted in copies of the code, one at a time.

Run it: `make planted-bugs`. `bugs.txt` has the bugs, in the form of `tests/mutants`, with the claim that each is
expected to break. A hunt is told none of this: it draws the same cases from all kinds of faults, under the hardened
profile, and judges all claims. What breaks without a bug counts for none.

Prints a line for each bug, with the processor time of its hunt, the seed and the claims that broke. Exit status 1 if
fewer than LEAST are found.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tests.mutants.faults import Fault, read_faults
from tests.mutants.workshop import Workshop
from tests.planted_bugs.search import search

LEAST = 17
"""Of 20, as issue 17 demands."""
SECONDS = 1800.0
"""Real seconds for the hunt of one bug. An idle machine needs a minute at most; a busy one may find as much."""


def bugs() -> list[Fault]:
    """Return the planted bugs."""
    return read_faults(Path(__file__).parent)


def main() -> int:
    parser = argparse.ArgumentParser(description="Hunt for planted bugs.")
    parser.add_argument("--seeds", type=int, default=60, help="cases for each bug")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only bugs whose file or place contains this")
    options = parser.parse_args()
    known = search(options.seeds, options.jobs, None)
    print(f"without a bug, {options.seeds} seeds break {known or 'nothing'}", flush=True)
    tried = [bug for bug in bugs() if options.only in bug.file or options.only in bug.place]
    workshop = Workshop()
    try:
        found = sum(_is_found(workshop, bug, options.seeds, options.jobs, json.dumps(known)) for bug in tried)
    finally:
        workshop.remove()
    print(f"{found} of {len(tried)} bugs found")
    return 0 if found >= min(LEAST, len(tried)) else 1


def _is_found(workshop: Workshop, bug: Fault, seeds: int, jobs: int, known: str) -> bool:
    began = _processor_seconds()
    with workshop.changed(bug):
        status, output = workshop.run(["-m", "tests.planted_bugs.search", str(seeds), str(jobs), known], SECONDS)
    broken: dict[str, list[str]] = json.loads(output) if status == 0 else {}
    seed, claims = next(iter(broken.items()), ("", []))
    result = f"seed {seed}: {', '.join(claims)}" if broken else "NOT FOUND" if status == 0 else f"exit status {status}"
    print(f"{bug.place:14} {_processor_seconds() - began:5.0f} s  {result}\n    {bug.file}: {bug.comment}", flush=True)
    return bool(broken)


def _processor_seconds() -> float:
    """Return the processor time of all children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
