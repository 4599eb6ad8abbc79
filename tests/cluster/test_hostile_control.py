"""What arrives at the supervisor's sockets ends its connection at most."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor import commandserver, eventlog
from rmqlab.cluster.supervisor.command import COMMANDS, CommandRequest, CommandResult, Failure, Item
from rmqlab.cluster.supervisor.commandhandlers import HANDLERS
from rmqlab.cluster.supervisor.commandserver import serve_connection
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.fork.children import ForkServer
from rmqlab.cluster.supervisor.fork.forkserver import REPORTS, Continued, Exited, ForkLoop, Spawned
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.node.controlmessages import (
    CONTROL,
    Event,
    Hello,
    Ready,
    RulesSet,
    Snapshot,
    SnapshotRequest,
    Stopping,
)
from rmqlab.runtime.node.mapcodec import MAX_MESSAGE

GARBAGE = [
    b"\xc1",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xdd\xff\xff\xff\xff" * 600,
    b"\x91" * 5000,
    b"\x81\x91\x01\x01",
    msgpack.packb({"type": [], "name": {}}),
    msgpack.packb({"type": "Hello", "name": "broker-a", "pid": float("inf")}),
    b"\xdb\xff\xff\xff\xff" + b"x" * (MAX_MESSAGE + 200_000),
    COMMANDS.encode(Item("not a question")),
    CONTROL.encode(SnapshotRequest(1)),
    CONTROL.encode(Hello("x" * 5_000_000, 1)),
]


async def send_hostile(stream: trio.abc.Stream, data: bytes) -> None:
    try:
        await stream.send_all(data)
        await stream.receive_some()
    except trio.BrokenResourceError:
        pass


def errors_of(supervisor: Supervisor) -> list[JournalEntry]:
    return [event for event in supervisor.events if event.kind == "control_error"]


@pytest.mark.parametrize("data", GARBAGE)
async def test_garbage_at_the_control_socket_ends_that_connection_only(
    supervisor: Supervisor, nursery: trio.Nursery, data: bytes
) -> None:
    ours, theirs = memory_stream_pair()
    nursery.start_soon(send_hostile, theirs, data)
    await supervisor.processes._attend_node(cast("Any", ours))
    (error,) = errors_of(supervisor)
    assert len(error.fields["reason"]) < 500
    ours, theirs = memory_stream_pair()
    nursery.start_soon(supervisor.processes._attend_node, ours)
    supervisor.processes.expect("broker-a", 0)
    await theirs.send_all(CONTROL.encode(Hello("broker-a", 1)) + CONTROL.encode(Ready({})))
    await wait_all_tasks_blocked()
    assert supervisor.process_state("broker-a").state is NodeState.READY
    assert not supervisor.processes.errors.counts


@pytest.mark.parametrize(
    ("message", "is_error"),
    [
        (Event(0, "recovering", {}), True),
        (Event(0, "recovering", {"offset": "x"}), False),
        (Event(0, "fault_spent", {}), True),
        (Event(0, "fault_spent", {"id": "f77"}), False),
        (Event(2**63, "k" * 9_000_000, {"x": "y" * 5_000_000, "at": [], "node": 3}), False),
        (Ready({"node": 1, "kind": 2, "at": 3}), False),
        (Snapshot(77, {}), False),
        (RulesSet(77), False),
    ],
)
async def test_an_unhandled_message_is_recorded_and_the_next_one_is_handled(
    supervisor: Supervisor, nursery: trio.Nursery, message: Event | Ready | Snapshot, *, is_error: bool
) -> None:
    ours, theirs = memory_stream_pair()
    supervisor.processes.expect("broker-a", 0)
    nursery.start_soon(supervisor.processes._attend_node, ours)
    later = Event(5, "listening", {"port": 1})
    await theirs.send_all(b"".join(map(CONTROL.encode, (Hello("broker-a", 1), message, later))))
    await wait_all_tasks_blocked()
    assert [*supervisor.events][-1] == JournalEntry(5, "broker-a", "listening", {"port": 1})
    assert [event.node for event in errors_of(supervisor)] == ["broker-a"] * is_error
    assert sum(supervisor.processes.errors.counts.values()) == is_error
    assert all(len(repr(event)) < 20_000 for event in supervisor.events)


async def test_a_process_that_begins_to_end_is_no_longer_ready(supervisor: Supervisor, nursery: trio.Nursery) -> None:
    ours, theirs = memory_stream_pair()
    supervisor.processes.expect("broker-a", 0)
    nursery.start_soon(supervisor.processes._attend_node, ours)
    await theirs.send_all(CONTROL.encode(Hello("broker-a", 1)) + CONTROL.encode(Ready({})))
    await wait_all_tasks_blocked()
    changed = supervisor.events.changed
    await theirs.send_all(CONTROL.encode(Stopping()))
    await changed.wait()
    assert supervisor.process_state("broker-a").state is NodeState.STOPPING
    assert supervisor.process_state("broker-a").ended(1).state is NodeState.CRASHED


def test_events_in_memory_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "RING_BYTES", 100_000)
    log = EventLog()
    for number in range(200):
        log.append(JournalEntry(number, "namesrv-1", "broker_registered", {"address": "x" * 4000}))
    assert [event.at_millis for event in log] == list(range(176, 200))
    log.append(JournalEntry(200, "namesrv-1", "broker_registered", {str(n): "x" * 4000 for n in range(50)}))
    assert [event.at_millis for event in log] == [200]


# The command socket


async def ask(supervisor: Supervisor, data: bytes, free: int = 1) -> list[Any]:
    ours, theirs = memory_stream_pair()
    got: list[Any] = []

    async def converse() -> None:
        decoder = COMMANDS.decoder()
        try:
            await theirs.send_all(data)
            while part := await theirs.receive_some():
                decoder.feed(bytes(part))
                got.extend(decoder.messages())
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        async with ours:
            await serve_connection(Cluster(supervisor), ours, trio.Semaphore(free))
    return got


@pytest.mark.parametrize("data", GARBAGE)
async def test_garbage_at_the_command_socket_ends_that_connection_only(supervisor: Supervisor, data: bytes) -> None:
    assert await ask(supervisor, data) == []
    (error,) = errors_of(supervisor)
    assert error.fields["reason"].startswith("command socket: ")
    assert len(error.fields["reason"]) < 500
    assert await ask(supervisor, COMMANDS.encode(CommandRequest("faults", {}))) == [CommandResult([])]


async def test_beyond_the_limit_of_commands_only_down_is_executed(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def respond(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(commandserver, "HANDLERS", {"status": respond, "down": respond})
    (failure,) = await ask(supervisor, COMMANDS.encode(CommandRequest("status", {})), free=0)
    assert isinstance(failure, Failure)
    assert failure.text.startswith("the supervisor runs 100 commands")
    assert await ask(supervisor, COMMANDS.encode(CommandRequest("down", {})), free=0) == [CommandResult(None)]


async def test_a_command_whose_peer_has_left_is_not_executed(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as one to a stopped supervisor that was given up."""
    executed = list[str]()

    async def note(*_: object) -> None:
        executed.append("kill")
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(commandserver, "HANDLERS", {"kill": note})
    with trio.socket.socket(trio.socket.AF_UNIX) as listening:
        await listening.bind(str(tmp_path / "s"))
        listening.listen()
        for leaves in (True, False):
            theirs = await trio.open_unix_socket(tmp_path / "s")
            await theirs.send_all(COMMANDS.encode(CommandRequest("kill", {})))
            if leaves:
                await theirs.aclose()
            async with trio.SocketStream((await listening.accept())[0]) as ours:
                await serve_connection(Cluster(supervisor), ours, trio.Semaphore(1))
            await theirs.aclose()
    assert executed == ["kill"]


async def test_a_command_makes_room_when_it_ends(supervisor: Supervisor) -> None:
    free, request = trio.Semaphore(1), COMMANDS.encode(CommandRequest("x", {}))
    for _ in range(2):
        ours, theirs = memory_stream_pair()
        async with ours, theirs:
            await theirs.send_all(request)
            await serve_connection(Cluster(supervisor), ours, free)
        assert free.value == 1


STRANGE: list[dict[str, Any]] = [
    {},
    {"target": 7, "condition": [], "seconds": "long", "last": "x", "ids": 3, "values": 9, "module": 7, "config": []},
    {"target": None, "condition": "ready", "seconds": float("nan"), "last": -1, "follow": 0, "every": False, "ids": {}},
    {"module": "../../../x", "config": {}, "values": {"type": "isolate", "target": {}}, "unknown": 1},
    {"module": "x", "config": {"a": {"b": []}}, "values": {"type": []}, "ids": [[]]},
]


@pytest.mark.parametrize("arguments", STRANGE)
@pytest.mark.parametrize("verb", [*sorted(HANDLERS.keys() - {"down"}), "x" * 100_000])
async def test_any_arguments_get_a_reply_and_the_supervisor_continues(
    supervisor: Supervisor, autojump_clock: MockClock, verb: str, arguments: dict[str, Any]
) -> None:
    del autojump_clock
    answers = await ask(supervisor, COMMANDS.encode(CommandRequest(verb, arguments)))
    assert isinstance(answers[-1], CommandResult | Failure)
    if isinstance(answers[-1], Failure):
        assert 0 < len(answers[-1].text) < 11_000
    assert await ask(supervisor, COMMANDS.encode(CommandRequest("faults", {}))) == [CommandResult([])]


@pytest.mark.parametrize("arguments", [{}, {"target": 7}, {"target": ["broker-a"]}])
async def test_an_action_without_a_target_is_invalid_and_no_defect(
    supervisor: Supervisor, arguments: dict[str, Any]
) -> None:
    for action in ACTIONS:
        failure = Failure(f"{action}: the target must be a text", is_usage=True)
        assert await ask(supervisor, COMMANDS.encode(CommandRequest(action, arguments))) == [failure]
    assert not supervisor.processes.errors.counts


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        (
            "wait",
            {"condition": "ready", "seconds": 1e10},
            "wait: seconds = 10000000000.0: expected a number of seconds",
        ),
        ("wait", {"condition": 7, "seconds": 1}, "wait: condition = 7: expected a text"),
        ("random-faults", {"count": 200_000}, "count = 200000: expected 0 to 100000"),
        ("random-faults", {"pace": 1}, "random-faults: "),
        ("heal", {}, "the argument 'ids' is missing"),
        ("heal", {"ids": 3}, "heal: the ids must be a list of texts"),
        ("events", {}, "the argument 'last' is missing"),
        ("work", {}, "the argument 'module' is missing"),
        ("fault", {"values": 9}, "fault: 9: expected the values of a fault"),
    ],
)
async def test_a_value_out_of_range_is_invalid_and_no_defect(
    supervisor: Supervisor, verb: str, arguments: dict[str, Any], said: str
) -> None:
    (failure,) = await ask(supervisor, COMMANDS.encode(CommandRequest(verb, arguments)))
    assert isinstance(failure, Failure)
    assert failure.is_usage
    assert failure.text.startswith(said)
    assert not supervisor.processes.errors.counts


async def test_while_the_cluster_stops_only_its_status_is_served(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "is_stopping", True)
    (shown,) = await ask(supervisor, COMMANDS.encode(CommandRequest("status", {})))
    assert isinstance(shown, CommandResult)
    assert shown.value["name"] == supervisor.spec.name
    (failure,) = await ask(supervisor, COMMANDS.encode(CommandRequest("kill", {"target": "broker-a"})))
    assert isinstance(failure, Failure)
    assert "has stopped: expected a call while it runs" in failure.text
    assert not supervisor.processes.errors.counts


async def test_a_defect_of_a_command_is_named_and_counted(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        async with trio.open_nursery():
            raise ZeroDivisionError("by zero")

    monkeypatch.setattr(commandserver, "HANDLERS", {"status": fail})
    failure = Failure("internal error in status: ZeroDivisionError: by zero", is_usage=False)
    assert await ask(supervisor, COMMANDS.encode(CommandRequest("status", {}))) == [failure]
    assert supervisor.processes.errors.counts == {"command status": 1}


async def test_an_answer_that_is_too_large_is_a_failure(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def respond(*_: object) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["x" * 9_000_000] * 2

    monkeypatch.setattr(commandserver, "HANDLERS", {"status": respond})
    (failure,) = await ask(supervisor, COMMANDS.encode(CommandRequest("status", {})))
    assert failure.text.startswith("the reply cannot be sent: CommandResult of 18000")


# The fork server


async def test_reports_of_unknown_processes_are_passed_over_and_garbage_is_the_end_of_the_fork_server(
    supervisor: Supervisor,
) -> None:
    ours, its = socket.socketpair()
    forks = ForkServer(cast("Any", SimpleNamespace(pid=1)), ours)
    supervisor.processes.expect("broker-a", 3)
    for report in (Exited(99, 0), Continued(98), Spawned(77, 5), Exited(5, 0), Spawned(3, 6)):
        its.sendall(REPORTS.encode(report))
    its.sendall(GARBAGE[1])
    with trio.fail_after(10):
        await supervisor.processes.attend_forks(forks)
    its.close()
    forks._connected().socket.close()
    assert [event.kind for event in supervisor.events] == ["node_spawned", "fork_server_lost"]


def test_a_signal_that_the_system_refuses_does_not_end_the_fork_server(tmp_path: Path) -> None:
    del tmp_path
    loop = ForkLoop(cast("Any", None), is_forking=False)
    loop._children.add(2**22 + 1)  # beyond the largest process id
    from rmqlab.cluster.supervisor.fork.forkserver import Signal

    loop._obey(Signal(2**22 + 1, 15), cast("Any", None))
    loop._obey(Signal(2**22 + 1, 4000), cast("Any", None))
    for end in loop._wakeup:
        end.close()
