"""The live view on a pseudo-terminal: somebody presses keys, and real processes die and come back."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from cluster.live.terminal import raw_keys, read_keyboard
from remoting.journal import read_journal

PATIENCE = 60.0


@attrs.define
class Screen:
    """A terminal of 80x24 with a program in it. What was shown is kept without its escapes."""

    terminal: int
    process: subprocess.Popen[bytes]
    shown: str = ""

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal: whoever writes to it or reads from it fails."""
        os.close(self.terminal)
        self.terminal = -1

    def wait_for(self, pattern: str) -> None:
        """Read until this is shown; what was shown up to there is not looked at again."""
        while (found := re.search(pattern, self.shown)) is None:
            if not select.select([self.terminal], [], [], PATIENCE)[0]:
                raise AssertionError(f"no {pattern!r} in {self.shown[-3000:]!r}")
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # the program has ended
                data = b""
            assert data, f"ended without {pattern!r}: {self.shown[-3000:]!r}"
            self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode(errors="replace"))
        self.shown = self.shown[found.end() :]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "RMQLAB_HOME": str(tmp_path), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "cluster", "up", "-n", "live", "--rate", "5"]
    process = subprocess.Popen(
        command, env=environment, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    )
    before = termios.tcgetattr(inside)
    screen = Screen(terminal, process)
    try:
        yield screen
        if screen.terminal >= 0:
            assert termios.tcgetattr(inside) == before, "the terminal is left as it was found"
            os.close(terminal)
    finally:
        process.kill()
        process.wait()
        os.close(inside)


def states(home: Path) -> dict[str, str]:
    """What `rmqlab status` says, asked from outside."""
    command = [sys.executable, "-m", "cluster", "status", "-n", "live", "--json"]
    told = subprocess.run(command, env={**os.environ, "RMQLAB_HOME": str(home)}, capture_output=True, check=True)
    document: dict[str, Any] = json.loads(told.stdout)
    return {node["name"]: node["state"] for node in document["nodes"]}


@pytest.mark.timeout(300)
def test_keys_kill_and_start_and_freeze_real_nodes_and_q_stops_the_cluster(screen: Screen, tmp_path: Path) -> None:
    screen.wait_for(r"AS EACH NAMESERVER BELIEVES")
    screen.press("k")
    screen.wait_for(r"kill broker-a: done")
    assert states(tmp_path)["broker-a"] == "killed"
    screen.press("k")
    screen.wait_for(r"broker-a is killed: s starts it")
    screen.press("s")
    screen.wait_for(r"start broker-a: done")
    screen.press("\x1b[Bp")
    screen.wait_for(r"pause broker-a-s: done")
    assert states(tmp_path) == {"namesrv-1": "ready", "broker-a": "ready", "broker-a-s": "paused"}
    screen.wait_for(r"WRONG still names broker-a-s \(paused\)")
    screen.press("p")
    screen.wait_for(r"resume broker-a-s: done")
    screen.press("i")
    screen.wait_for(r"isolate broker-a-s: done")
    screen.wait_for(r"isolate target=broker-a-s")
    screen.press("h")
    screen.wait_for(r"healed f1")
    screen.press("q")
    screen.wait_for(r"stopping all nodes")
    screen.wait_for(r"stopped")
    assert screen.process.wait(PATIENCE) == 0


@pytest.mark.timeout(300)
def test_a_terminal_that_is_closed_stops_the_cluster_in_order(screen: Screen, tmp_path: Path) -> None:
    screen.wait_for(r"AS EACH NAMESERVER BELIEVES")
    screen.process.send_signal(signal.SIGHUP)  # as the kernel does when the terminal goes
    screen.hang_up()
    assert screen.process.wait(PATIENCE) == 0
    ends = [event.kind for event in read_journal(tmp_path / "live" / "journal" / "cluster.msgpack")]
    assert ends[-1] == "cluster_stopped"
    assert "node_killed" not in ends


async def test_the_keyboard_is_read_key_by_key_and_given_back() -> None:
    terminal, inside = pty.openpty()
    before = termios.tcgetattr(inside)
    with raw_keys(inside):
        os.write(terminal, b"k")
        assert await read_keyboard(inside) == b"k"  # without a line's end
    assert termios.tcgetattr(inside) == before
    os.close(terminal)
    os.close(inside)


async def test_a_terminal_that_goes_ends_the_reading_and_nothing_else() -> None:
    terminal, inside = pty.openpty()
    with raw_keys(inside):
        os.close(terminal)
        assert await read_keyboard(inside) == b""
    os.close(inside)


async def test_a_keyboard_that_is_waited_for_can_be_cancelled() -> None:
    terminal, inside = pty.openpty()
    with trio.move_on_after(0.01) as scope, raw_keys(inside):
        await read_keyboard(inside)
    assert scope.cancelled_caught
    os.close(terminal)
    os.close(inside)
