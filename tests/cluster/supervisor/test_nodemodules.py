"""Which module a node runs, and what it imports."""

import subprocess
import sys

import pytest

from rmqlab.cluster.supervisor.fork.forklaunch import BROKER_MODULE, MEMBER_MODULE, NAMESERVER_MODULE, import_steps
from rmqlab.cluster.supervisor.fork.nodemodules import MODULES, module_of
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, ClusterSpec, Node, NodeKind, Placement, nodes_of, place


def nodes_in(mode: str) -> list[Node]:
    spec = ClusterSpec(name="x", mode=mode, slaves=2)
    return nodes_of(spec, place(spec, Placement(subnet=1)))


@pytest.mark.parametrize(("mode", "expected"), [("master-slave", BROKER_MODULE), (DLEDGER, MEMBER_MODULE)])
def test_only_members_of_groups_run_the_module_of_members(mode: str, expected: str) -> None:
    found = {node.kind: module_of(node, MODULES) for node in nodes_in(mode)}
    assert found == {NodeKind.NAMESERVER: NAMESERVER_MODULE, NodeKind.BROKER: expected}


def test_another_module_that_plays_brokers_is_used_for_members_as_well() -> None:
    assert {module_of(node, dict.fromkeys(NodeKind, "fake")) for node in nodes_in(DLEDGER)} == {"fake"}


def test_the_steps_of_a_broker_are_what_it_imports() -> None:
    """A step that no broker imports would delay brokers."""
    before_broker = import_steps([BROKER_MODULE])[: import_steps([BROKER_MODULE]).index(BROKER_MODULE)]
    assert before_broker
    assert {*before_broker} <= _imports_of(BROKER_MODULE)


def test_only_members_import_the_state_machine_of_dledger() -> None:
    assert "rmqlab.dledger.server" not in _imports_of(BROKER_MODULE)
    assert "rmqlab.dledger.server" in _imports_of(MEMBER_MODULE)


def _imports_of(module: str) -> set[str]:
    program = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {*done.stdout.split()}
