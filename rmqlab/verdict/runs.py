"""Find a run by a user's name for it: a directory, a cluster, or a scenario.

No I/O except listing directories.

    <home>/<cluster>/journal/                        home is ~/.rmqlab, or $RMQLAB_HOME
    <home>/runs/<scenario>/<UTC time>/journal/       the newest is used
"""

import os
from collections.abc import Iterator
from pathlib import Path

from rmqlab.runtime.homedir import home_directory
from rmqlab.runtime.text.nearmiss import near_miss
from rmqlab.verdict.runrecord import RECORD

_RUNS = "runs"
_TIMES = "[0-9]*T[0-9]*Z*"
"""Pattern for the directories of a scenario's runs: 20261121T214413Z."""


class NoRunError(Exception):
    """The run does not exist.

    The text says where it was searched, and lists the existing runs.
    """


class NoHomeError(Exception):
    """There is no directory for clusters and runs. The text says what to set."""


def home() -> Path:
    """Return the directory of clusters and runs.

    NoHomeError for a user without a home directory, as in containers that run as any user id.
    """
    if given := os.environ.get("RMQLAB_HOME"):
        return Path(given)
    if (of_user := home_directory()) is None:
        raise NoHomeError("this user has no home directory: set RMQLAB_HOME to a directory for clusters")
    return of_user / ".rmqlab"


def find_run(name: str, below: Path) -> Path:
    """Return the resolved directory that contains the run's journals.

    Raises NoRunError.
    """
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # such as ~unknown_user
        raise NoRunError(f"{name}: no user of this machine has such a home directory") from None
    if _is_run(path):
        return path.resolve()
    if "/" in name or name.startswith((".", "~")):
        return _by_path(path)
    cluster, scenario = below / name, newest_run(below / _RUNS / name)
    if _is_run(cluster) and scenario is not None:
        raise NoRunError(f"{name} is a cluster and a scenario; give the path of one of them: {cluster} or {scenario}")
    if _is_run(cluster):
        return cluster.resolve()
    if scenario is not None:
        return scenario.resolve()
    if (cluster / RECORD).is_file():  # a cluster whose journals were removed
        return _by_path(cluster)
    known = run_names(below)
    there = f"; there are: {', '.join(known)}" if known else ": nothing was run yet"
    here = f", and {name} in this directory is no run" if os.path.lexists(path) else ""
    raise NoRunError(
        f"no cluster and no scenario that was run is called {name}{near_miss(name, known)} (looked in {below}{there}){here}"
    )


def run_names(below: Path) -> list[str]:
    """Return the names of clusters with journals, then of scenarios that were run."""
    return list(dict.fromkeys([*_clusters(below), *_scenarios(below)]))


def newest_run(scenario: Path) -> Path | None:
    """Return the last run with journals in a scenario's directory, or None."""
    return max((path for path in scenario.glob(_TIMES) if _is_run(path)), default=None)


def name_of(run: Path) -> str:
    """Return the name of a run's directory.

    A scenario's run is named after the scenario: its directory contains only the time.
    """
    return run.parent.name if run.match(_TIMES) else run.name


def _by_path(path: Path) -> Path:
    if not path.is_dir():
        if os.path.lexists(path):
            raise NoRunError(f"{path} is not a directory: expected a run's, with journal/<node>.msgpack below it")
        near = near_miss(path.name, [child.name for child in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise NoRunError(f"there is no directory {path}{near}")
    if path.name == "journal" and any(path.glob("*.msgpack")):
        return path.resolve().parent
    if (newest := newest_run(path)) is not None:
        return newest.resolve()
    raise NoRunError(f"{path} is no run: expected journal/<node>.msgpack below it")


def _is_run(path: Path) -> bool:
    return (path / "journal").is_dir()


def _clusters(below: Path) -> Iterator[str]:
    return (path.name for path in sorted(below.glob("*")) if _is_run(path))


def _scenarios(below: Path) -> Iterator[str]:
    return (path.name for path in sorted((below / _RUNS).glob("*")) if newest_run(path) is not None)
