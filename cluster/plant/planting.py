"""Plant a violation: copy a run, change the copy, list the reports it must cause."""

import shutil
from pathlib import Path

from rmqlab.cluster.plant.copying import copy_run
from rmqlab.cluster.plant.model import Kind, Planted, reports_of
from rmqlab.cluster.plant.runcopy import RunCopy


def plant(run: Path, kind: Kind, target: Path, *, seed: int = 1, at: str = "") -> Planted:
    """Make a copy of a run at `target`, with one violation in it.

    The run is not changed.

    `at` names the node to plant it at. NothingToPlantError where the run has no place for this kind: then no copy
    stays. FileExistsError where `target` exists, OSError.
    """
    copy_run(run, target)
    try:
        copy = RunCopy.open(target, kind.name, seed, at)
        change = kind.change(copy, kind.where(copy))
    except BaseException:
        shutil.rmtree(target)
        raise
    reports = reports_of(kind, change, copy.slaves_of(change.broker))
    return Planted(kind=kind, seed=seed, directory=str(target), change=change, reports=reports)
