"""Plays a scenario under several seeds.

Prints a digest of each run's journals, one line for each.

python -m tests.cluster.simulation.journals DIRECTORY SCENARIO PROFILE FIRST_SEED LAST_SEED
"""

import functools
import hashlib
import sys
from pathlib import Path

from rmqlab.cluster.scenario.load import load_scenario
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.runtime.journals.journalfiles import journal_files


def digest(directory: Path) -> str:
    """Return a digest of all journals of a run, name and bytes."""
    found = hashlib.sha256()
    for path in journal_files(directory):
        found.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()


def play(scenario: Scenario, profile: str, seed: int, root: Path) -> str:
    """Return seed, verdict and digest."""
    directory = root / str(seed)
    directory.mkdir(parents=True)
    options = Options(profile=profile, seed=seed, keeps_stores=False)
    run = play_simulated(scenario, options, directory=RunDirectory(directory))
    return f"{seed} {run.verdict} {digest(directory / 'journal')}"


def main(root: str, path: str, profile: str, first: str, last: str) -> None:
    one = functools.partial(play, load_scenario(Path(path)), profile, root=Path(root))
    for seed in range(int(first), int(last) + 1):
        print(one(seed), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
