"""A rehearsal changes neither the process of a hunt nor what it forks."""

import hashlib
import logging
import os
import random
from pathlib import Path

from rmqlab.cluster.hunt.case import draw_case
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import kinds_for
from rmqlab.cluster.hunt.trial import bind_case, claims_for
from rmqlab.cluster.hunt.warmup import warm_up
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.runtime import stopwatch
from rmqlab.runtime.journals.journalfiles import journal_files
from rmqlab.simulation.child import run_in_child
from rmqlab.store.files.machine import this_machine


def course(directory: Path, seed: int) -> str:
    """Return a digest of the journals of a short case."""
    case = draw_case(seed, "hardened", kinds_for("hardened"), is_short=True)
    scenario = bind_case(case, claims_for(case, CLAIMS))
    directory.mkdir()
    play_simulated(scenario, Options(profile="hardened", seed=seed), directory=RunDirectory(directory))
    found = hashlib.sha256()
    for path in journal_files(directory / "journal"):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def test_the_course_does_not_depend_on_the_rehearsal(tmp_path: Path) -> None:
    def courses(name: str) -> list[str]:
        return [course(tmp_path / f"{name}-{seed}", seed) for seed in (1, 2)]

    def rehearsed() -> list[str]:
        warm_up()
        return courses("rehearsed")

    assert run_in_child(rehearsed) == courses("first")


def test_the_process_is_as_before() -> None:
    def facts() -> tuple[object, ...]:
        root = logging.getLogger()
        clocks = stopwatch.wall, stopwatch.cpu
        return list(root.handlers), root.level, random.getstate(), clocks, this_machine(), os.environ.get("TZ")

    def changes() -> bool:
        before = facts()
        warm_up()
        return facts() != before

    assert not run_in_child(changes)
