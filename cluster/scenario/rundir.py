"""The directory of a run: everything about it, for later inspection.

<home>/runs/<scenario>/<UTC time>/         mode 0700; `latest` beside it links to the last one
    scenario.toml                          as it was played
    run.json                               seed, rate, profile, version, replay command, times of begin and end
    cluster.json  journal/  <node>/        as in rmqlab.cluster.supervisor.files.directory; stores are deleted unless wanted
    verdict.json                           each expectation: bound, finding, and the evidence if it does not hold
    checks.json                            all findings of the quick checks
    history.txt                            the events as readable lines
"""

import contextlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, SetupError, check_path
from rmqlab.runtime.clock import wall_millis
from rmqlab.verdict.runs import home

LATEST = "latest"


def create_folder(path: Path) -> None:
    """Create a directory for runs, with its parents. SetupError if that fails."""
    check_path(path)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise SetupError(f"{path} cannot be created: {exc.strerror} (see RMQLAB_HOME)") from None


@attrs.frozen
class RunDirectory:
    """The paths of one run."""

    path: Path

    @classmethod
    def create(cls, scenario: str, root: Path | None = None) -> "RunDirectory":
        """Create a directory and point `latest` to it. SetupError if that fails."""
        parent = (root or home() / "runs") / scenario
        create_folder(parent)
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall_millis() / 1000))
        try:
            for number in itertools.count(1):
                path = parent / (now if number == 1 else f"{now}-{number}")
                with contextlib.suppress(FileExistsError):
                    path.mkdir(mode=0o700)
                    break
            fresh = parent / f".{LATEST}-{os.getpid()}"
            fresh.symlink_to(path.name)
            fresh.replace(parent / LATEST)
        except OSError as exc:
            raise SetupError(f"{parent} cannot be created: {exc.strerror} (see RMQLAB_HOME)") from None
        return cls(path)

    @property
    def cluster(self) -> ClusterDirectory:
        return ClusterDirectory(self.path.absolute(), is_lasting=False)

    def store(self, node: str) -> Path:
        """Return the root of a broker's store."""
        return self.path / node / "store"

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write `<name>.json` atomically."""
        fresh = self.path / f"{name}.json.new"
        fresh.write_text(json.dumps(document, indent=2, default=str) + "\n")
        fresh.replace(self.path / f"{name}.json")

    def write_text(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def prune_stores(self) -> None:
        """Delete the stores of all nodes; logs, settings and journals stay."""
        for store in self.path.glob("*/store"):
            shutil.rmtree(store)
