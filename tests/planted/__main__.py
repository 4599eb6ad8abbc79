"""Plants each kind of violation at several places, and checks the judges' reports.

Run it: `make planted`. The run is a recorded one. Exit status 0 if both judges find everything, name the right messages
and report nothing else.
"""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.model import Kind, NothingToPlantError, Planted
from rmqlab.cluster.plant.planting import plant
from tests.planted.compare import Outcome, compare, faults_of
from tests.planted.judges import Judge, Judged, auditor, check
from tests.planted.record import main as record
from tests.planted.table import Trial, print_table

MISPLACED_RECORDS = 3


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmqlab-planted-")))
        run = options.run or work / "run"
        if options.run is None:
            record(run)
        judges: dict[str, Judge] = {"check": check}
        if not options.check_only:
            judges["audit"] = stack.enter_context(_audit())
        return _play(run, work, [KINDS[name] for name in options.kinds], options.places, judges, as_json=options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--check-only", action="store_true", help="leave out the audit on Spark")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument(
        "--places", type=int, default=MISPLACED_RECORDS, help="places for each kind, seeds 1 to MISPLACED_RECORDS"
    )
    parser.add_argument("--run", type=Path, help="a run's directory, to use instead of recording one")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    return parser.parse_args()


@contextlib.contextmanager
def _audit() -> Iterator[Judge]:
    from rmqlab.pipeline.session import open_session

    with open_session("local[2]") as session:
        yield auditor(session)


def _play(
    run: Path, work: Path, kinds: Sequence[Kind], places: int, judges: Mapping[str, Judge], *, as_json: bool
) -> int:
    cleared = work / "clean"
    shutil.copytree(run, cleared)  # the audit writes into the directory that it reads
    clean = {name: judge(cleared) for name, judge in judges.items()}
    faults = {name: faults_of(judged) for name, judged in clean.items()}
    trials, unplanted = [], []
    for kind in kinds:
        for seed in range(1, places + 1):
            try:
                trials.append(_try(run, work / "planted", kind, seed, judges, clean))
            except NothingToPlantError as exc:
                unplanted.append(f"{kind.name} --seed {seed}: {exc}")
            if not as_json:
                print(".", end="", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps({"clean": faults, "trials": [trial.as_json() for trial in trials], "unplanted": unplanted}))
    else:
        print(file=sys.stderr)
        print_table(faults, trials, unplanted)
    is_right = all(trial.is_right for trial in trials)
    return 1 if any(faults.values()) or unplanted or not is_right else 0


def _try(
    run: Path, target: Path, kind: Kind, seed: int, judges: Mapping[str, Judge], clean: Mapping[str, Judged]
) -> Trial:
    began = time.perf_counter()
    planted = plant(run, kind, target, seed=seed)
    try:
        outcomes = {name: _outcome(planted, judge, clean[name]) for name, judge in judges.items()}
    finally:
        shutil.rmtree(target)
    return Trial(planted=planted, outcomes=outcomes, seconds=time.perf_counter() - began)


def _outcome(planted: Planted, judge: Judge, clean: Judged) -> Outcome:
    return compare(planted, judge(Path(planted.directory)), clean)


if __name__ == "__main__":
    sys.exit(main())
