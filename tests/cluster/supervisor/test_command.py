"""Commands and what a supervisor may reply: one line, and the right exit status."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.live.watched import RemoteCluster
from rmqlab.cluster.supervisor.command import COMMANDS, CommandFailedError, CommandResult, Failure
from rmqlab.cluster.supervisor.directory import ClusterDirectory

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
