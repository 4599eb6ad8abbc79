"""The table of actions: one entry per action, and typed methods made from it."""

import inspect
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import assert_type

import pytest

from rmqlab.cluster.actions.action import AsyncMethod, BlockingMethod, Liveness, NodeAction, liveness_of
from rmqlab.cluster.actions.table import ACTIONS, NodeActions
from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.store.offline.powerloss import Lost


@pytest.mark.timeout(300)
def test_a_new_action_is_one_entry(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.cluster.actions.one_entry"]
    environment = {**os.environ, "RMQLAB_HOME": str(tmp_path)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def check_types(cluster: Cluster, blocking: BlockingCluster) -> None:
    """Never called: mypy holds the types that users of the two APIs see."""
    assert_type(cluster.kill, AsyncMethod[None])
    assert_type(cluster.power_loss, AsyncMethod[Mapping[str, Lost]])
    assert_type(cluster.isolate, AsyncMethod[ActiveFault])
    assert_type(blocking.kill, BlockingMethod[None])
    assert_type(blocking.wipe("broker-a"), Mapping[str, int])
    assert_type(blocking.isolate(target="broker-a"), ActiveFault)
    assert_type(blocking.isolate("broker-a:*", "broker-b-s"), ActiveFault)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=str)
def test_an_entry_is_whole(action: NodeAction[object]) -> None:
    assert getattr(NodeActions, action.method) is action
    assert action.help[0].isupper()
    assert action.doing.split()[0].endswith("ing")
    assert (action.leaves is Liveness.ENDED) == bool(action.ended_as)
    assert action.undo is None or hasattr(Cluster, action.undo)


ASYNC_ONLY = {"events", "follow_journal", "journal_reader"}
"""Of `Cluster`: iterators that a program without an event loop cannot use."""


def members_of(cls: type) -> dict[str, list[str] | None]:
    """The parameters of each public method; None for a property."""
    return {
        name: None if isinstance(member, property) else [*map(str, inspect.signature(member).parameters.values())]
        for name, member in vars(cls).items()
        if not name.startswith("_") and isinstance(member, FunctionType | property)
    }


def test_the_blocking_api_has_all_of_the_async_one_with_the_same_parameters() -> None:
    wanted = {name: member for name, member in members_of(Cluster).items() if name not in ASYNC_ONLY}
    blocking = members_of(BlockingCluster)
    assert {name: blocking.get(name) for name in wanted} == wanted


def test_no_class_has_an_action_of_its_own() -> None:
    for cls in (Cluster, BlockingCluster):
        takes_target = [
            name
            for name, member in vars(cls).items()
            if inspect.isfunction(member) and [*inspect.signature(member).parameters][1:] == ["target"]
        ]
        assert takes_target == []


def test_actions_with_one_key_make_sense_at_different_times() -> None:
    for action in ACTIONS.values():
        for other in ACTIONS.values():
            if action is not other and action.key is not None and action.key == other.key:
                is_by_role = action.sets_role is not None and action.sets_role != other.sets_role
                assert is_by_role or not {*action.needs} & {*other.needs}
    assert not {action.key for action in ACTIONS.values()} & {"h", "q", *"123456789"}


@pytest.mark.parametrize("state", NodeState)
def test_the_liveness_of_a_state(state: NodeState) -> None:
    running = {NodeState.STARTING, NodeState.READY, NodeState.STOPPING}
    expected = Liveness.PAUSED if state is NodeState.PAUSED else Liveness.ENDED
    assert liveness_of(state) is (Liveness.RUNNING if state in running else expected)
