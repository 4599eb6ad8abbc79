"""The live view on a pseudo-terminal: keys end and start real processes."""

import contextlib
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

from rmqlab.cluster.cli.live.terminal import raw_keys, read_keyboard
from rmqlab.runtime.journals.journalreader import read_journal

PATIENCE = 60.0


@attrs.define
class Screen:
    """A terminal of 80x24 with a program in it.

    What was shown is kept without its escapes.
    """

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


@contextlib.contextmanager
def on_a_screen(home: Path, *arguments: str) -> Iterator[Screen]:
    """`rmqlab` with these arguments, on a terminal that must be left as it was found."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "RMQLAB_HOME": str(home), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "rmqlab.cluster", *arguments]
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


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    with on_a_screen(tmp_path, "up", "-n", "live", "--rate", "5") as screen:
        yield screen


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Path]:
    """A home with a cluster that another process supervises."""
    rmqlab(tmp_path, "up", "-n", "live", "--rate", "5", "--detach")
    try:
        yield tmp_path
    finally:
        subprocess.run(
            [sys.executable, "-m", "rmqlab.cluster", "down", "-n", "live"], env=home_of(tmp_path), check=False
        )


def home_of(home: Path) -> dict[str, str]:
    return {**os.environ, "RMQLAB_HOME": str(home)}


def rmqlab(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "rmqlab.cluster", *arguments]
    return subprocess.run(command, env=home_of(home), capture_output=True, check=True, text=True).stdout


def states(home: Path) -> dict[str, str]:
    """What `rmqlab status` says, asked from outside."""
    document: dict[str, Any] = json.loads(rmqlab(home, "status", "-n", "live", "--json"))
    return {node["name"]: node["state"] for node in document["nodes"]}


@pytest.mark.timeout(300)
def test_keys_kill_and_start_and_freeze_real_nodes_and_q_stops_the_cluster(screen: Screen, tmp_path: Path) -> None:
    screen.wait_for(r"NAMESERVER +ROUTE")
    screen.press("k")
    screen.wait_for(r"kill broker-a: done")
    assert states(tmp_path)["broker-a"] == "killed"
    screen.press("k")
    screen.wait_for(r"broker-a is killed: s starts it")
    screen.press("s")
    screen.wait_for(r"start broker-a: done")
    rmqlab(tmp_path, "wait", "-n", "live", "route-has", "broker-a-s")
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
def test_watch_controls_a_detached_cluster_and_leaves_it_running(detached: Path) -> None:
    with on_a_screen(detached, "watch", "-n", "live") as screen:
        screen.wait_for(r"NAMESERVER +ROUTE")
        screen.wait_for(r"broker_registered")  # before anybody watched
        screen.wait_for(r"q leave")
        screen.press("k")
        screen.wait_for(r"kill broker-a: done")
        screen.wait_for(r"node_killed")  # among the events
        screen.wait_for(r"broker-a +ASYNC_MASTER +killed")  # and in the table, which the next key goes by
        screen.press("x")
        screen.wait_for(r"broker-a is killed: s starts it")
        screen.press("2i")
        screen.wait_for(r"isolate broker-a-s: done")
        screen.wait_for(r"isolate target=broker-a-s")  # the fault is on the screen: h heals what is seen
        screen.press("h")
        screen.wait_for(r"healed f1")
        screen.press("q")
        assert screen.process.wait(PATIENCE) == 0
    assert states(detached) == {"namesrv-1": "ready", "broker-a": "killed", "broker-a-s": "ready"}


@pytest.mark.timeout(300)
def test_watching_ends_with_the_cluster_and_without_a_terminal_it_is_lines(detached: Path) -> None:
    command = [sys.executable, "-m", "rmqlab.cluster", "watch", "-n", "live"]
    with (
        on_a_screen(detached, "watch", "-n", "live") as screen,
        subprocess.Popen(command, env=home_of(detached), stdout=subprocess.PIPE, text=True) as lines,
    ):
        assert lines.stdout is not None
        shown = [next(line for line in lines.stdout if "Events:" in line)]
        screen.wait_for(r"NAMESERVER +ROUTE")
        rmqlab(detached, "kill", "-n", "live", "broker-a:slave")
        shown += [next(line for line in lines.stdout if "node_killed" in line)]
        assert "broker-a-s" in shown[-1]
        rmqlab(detached, "down", "-n", "live")
        screen.wait_for(r"cluster live has ended")
        assert lines.stdout.read().splitlines()[-1] == "cluster live has ended"
        assert (screen.process.wait(PATIENCE), lines.wait(PATIENCE)) == (0, 0)


@pytest.mark.timeout(300)
def test_a_terminal_that_is_closed_stops_the_cluster_in_order(screen: Screen, tmp_path: Path) -> None:
    screen.wait_for(r"NAMESERVER +ROUTE")
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
