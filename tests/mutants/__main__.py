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
"""For the tests of one fault. One that makes them hang counts as noticed."""


@attrs.frozen
class Result:
    """What became of one fault."""

    fault: Fault
    outcome: str
    """`noticed`, `hung`, `survived`, `equivalent`."""
    seconds: float


def _examine(workshop: Workshop, fault: Fault) -> Result:
    """Run the tests of a fault with it in place."""
    began = time.monotonic()
    with workshop.changed(fault):
        outcome = _outcome(workshop, fault)
    return Result(fault, outcome, time.monotonic() - began)


def _outcome(workshop: Workshop, fault: Fault) -> str:
    status, _ = workshop.run([*PYTEST, *fault.tests], SECONDS)
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

    def passes(tests: tuple[str, ...]) -> bool:
        return workshop().run([*PYTEST, *tests], SECONDS)[0] == 0

    def examine(fault: Fault) -> Result:
        result = _examine(workshop(), fault)
        if result.outcome == "survived":
            print(f"survived  {fault.place}  {fault.file}\n    - {fault.old}\n    + {fault.new}", flush=True)
        return result

    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            tests = list(dict.fromkeys(fault.tests for fault in faults))
            failing = [
                " ".join(one) for one, is_passed in zip(tests, threads.map(passes, tests), strict=True) if not is_passed
            ]
            if failing:
                raise ListError(
                    f"tests that fail, or exceed {SECONDS:g} s, without a fault notice nothing: {'; '.join(failing)}"
                )
            return list(threads.map(examine, faults))
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
