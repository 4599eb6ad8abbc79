"""The process of a detached supervisor before it has an order."""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest

from rmqlab.cluster.supervisor import detachedprocess
from rmqlab.cluster.supervisor.detachedprocess import DetachedProcess, start_early, started_process
from rmqlab.cluster.supervisor.fork import forklaunch
from tests.interop.waiting import wait_until


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What was started in place of processes."""
    started: list[object] = []

    def start() -> object:
        started.append(object())
        return started[-1]

    for way in ("start", "fork"):
        monkeypatch.setattr(DetachedProcess, way, start)
    yield started
    detachedprocess._early.clear()


@pytest.mark.parametrize("arguments", [["up", "--detach"], ["up", "--groups", "2", "-d"]])
def test_an_early_process_is_the_one_that_gets_the_order(begun: list[object], arguments: list[str]) -> None:
    start_early(arguments)
    assert [started_process()] == begun
    assert started_process() is not begun[0]


@pytest.mark.parametrize(
    "arguments", [[], ["up"], ["up", "--help", "-d"], ["down", "-d"], ["--version"], ["status", "--detach"]]
)
def test_no_process_starts_early_for_other_commands(begun: list[object], arguments: list[str]) -> None:
    start_early(arguments)
    assert begun == []


@pytest.fixture(params=["start", "fork"])
def process(request: pytest.FixtureRequest) -> DetachedProcess:
    """A process that has no order yet, executed or forked."""
    if request.param == "fork" and sys.platform != "linux":
        pytest.skip("forks are safe on Linux only")
    begin: Callable[[], DetachedProcess] = getattr(DetachedProcess, request.param)
    return begin()


def test_without_an_order_it_ends_and_starts_nothing(process: DetachedProcess) -> None:
    process.send("")
    assert process.receive() == ""
    assert process.wait() == 0


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_an_unused_process_ends_at_once_with_its_fork_server(process: DetachedProcess) -> None:
    process.end_unused()
    assert process.receive() == ""  # the fork server has no end of this pipe, either
    wait_until(functools.partial(is_gone, process.pid), "init has collected the killed fork server", 60)


def test_an_invalid_option_leaves_no_process() -> None:
    program = "from rmqlab.cluster.program import main; main()"
    command = [sys.executable, "-c", program, "up", "--detach", "--grups", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Did you mean '--groups'?" in done.stderr  # and nothing keeps its stderr open


def test_a_forked_fork_server_can_be_waited_for() -> None:
    def serve(theirs: socket.socket, _modules: Sequence[str]) -> NoReturn:
        sys.exit(len(theirs.recv(1)))

    process, connection = forklaunch.fork(serve)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.0)
    connection.close()
    assert process.wait(30) == 0
