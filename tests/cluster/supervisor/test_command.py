"""Commands and what a supervisor may reply: one line, and the right exit status."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.live import watched
from rmqlab.cluster.cli.live.watched import RemoteCluster
from rmqlab.cluster.supervisor import command
from rmqlab.cluster.supervisor.command import (
    COMMANDS,
    CommandFailedError,
    CommandMessage,
    CommandRequest,
    CommandResult,
    Failure,
    explain_absence,
)
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory

GARBAGE = b"HTTP/1.1 400 Bad Request\r\n\r\n"
LATE = COMMANDS.encode(Failure("'ready' is not true after 1 s", is_usage=False, is_late=True))
FAILED = COMMANDS.encode(Failure("broker-a is killed", is_usage=False))
INVALID = COMMANDS.encode(Failure("no condition 'redy'", is_usage=True))
OLDER = LATE.replace(b"is_late", b"is_soon")
DONE = COMMANDS.encode(CommandResult([]))


@pytest.fixture
def reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], ClusterDirectory]]:
    """Let a fake supervisor send these bytes, and reset the connection."""
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    directory = ClusterDirectory.named("default")
    directory.create()
    with contextlib.ExitStack() as stack:

        def serve(listening: socket.socket, data: bytes) -> None:
            with listening.accept()[0] as connection:
                if data:
                    connection.recv(65536)
                connection.sendall(data)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def begin(data: bytes) -> ClusterDirectory:
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(directory.command_socket))
            listening.listen()
            thread = threading.Thread(target=serve, args=(listening, data))
            thread.start()
            stack.callback(thread.join)
            return directory

        yield begin


@pytest.mark.parametrize(
    ("data", "words", "status", "message"),
    [
        (DONE, "wait ready", 0, ""),
        (LATE, "wait ready", 1, "'ready' is not true after 1 s"),
        (FAILED, "wait ready", 2, "broker-a is killed"),
        (INVALID, "wait ready", 2, "no condition 'redy'"),
        (OLDER, "wait ready", 2, "If another version of rmqlab started the cluster, stop it with that version"),
        (b"", "wait ready", 2, "the supervisor of cluster default ended without a reply"),
        (FAILED, "kill broker-a", 1, "broker-a is killed"),
        (OLDER, "kill broker-a", 1, "rmqlab down --name default"),
        (GARBAGE, "kill broker-a", 1, "the reply from the supervisor of cluster default is invalid (not a control"),
        (GARBAGE, "produce -t orders", 1, "the reply from the supervisor"),
        (GARBAGE, "events", 1, "the reply from the supervisor"),
        (b"", "events --follow", 0, ""),
        (FAILED, "events --follow", 1, "broker-a is killed"),
        (GARBAGE, "fault random", 1, "the reply from the supervisor"),
        (b"", "kill broker-a", 1, "the supervisor of cluster default ended without a reply"),
        (b"\xc1", "faults", 1, "the reply from the supervisor of cluster default is invalid (not msgpack"),
    ],
)
def test_each_reply_has_its_exit_status(
    reply: Callable[[bytes], ClusterDirectory], data: bytes, words: str, status: int, message: str
) -> None:
    reply(data)
    done = CliRunner().invoke(app, words.split(), prog_name="rmqlab")
    assert done.exit_code == status, done.exception
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == bool(message)


def test_wait_without_a_cluster_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["wait", "ready"], prog_name="rmqlab")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no cluster default in" in done.stderr


async def test_the_live_view_reads_no_garbage(reply: Callable[[bytes], ClusterDirectory]) -> None:
    served = RemoteCluster(reply(GARBAGE))
    with trio.fail_after(10), pytest.raises(CommandFailedError, match="the reply from the supervisor"):
        await served.status()


class Unresponsive:
    """A supervisor that a signal has stopped.

    The system accepts its connections, and it reads none.
    """

    def __init__(self, directory: ClusterDirectory, backlog: int) -> None:
        directory.create()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(directory.command_socket))
        self.listening.listen(backlog)


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDirectory:
    """Return the directory of a cluster whose commands wait for milliseconds only."""
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    for module in (command, watched):
        monkeypatch.setattr(module, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(command, "RESPONSE_SECONDS", 0.05)
    return ClusterDirectory.named("default")


def test_a_command_waits_for_its_place_in_the_queue_of_a_busy_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = ClusterDirectory(tmp_path / "default")
    listening = Unresponsive(directory, backlog=0).listening
    with listening, socket.socket(socket.AF_UNIX) as first:
        first.connect(str(directory.command_socket))

        def pause(_seconds: float) -> None:
            listening.accept()[0].close()

        monkeypatch.setattr("rmqlab.cluster.supervisor.command.time.sleep", pause)
        with command._connect(directory):
            pass


@pytest.mark.parametrize("backlog", [0, 10])
@pytest.mark.parametrize("words", ["status", "kill broker-a", "events", "down"])
def test_a_stopped_supervisor_is_named_with_its_pid(impatient: ClusterDirectory, words: str, backlog: int) -> None:
    with contextlib.closing(Unresponsive(impatient, backlog).listening), impatient.locked():
        done = CliRunner().invoke(app, words.split(), prog_name="rmqlab")
    assert done.exit_code == 1, done.exception
    assert f"(pid {os.getpid()}) does not respond" in done.stderr
    assert f"kill -CONT {os.getpid()}" in done.stderr
    assert done.stderr.count("\n") == 1


async def test_the_live_view_names_a_stopped_supervisor(impatient: ClusterDirectory) -> None:
    with (
        contextlib.closing(Unresponsive(impatient, 10).listening),
        trio.fail_after(60),
        pytest.raises(CommandFailedError, match=r"\(pid PID\) does not respond"),
    ):
        await RemoteCluster(impatient).status()


def test_a_command_that_takes_long_is_waited_for_while_the_supervisor_responds(impatient: ClusterDirectory) -> None:
    """The supervisor replies to three other commands before it replies to this one."""
    probes = list[CommandMessage]()

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as first:
            for _ in range(3):
                with listening.accept()[0] as probe:
                    probes.append(received(probe))
                    probe.sendall(DONE)
            first.sendall(COMMANDS.encode(CommandResult("late")))
            received(first)

    with contextlib.closing(Unresponsive(impatient, 10).listening) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            assert command.ask(impatient, "status") == "late"
        finally:
            thread.join()
    assert probes == [CommandRequest("faults", {})] * 3


def received(connection: socket.socket) -> CommandMessage:
    decoder = COMMANDS.decoder()
    while True:
        decoder.feed(connection.recv(65536))
        for message in decoder.messages():
            return message


def test_a_reply_before_the_command_is_read(reply: Callable[[bytes], ClusterDirectory]) -> None:
    """A supervisor with too many connections does not read further ones."""
    with pytest.raises(CommandFailedError, match="broker-a is killed"):
        command.ask(reply(FAILED), "status", padding="x" * 2**20)


def test_a_cluster_without_its_socket_can_be_stopped_by_a_signal(tmp_path: Path) -> None:
    place = ClusterDirectory.at(tmp_path / "shop")
    place.create()
    with place.locked():
        expected = f"cluster shop is starting or stopping; if that lasts, `kill {os.getpid()}` stops it in order"
        assert explain_absence(place) == expected
        (place.path / "supervisor.lock").write_text("")
        assert explain_absence(place) == "cluster shop is starting or stopping"


def test_a_cluster_that_is_named_by_a_path_is_explained_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "home"))
    (tmp_path / "a file").touch()
    text = "expected the directory of a cluster or a run, or a cluster's name"
    for name in ("a file", "missing"):
        assert explain_absence(ClusterDirectory.at(tmp_path / name)) == f"no cluster in {tmp_path / name}: {text}"
    place = ClusterDirectory.at(tmp_path / "a shop")
    place.create()
    place.record_path.write_text("{}")
    expected = f"cluster a shop is not running; start it with: rmqlab up --name '{place.path}'"
    assert explain_absence(place) == expected
