"""Real processes, forked and executed.

Every wait is for a report or for the end of a stream.
"""

import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.children import ForkServer
from rmqlab.cluster.supervisor.fork.forkserver import Continued, Exited, Report, Spawned, Stopped
from rmqlab.cluster.supervisor.plan.nodesettings import toml_text
from rmqlab.runtime.clock import ClockSettings
from rmqlab.runtime.node.controlmessages import CONTROL, Hello, Message, Ready, Snapshot, SnapshotRequest
from rmqlab.runtime.node.mapstream import receive_messages


@attrs.define(eq=False)
class Stage:
    """A fork server, and a socket where its children report to."""

    directory: pathlib.Path
    server: ForkServer
    reports: trio.MemoryReceiveChannel[tuple[int, Report]]
    listener: trio.SocketListener
    streams: list[trio.SocketStream] = attrs.field(factory=list)

    def request(self, number: int = 1, module: str = "fakenode", **config: object) -> SpawnRequest:
        path = self.directory / f"node-{number}.toml"
        path.write_text(toml_text(config))
        return SpawnRequest(
            id=number,
            name=f"node-{number}",
            module=module,
            config=str(path),
            log=str(self.directory / f"node-{number}.log"),
            journal=str(self.directory / f"node-{number}.msgpack"),
            control=str(self.directory / "c"),
            clock=ClockSettings.starting_now(),
        )

    async def started(self, number: int = 1) -> tuple[int, trio.SocketStream]:
        """Start a node; return its process id and control channel once it is ready."""
        await self.server.spawn(self.request(number))
        request_id, report = await self.reports.receive()
        assert isinstance(report, Spawned)
        assert request_id == number
        stream = await self.listener.accept()
        self.streams.append(stream)
        hello, *rest = await receive(stream, Ready)
        assert hello == Hello(f"node-{number}", report.pid)
        assert rest
        return report.pid, stream


async def receive(stream: trio.SocketStream, until: type[Message]) -> list[Message]:
    """Return all messages up to the first of this type."""
    got: list[Message] = []
    with trio.CancelScope() as scope:

        def take(message: Message) -> None:
            got.append(message)
            if isinstance(message, until):
                scope.cancel()

        await receive_messages(stream, CONTROL, take)
    return got


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(params=["fork", "exec"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stage(tmp_path: pathlib.Path, way: str) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path, way) as opened:
        yield opened


@asynccontextmanager
async def open_stage(directory: pathlib.Path, way: str) -> AsyncIterator[Stage]:
    send, reports = trio.open_memory_channel[tuple[int, Report]](100)
    server = ForkServer.start(["fakenode"], directory / "forkserver.log", way)
    try:
        with trio.socket.socket(socket.AF_UNIX) as listening, trio.fail_after(30):
            await listening.bind(os.fspath(directory / "c"))
            listening.listen()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.attend, lambda request_id, report: send.send_nowait((request_id, report)))
                stage = Stage(directory, server, reports, trio.SocketListener(listening))
                yield stage
                nursery.cancel_scope.cancel()
            for stream in stage.streams:
                await stream.aclose()
    finally:
        server.close()


async def test_a_node_is_spawned_replies_and_exits_with_its_status(stage: Stage) -> None:
    pid, stream = await stage.started()
    await stream.send_all(CONTROL.encode(SnapshotRequest(7)))
    answer = (await receive(stream, Snapshot))[-1]
    assert isinstance(answer, Snapshot)
    assert answer.id == 7
    await stage.server.signal(pid, signal.SIGTERM)
    assert await stage.reports.receive() == (1, Exited(pid, 0))
    assert "a line of output" in (stage.directory / "node-1.log").read_text()


async def test_stopping_and_continuing_a_process_are_reported_as_facts(stage: Stage) -> None:
    pid, _ = await stage.started()
    await stage.server.signal(pid, signal.SIGSTOP)
    assert await stage.reports.receive() == (1, Stopped(pid))
    await stage.server.signal(pid, signal.SIGCONT)
    assert await stage.reports.receive() == (1, Continued(pid))
    await stage.server.signal(pid, signal.SIGKILL)
    assert await stage.reports.receive() == (1, Exited(pid, -signal.SIGKILL))


async def test_a_signal_to_a_process_that_has_ended_or_is_not_ours_goes_nowhere(stage: Stage) -> None:
    pid, _ = await stage.started()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:  # noqa: ASYNC220 -- starting it blocks nobody here
        await stage.server.signal(stranger.pid, signal.SIGKILL)
        await stage.server.signal(pid, signal.SIGKILL)
        assert await stage.reports.receive() == (1, Exited(pid, -signal.SIGKILL))
        await stage.server.signal(pid, signal.SIGKILL)
        await stage.started(2)  # the fork server lives on
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


@pytest.mark.parametrize(
    ("module", "config", "line"),
    [
        ("fakenode", {"refuse": "no room"}, "node-1: refused: no room\n"),
        ("no_such_module", {}, "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
async def test_a_node_that_cannot_start_leaves_status_and_reason(
    stage: Stage, module: str, config: dict[str, object], line: str
) -> None:
    await stage.server.spawn(stage.request(1, module, **config))
    _, spawned = await stage.reports.receive()
    assert isinstance(spawned, Spawned)
    assert await stage.reports.receive() == (1, Exited(spawned.pid, 1))
    assert line in (stage.directory / "node-1.log").read_text()


async def test_two_children_do_not_share_their_random_numbers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "dice.py").write_text(
        "import random, trio\n"
        "def load_config(path): pass\n"
        "async def main(config, link):\n"
        "    print(random.random(), trio._core._run._r.random())\n"
    )
    os.environ["PYTHONPATH"] += os.pathsep + os.fspath(tmp_path)  # restored with the fixture
    async with open_stage(tmp_path, "fork") as stage:
        for number in (1, 2):
            await stage.server.spawn(stage.request(number, "dice"))
        ended = 0
        while ended < 2:
            ended += isinstance((await stage.reports.receive())[1], Exited)
    first, second = ((tmp_path / f"node-{number}.log").read_text().split() for number in (1, 2))
    assert len(first) == len(second) == 2
    assert not set(first) & set(second)


SUPERVISOR = """
import pathlib, signal, sys, trio
sys.path.insert(0, {tests!r})
import test_children

async def main():
    async with test_children.open_stage(pathlib.Path({directory!r}), {way!r}) as stage:
        running, _ = await stage.started(1)
        paused, _ = await stage.started(2)
        await stage.server.signal(paused, signal.SIGSTOP)
        await stage.reports.receive()
        print(stage.server.process.pid, running, paused, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("victim", ["supervisor", "fork server", "both"])
def test_a_supervisor_killed_with_9_leaves_no_process_behind(tmp_path: pathlib.Path, way: str, victim: str) -> None:
    here = pathlib.Path(__file__).parent
    script = SUPERVISOR.format(tests=str(here), directory=str(tmp_path), way=way)
    # All processes inherit the writing end of this pipe: its end of file means that none is left.
    left, inherited = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, pass_fds=[inherited], text=True
    ) as process:
        os.close(inherited)
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        if victim != "supervisor":
            os.kill(pids[0], signal.SIGKILL)
        if victim != "fork server":
            process.kill()
        for pid in pids:
            wait_gone(pid)
        process.kill()
    os.close(left)


def wait_gone(pid: int) -> None:
    """Return when the process has ended; pidfd is readable from then on."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor) as end:
        assert select.select([end], [], [], 30)[0]


async def test_before_the_first_order_modules_are_imported_one_after_the_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detached supervisor starts its fork server before it imports itself."""
    for name in ("first", "second"):
        (tmp_path / f"module_{name}.py").write_text(f"print('imported the {name}', flush=True)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    log = tmp_path / "forkserver.log"
    server = ForkServer.start(["module_first", "no_such_module", "module_second"], log, "fork")
    try:
        with trio.fail_after(30):
            while "imported the second" not in log.read_text():  # noqa: ASYNC110 - another process writes it
                await trio.sleep(0.01)
    finally:
        server.close()
    text = log.read_text()
    assert text.index("imported the first") < text.index("No module named 'no_such_module'")
    assert text.index("No module named 'no_such_module'") < text.index("imported the second")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_its_output_can_move_to_another_log(tmp_path: pathlib.Path) -> None:
    """A detached supervisor forks it before it knows its directory."""
    log = tmp_path / "second.log"
    server = ForkServer.start([], tmp_path / "first.log", "fork")
    outputs = [f"/proc/{server.process.pid}/fd/{number}" for number in (1, 2)]
    try:
        server.log_to(log)
        with trio.fail_after(30):
            while {*map(os.readlink, outputs)} != {str(log)}:  # noqa: ASYNC110 - another process does it
                await trio.sleep(0.01)
    finally:
        server.close()
