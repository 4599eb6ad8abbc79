import signal

import attrs
import pytest

from rmqlab.cluster.supervisor.plan.process_state import NodeState, ProcessState, describe_end

ALIVE = ProcessState(is_alive=True, pid=7)
READY = attrs.evolve(ALIVE, ready={})
ASKED = attrs.evolve(READY, is_asked_to_stop=True)


@pytest.mark.parametrize(
    ("process", "state"),
    [
        (ProcessState(), NodeState.STOPPED),
        (ProcessState(is_alive=True), NodeState.STARTING),
        (ALIVE, NodeState.STARTING),
        (READY, NodeState.READY),
        (attrs.evolve(ALIVE, is_paused=True), NodeState.PAUSED),
        (attrs.evolve(READY, is_paused=True), NodeState.PAUSED),
        (ASKED, NodeState.STOPPING),
        (ASKED.ended(0), NodeState.STOPPED),
        (ASKED.ended(-signal.SIGTERM), NodeState.STOPPED),
        (ASKED.ended(1), NodeState.CRASHED),
        (ASKED.ended(-signal.SIGKILL), NodeState.KILLED),
        (READY.ended(0), NodeState.STOPPED),
        (READY.ended(-signal.SIGKILL), NodeState.KILLED),
        (READY.ended(-signal.SIGSEGV), NodeState.CRASHED),
        (READY.ended(-signal.SIGTERM), NodeState.CRASHED),
        (attrs.evolve(READY, is_paused=True).ended(-signal.SIGKILL), NodeState.KILLED),
        (attrs.evolve(READY.ended(-signal.SIGKILL), has_lost_power=True), NodeState.POWER_LOST),
    ],
)
def test_the_state_follows_from_the_facts(process: ProcessState, state: NodeState) -> None:
    assert process.state is state


@pytest.mark.parametrize(
    ("status", "text"),
    [(None, "never started"), (0, "exit status 0"), (3, "exit status 3"), (-9, "SIGKILL"), (-99, "signal 99")],
)
def test_an_exit_status_is_described_in_words(status: int | None, text: str) -> None:
    assert describe_end(status) == text
