"""The directory of a run: everything that it was, for whoever looks at it later.

<home>/runs/<scenario>/<UTC time>/         mode 0700; `latest` beside it points to the last one
    scenario.toml                          as it was played
    run.json                               seed, rate, profile, version, the command that replays it, when it began and ended
    cluster.json  journal/  <node>/        the cluster's own (see rmqlab.cluster.supervisor.directory); stores are deleted in the end unless wanted
    verdict.json                           each expectation: its bound, what was found, and the evidence where it does not hold
    checks.json                            all that the quick checks found
    history.txt                            what happened, to be read
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

from rmqlab.cluster.supervisor.directory import ClusterDirectory, NoPlaceError, home
from rmqlab.runtime.clock import wall_millis

LATEST = "latest"


@attrs.frozen
class RunDirectory:
    """The paths of one run."""

    path: Path

    @classmethod
    def create(cls, scenario: str, root: Path | None = None) -> "RunDirectory":
        """Make a new one, and let `latest` point to it. NoPlaceError where that cannot be."""
        parent = (root or home() / "runs") / scenario
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall_millis() / 1000))
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in itertools.count(1):
                path = parent / (now if number == 1 else f"{now}-{number}")
                with contextlib.suppress(FileExistsError):
                    path.mkdir(mode=0o700)
                    break
            fresh = parent / f".{LATEST}-{os.getpid()}"
            fresh.symlink_to(path.name)
            fresh.replace(parent / LATEST)
        except OSError as exc:
            raise NoPlaceError(f"{parent} cannot be made: {exc.strerror} (see RMQLAB_HOME)") from None
        return cls(path)

    @property
    def cluster(self) -> ClusterDirectory:
        return ClusterDirectory(self.path.absolute(), is_lasting=False)

    def store(self, node: str) -> Path:
        """The root of a broker's store."""
        return self.path / node / "store"

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write `<name>.json`, whole or not at all."""
        fresh = self.path / f"{name}.json.new"
        fresh.write_text(json.dumps(document, indent=2, default=str) + "\n")
        fresh.replace(self.path / f"{name}.json")

    def write_text(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def prune_stores(self) -> None:
        """Delete the stores of all nodes; logs, settings and journals stay."""
        for store in self.path.glob("*/store"):
            shutil.rmtree(store)
