import os
import pathlib
from pathlib import Path
from typing import Any, cast

import pytest

from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, nodes_of, place
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.clock import ClockSettings, RatedClock


@pytest.fixture(autouse=True)
def _fake_node_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes find the module `fakenode` beside these tests."""
    here = os.fspath(pathlib.Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))))


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """The directory of a cluster, not created yet."""
    return tmp_path / "lab"


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    """A supervisor of nothing: one broker is said to live, and nothing is started."""
    clock = RatedClock(ClockSettings.starting_now(1.0))
    directory = ClusterDirectory.at(tmp_path)
    spec = ClusterSpec(name="x")
    placement = place(spec, Placement(subnet=9))
    nodes = {node.name: node for node in nodes_of(spec, placement)}
    made = Supervisor(spec, placement, directory, clock, cast("Any", None), nodes, EventLog())
    made.processes.states["broker-a"] = ProcessState(is_alive=True, pid=1)
    return made
