"""Runs the tests on copies of the code with one fault each.

Run it: `make mutants`. All tests are run once without a fault: those that fail anyway would notice every fault. Prints
one line per survivor and a table at the end. Exit status 1 if a fault survives that is not marked as equivalent.
"""

import argparse
import concurrent.futures
import subprocess
import sys
import threading
import time
from collections import Counter

import attrs

from tests.mutants.faults import Fault, ListError, read_faults
from tests.mutants.workshop import ROOT, Workshop

PYTEST = ("-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider")
SECONDS = 240.0
"""Least time for the tests of one fault. One that makes them hang counts as noticed."""
TIMES = 4
"""With a fault, tests may take so many times as long as without one: the machine may be busy."""
MOST_SECONDS = 1800.0
"""For tests without a fault."""


@attrs.frozen
class Result:
    """What became of one fault."""

    fault: Fault
    outcome: str
    """`noticed`, `hung`, `survived`, `equivalent`."""
    seconds: float


def examine(workshop: Workshop, fault: Fault, usual: float) -> Result:
    """Run the tests of a fault with it in place.

    `usual` are the seconds that they take without it.
    """
    began = time.monotonic()
    with workshop.changed(fault):
        outcome = _outcome(workshop, fault, max(SECONDS, TIMES * usual))
    return Result(fault, outcome, time.monotonic() - began)


def _outcome(workshop: Workshop, fault: Fault, seconds: float) -> str:
    status, _ = workshop.run([*PYTEST, *fault.tests], seconds)
    if status is None:
        return "hung"
    if status == 0:
        return "equivalent" if fault.is_equivalent else "survived"
    return "noticed"


def main() -> int:
    parser = argparse.ArgumentParser(description="Put faults into the code, one at a time.")
    parser.add_argument("--changed", action="store_true", help="only in files that differ from the branch main")
    parser.add_argument("--only", default="", help="only faults whose file or list contains this")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    faults = [fault for fault in read_faults() if options.only in fault.file or options.only in fault.place]
    if options.changed:
        changed = _changed_files()
        faults = [fault for fault in faults if fault.file in changed]
    began = time.monotonic()
    results = _examine_all(faults, options.jobs)
    _print_table(results, time.monotonic() - began)
    return 1 if any(result.outcome == "survived" for result in results) else 0


def _changed_files() -> set[str]:
    listed = subprocess.run(
        ["git", "diff", "--name-only", "main"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return set(listed.stdout.split())


def _examine_all(faults: list[Fault], jobs: int) -> list[Result]:
    own = threading.local()
    made: list[Workshop] = []

    def workshop() -> Workshop:
        if not hasattr(own, "workshop"):
            own.workshop = Workshop()
            made.append(own.workshop)
        found: Workshop = own.workshop
        return found

    def duration(tests: tuple[str, ...]) -> float | None:
        """Return the seconds that tests take without a fault; None if they fail."""
        began = time.monotonic()
        status, _ = workshop().run([*PYTEST, *tests], MOST_SECONDS)
        return time.monotonic() - began if status == 0 else None

    def reported(fault: Fault) -> Result:
        result = examine(workshop(), fault, usual[fault.tests])
        if result.outcome == "survived":
            print(f"survived  {fault.place}  {fault.file}\n    - {fault.old}\n    + {fault.new}", flush=True)
        return result

    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            tests = list(dict.fromkeys(fault.tests for fault in faults))
            durations = dict(zip(tests, threads.map(duration, tests), strict=True))
            usual = {one: seconds for one, seconds in durations.items() if seconds is not None}
            if failing := [" ".join(one) for one in tests if one not in usual]:
                raise ListError(
                    f"tests that fail, or exceed {MOST_SECONDS:g} s, without a fault notice nothing:"
                    f" {'; '.join(failing)}"
                )
            return list(threads.map(reported, faults))
    finally:
        for one in made:
            one.remove()


def _print_table(results: list[Result], seconds: float) -> None:
    areas = sorted({result.fault.place.partition(".")[0] for result in results})
    outcomes = ("noticed", "hung", "equivalent", "survived")
    print(f"{'area':14}" + "".join(f"{outcome:>12}" for outcome in outcomes))
    for area in [*areas, ""]:
        of_area = [result for result in results if result.fault.place.startswith(f"{area}." if area else "")]
        counts = Counter(result.outcome for result in of_area)
        print(f"{area or 'all':14}" + "".join(f"{counts[outcome]:12}" for outcome in outcomes))
    print(f"{len(results)} faults in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
