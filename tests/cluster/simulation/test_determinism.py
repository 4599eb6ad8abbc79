"""The same seed gives the same journals, byte for byte (issue 17)."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rmqlab.cluster.scenario.catalogue import catalogue_dir

ROOT = Path(__file__).parents[3]
RESTLESS = Path(__file__).with_name("restless.toml")
RETURNS = catalogue_dir() / "19-promote-and-old-master-returns.toml"


def start(
    directory: Path, path: Path, profile: str, seeds: tuple[int, int], **environment: str
) -> subprocess.Popen[str]:
    """Play a scenario in a process with this environment."""
    words = [os.fspath(directory), os.fspath(path), profile, *map(str, seeds)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.simulation.journals", *words],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), **environment},
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def play_twice(root: Path, path: Path, profile: str, seeds: tuple[int, int]) -> Sequence[Sequence[str]]:
    """Return the lines of two processes that have as little in common as possible."""
    processes = [
        start(root / "one", path, profile, seeds, PYTHONHASHSEED="1", TZ="UTC"),
        start(root / "another-directory", path, profile, seeds, PYTHONHASHSEED="22", TZ="Asia/Tokyo"),
    ]
    outputs = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return outputs


@pytest.mark.parametrize(
    ("path", "profile", "seeds"),
    [(RESTLESS, "4.9", (1, 2)), (RETURNS, "hardened", (1, 1))],
    ids=["restless", "returns"],
)
def test_a_seed_gives_the_same_journals(tmp_path: Path, path: Path, profile: str, seeds: tuple[int, int]) -> None:
    """Hash seed, time zone, directory and process differ."""
    one, other = play_twice(tmp_path, path, profile, seeds)
    assert one == other
    assert all(" holds " in line for line in one)
    assert len({line.split()[2] for line in one}) == seeds[1] - seeds[0] + 1, "each seed has its own course"


@pytest.mark.simulated
@pytest.mark.timeout(3600)
def test_200_seeds_give_the_same_journals(tmp_path: Path) -> None:
    one, other = play_twice(tmp_path, RESTLESS, "4.9", (1, 200))
    assert one == other
    assert len(one) == 200
    assert all(" holds " in line for line in one)
