"""Each test runs a real process, and waits for its effects."""

import errno
import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rmqlab.runtime.node.controlmessages import CONTROL, Message, Snapshot, SnapshotRequest

SERVER = """
import errno, sys, trio
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.node.process import StartError, run_process

async def main(config, link):
    if config == "bad":
        raise StartError("the store is locked by process 7")
    if config == "taken":
        raise OSError(errno.EADDRINUSE, "Address already in use")
    if config == "defect":
        raise KeyError("defect")
    link.on_snapshot.append(lambda: {"config": config})
    link.ready()
    try:
        await trio.sleep_forever()
    finally:
        link.emit("stopped")
        if config == "slow":
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()

config, control = sys.argv[1:]
run_process(main, config, control=control or None, clock=RatedClock(ClockSettings.starting_now(60)), name="node-1")
"""


def start(config: str, control: str | pathlib.Path = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, config, str(control)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def listener(tmp_path: pathlib.Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(tmp_path / "s"))
        listening.listen()
        listening.settimeout(30)
        yield listening


def receive_until(connection: socket.socket, count: int) -> list[Message]:
    decoder, got = CONTROL.decoder(), list[Message]()
    while len(got) < count and (data := connection.recv(65536)):
        decoder.feed(data)
        got += decoder.messages()
    return got


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ("bad", "node-1: the store is locked by process 7\n"),
        ("taken", f"node-1: [Errno {errno.EADDRINUSE}] Address already in use\n"),
    ],
)
def test_a_known_reason_not_to_start_is_one_line_and_a_failure(config: str, line: str) -> None:
    with start(config) as process:
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (1, line)


def test_a_defect_shows_its_traceback() -> None:
    with start("defect") as process:
        _, stderr = process.communicate()
    assert process.returncode == 1
    assert "KeyError: 'defect'" in stderr


def test_a_missing_supervisor_is_reported(tmp_path: pathlib.Path) -> None:
    with start("fine", tmp_path / "none") as process:
        _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == f"node-1: cannot connect to the supervisor at {tmp_path / 'none'}: No such file or directory\n"


def test_a_term_signal_lets_the_server_say_its_last_words(listener: socket.socket) -> None:
    with start("fine", listener.getsockname()) as process:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            first = receive_until(connection, 2)
            process.send_signal(signal.SIGTERM)
            last = receive_until(connection, 99)
        process.communicate()
    assert [type(message).__name__ for message in first + last] == ["Hello", "Ready", "Stopping", "Event"]
    assert process.returncode == 0


def test_the_supervisor_can_ask_and_its_end_is_the_processs_end(listener: socket.socket) -> None:
    with start("fine", listener.getsockname()) as process:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            receive_until(connection, 2)
            connection.sendall(CONTROL.encode(SnapshotRequest(5)))
            assert receive_until(connection, 1) == [Snapshot(5, {"config": "fine"})]
        process.communicate()
    assert process.returncode == 0


def test_a_second_signal_ends_a_process_that_hangs_while_stopping(listener: socket.socket) -> None:
    with start("slow", listener.getsockname()) as process:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            receive_until(connection, 2)
            process.send_signal(signal.SIGINT)
            receive_until(connection, 1)  # the event of the shutdown that hangs
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert process.returncode == 128 + signal.SIGINT
