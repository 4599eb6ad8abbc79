"""How long a node is waited for, in virtual time."""

import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.scenario.actions import VERBS
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.files import nodestore
from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.forkserver import Exited, Report, Spawned
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.processes import SNAPSHOT_SECONDS, Processes
from rmqlab.cluster.supervisor.supervisor import STARTING_AT_ONCE, Supervisor
from rmqlab.faults import DiskFull, Isolation
from rmqlab.runtime.node.controlmessages import CONTROL, Event, Hello, Ready, Snapshot


@pytest.mark.parametrize("moves", ["offset", "queues"])
async def test_a_recovering_broker_is_awaited_while_it_makes_progress(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, moves: str
) -> None:
    """Through a long log, or through many queues (issue 12.12)."""
    del autojump_clock

    async def recover() -> None:
        for step in range(1, 6):
            await trio.sleep(20)
            event = Event(0, "recovering", {"offset": 0, "queues": 0} | {moves: step})
            supervisor.processes._event("broker-a", event)
        await trio.sleep(20)
        supervisor.processes._ready("broker-a", Ready({}))

    nursery.start_soon(recover)
    await supervisor.wait_ready("broker-a", 30)
    assert trio.current_time() >= 120


async def test_one_that_stops_with_a_long_log_to_index_is_not_killed_meanwhile(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock

    async def close() -> None:
        for offset in range(1, 6):
            await trio.sleep(8)
            supervisor.processes._event("broker-a", Event(0, "indexing", {"offset": offset}))
        await trio.sleep(8)
        supervisor.processes.states["broker-a"] = supervisor.process_state("broker-a").ended(0)
        supervisor.events.pulse()

    async def signalled(_pid: int, number: signal.Signals) -> None:
        await trio.lowlevel.checkpoint()
        assert number is signal.SIGTERM
        nursery.start_soon(close)

    monkeypatch.setattr(supervisor, "forks", SimpleNamespace(signal=signalled, check_runs=lambda: None))
    await supervisor.stop("broker-a")
    assert supervisor.process_state("broker-a").state == "stopped"


@pytest.mark.parametrize("deed", ["kill", "stop", "stop_all"])
async def test_messages_of_an_ended_process_are_read_before_its_end_is_reported(
    supervisor: Supervisor,
    autojump_clock: MockClock,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    deed: str,
) -> None:
    """The end of the process is known at once; its last messages arrive later."""
    del autojump_clock
    ours, its = memory_stream_pair()

    async def spawned(request: SpawnRequest) -> None:
        await trio.lowlevel.checkpoint()
        supervisor.processes._changed(request.id, Spawned(request.id, 1))

    async def signalled(pid: int, number: signal.Signals) -> None:
        await trio.lowlevel.checkpoint()
        supervisor.processes._changed(0, Exited(pid, -number))
        nursery.start_soon(last_words)

    async def last_words() -> None:
        await trio.sleep(1)
        await its.send_all(CONTROL.encode(Event(0, "ha_disconnected", {})))
        await its.aclose()

    monkeypatch.setattr(supervisor, "forks", SimpleNamespace(spawn=spawned, signal=signalled, check_runs=lambda: None))
    supervisor.processes.states.clear()  # it does not run yet
    await supervisor.spawn("broker-a")
    nursery.start_soon(supervisor.processes._attend_node, cast("Any", ours))
    await its.send_all(CONTROL.encode(Hello("broker-a", 1)))
    await wait_all_tasks_blocked()
    await (supervisor.stop_all() if deed == "stop_all" else getattr(supervisor, deed)("broker-a"))
    end = "node_killed" if deed == "kill" else "node_stopped"
    assert [event.kind for event in supervisor.events][-2:] == ["ha_disconnected", end]


async def test_a_broker_whose_recovery_stalls_fails_the_wait(supervisor: Supervisor, autojump_clock: MockClock) -> None:
    del autojump_clock
    supervisor.processes._event("broker-a", Event(0, "recovering", {"offset": 7}))
    with pytest.raises(NodeFailedError, match="broker-a is not ready after 30 s"):
        await supervisor.wait_ready("broker-a", 30)
    assert trio.current_time() == 60


async def test_a_broker_that_is_started_again_while_it_recovers_is_waited_for_once_more(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Another command does so: its progress begins anew. That was a KeyError."""
    del autojump_clock

    async def start_again() -> None:
        await trio.sleep(40)
        supervisor.processes.expect("broker-a", 1)

    supervisor.processes._event("broker-a", Event(0, "recovering", {"offset": 7}))
    nursery.start_soon(start_again)
    with pytest.raises(NodeFailedError, match="broker-a is not ready after 30 s"):
        await supervisor.wait_ready("broker-a", 30)
    assert trio.current_time() == 90


async def test_of_many_nodes_only_some_start_at_once(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock
    starting, most, started = set[str](), 0, list[str]()

    async def become_ready(name: str) -> None:
        await trio.sleep(1 + len(name) % 3)
        starting.discard(name)
        supervisor.processes._ready(name, Ready({}))

    async def spawned(request: SpawnRequest) -> None:
        nonlocal most
        await trio.lowlevel.checkpoint()
        starting.add(request.name)
        started.append(request.name)
        most = max(most, len(starting))
        supervisor.processes._changed(request.id, Spawned(request.id, 1000 + request.id))
        nursery.start_soon(become_ready, request.name)

    async def at_once(fn: Callable[..., object], *args: object) -> object:
        return fn(*args)  # the clock jumps while a thread works

    monkeypatch.setattr(supervisor, "forks", SimpleNamespace(spawn=spawned))
    monkeypatch.setattr("rmqlab.cluster.supervisor.supervisor.in_thread", at_once)
    names = [f"produce-{'x' * (number % 5)}{number}" for number in range(3 * STARTING_AT_ONCE)]
    for name in names:
        supervisor.add_workload(name, "rmqlab.cluster.workload.produce")
    await supervisor.start(*names)
    assert started == names
    assert most == STARTING_AT_ONCE
    assert all(supervisor.process_state(name).ready is not None for name in names)


async def test_the_faults_that_may_be_why_are_named(supervisor: Supervisor, autojump_clock: MockClock) -> None:
    del autojump_clock
    await supervisor.faults.apply(DiskFull(target="broker-a-s"))
    await supervisor.faults.apply(Isolation(target="broker-a"))
    message = r"not ready after 30 s, with f2 \(isolate broker-a\) in force$"
    with pytest.raises(NodeFailedError, match=message):
        await supervisor.wait_ready("broker-a", 30)


@pytest.fixture
def produce(supervisor: Supervisor) -> str:
    """A workload process that has been born, and has said nothing so far."""
    name = supervisor.add_workload("produce-1", "rmqlab.cluster.workload.produce").name
    supervisor.processes.expect(name, 0)
    supervisor.processes._changed(0, Spawned(0, 7))
    return name


@pytest.mark.parametrize("status", [0, 1])
async def test_a_workload_that_ends_before_its_readiness_is_noticed_has_started(
    supervisor: Supervisor, nursery: trio.Nursery, produce: str, status: int
) -> None:
    """Both reports arrive before the waiting task runs again.

    How it ended is the caller's to judge.
    """
    nursery.start_soon(supervisor.wait_ready, produce)
    await wait_all_tasks_blocked()
    supervisor.processes._ready(produce, Ready({}))
    supervisor.processes._changed(0, Exited(7, status))


async def test_a_workload_whose_end_is_reported_before_its_first_words_has_started(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, produce: str
) -> None:
    del autojump_clock
    ours, its = memory_stream_pair()
    supervisor.processes._changed(0, Exited(7, 0))
    await supervisor.wait_ready(produce)
    nursery.start_soon(supervisor.processes._attend_node, cast("Any", ours))
    await its.send_all(CONTROL.encode(Hello(produce, 7)) + CONTROL.encode(Ready({})))
    await its.aclose()
    await wait_all_tasks_blocked()
    kinds = [event.kind for event in supervisor.events if event.node == produce]
    assert kinds == ["node_spawned", "node_stopped", "node_ready"], "what it said is heard, though it is gone"


async def test_the_last_words_of_a_workload_say_that_it_was_ready(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, produce: str
) -> None:
    del autojump_clock
    ours, its = memory_stream_pair()
    nursery.start_soon(supervisor.processes._attend_node, cast("Any", ours))
    await its.send_all(CONTROL.encode(Hello(produce, 7)))
    await wait_all_tasks_blocked()
    supervisor.processes._changed(0, Exited(7, 1))
    nursery.start_soon(supervisor.wait_ready, produce)
    await wait_all_tasks_blocked()
    await its.send_all(CONTROL.encode(Ready({})))
    await its.aclose()


async def test_a_workload_that_fails_before_it_is_ready_has_not_started(supervisor: Supervisor, produce: str) -> None:
    supervisor.processes._changed(0, Exited(7, 1))
    with pytest.raises(NodeFailedError, match="produce-1 ended with exit status 1"):
        await supervisor.wait_ready(produce)


async def test_a_broker_that_was_ready_and_ended_by_itself_has_failed(supervisor: Supervisor) -> None:
    supervisor.processes.expect("broker-a", 0)
    supervisor.processes._changed(0, Spawned(0, 7))
    supervisor.processes._ready("broker-a", Ready({}))
    supervisor.processes._changed(0, Exited(7, 0))
    with pytest.raises(NodeFailedError, match="broker-a ended with exit status 0"):
        await supervisor.wait_ready("broker-a")


async def test_a_report_that_fails_does_not_affect_later_ones(supervisor: Supervisor, produce: str) -> None:
    """The second one is about a process that was forgotten."""
    reports: list[tuple[int, Report]] = [(0, Spawned(0, 7)), (1, Spawned(1, 8)), (0, Exited(7, 0))]

    async def attend(changed: Callable[[int, Report], object]) -> None:
        await trio.lowlevel.checkpoint()
        for request_id, report in reports:
            changed(request_id, report)

    supervisor.processes.expect("broker-a-s", 1)
    del supervisor.processes.states["broker-a-s"]
    await supervisor.processes.attend_forks(cast("Any", SimpleNamespace(attend=attend)))
    assert not supervisor.process_state(produce).is_alive
    assert supervisor.processes.errors.counts == {"report of the fork server": 1}


async def test_a_foreign_process_with_the_name_of_an_ended_one_is_rejected(
    supervisor: Supervisor, nursery: trio.Nursery, produce: str
) -> None:
    ours, its = memory_stream_pair()
    supervisor.processes._changed(0, Exited(7, 0))
    nursery.start_soon(supervisor.processes._attend_node, cast("Any", ours))
    await its.send_all(CONTROL.encode(Hello(produce, 8)) + CONTROL.encode(Ready({})))
    await wait_all_tasks_blocked()
    assert supervisor.process_state(produce).ready is None


@pytest.mark.parametrize("deed", ["start", "restart", "wait_ready", "wipe", "power_loss"])
async def test_a_node_that_another_command_has_removed_meanwhile(supervisor: Supervisor, deed: str) -> None:
    del supervisor.nodes["broker-a-s"]
    with pytest.raises(WrongStateError, match="broker-a-s is no node of this cluster any more"):
        await getattr(supervisor, deed)("broker-a-s")


async def test_settings_that_cannot_be_written_are_kept_for_the_next_start(supervisor: Supervisor) -> None:
    supervisor.pending_settings["broker-a-s"] = {"slave_read_enable": True}
    with pytest.raises(NodeFailedError, match=r"broker-a-s is not started: .*config\.toml"):
        await supervisor.spawn("broker-a-s")
    assert supervisor.pending_settings == {"broker-a-s": {"slave_read_enable": True}}


async def test_a_node_that_is_removed_during_its_start_is_not_spawned(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodestore, "check_startable", lambda _directory, node: supervisor.nodes.pop(node.name))
    with pytest.raises(WrongStateError, match="broker-a-s is no node of this cluster any more"):
        await supervisor.spawn("broker-a-s")
    assert not supervisor.process_state("broker-a-s").is_alive


async def test_a_node_that_is_started_during_its_removal_is_not_removed(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_too_early(_supervisor: Supervisor, *_names: str) -> None:
        await trio.lowlevel.checkpoint()

    supervisor.processes.states["broker-a-s"] = supervisor.process_state("broker-a")
    monkeypatch.setattr(Supervisor, "stop", stop_too_early)
    with pytest.raises(WrongStateError, match="broker-a-s is not removed: another command has started it meanwhile"):
        await scaling.remove(supervisor, "broker-a-s")
    assert "broker-a-s" in supervisor.nodes


@pytest.mark.parametrize(("seconds", "is_known"), [(SNAPSHOT_SECONDS, False), (10.0, True)])
async def test_a_slow_node_is_waited_for_as_long_as_the_caller_says(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery, seconds: float, *, is_known: bool
) -> None:
    del autojump_clock
    ours, its = memory_stream_pair()
    supervisor.processes.expect("broker-a", 0)
    nursery.start_soon(supervisor.processes._attend_node, cast("Any", ours))
    await its.send_all(CONTROL.encode(Hello("broker-a", 1)))
    await wait_all_tasks_blocked()

    async def respond() -> None:
        await trio.sleep(5)
        await its.send_all(CONTROL.encode(Snapshot(0, {"commit_log": {"max": 7}})))

    nursery.start_soon(respond)
    facts = await Cluster(supervisor).snapshot("broker-a", seconds)
    assert facts == ({"commit_log": {"max": 7}} if is_known else None)
    await its.aclose()


async def test_a_scenario_measures_a_slow_node_too(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def snapshot(_processes: object, _name: str, seconds: float) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        return {"commit_log": {"max": 7}} if seconds > SNAPSHOT_SECONDS else None

    monkeypatch.setattr(Processes, "snapshot", snapshot)
    stage = cast("Any", SimpleNamespace(cluster=Cluster(supervisor)))
    await VERBS["measure"].run(stage, ("broker-a", "commit_log.max"), "end")
    assert [event.fields["value"] for event in supervisor.events if event.kind == "measured"] == [7]
