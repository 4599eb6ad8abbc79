"""External commands as steps of a scenario: `run = ["command", "argument"]`.

They run with the rights of the user, so a scenario has them only if it is played with `--allow-commands`.
"""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
import trio

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.text.printable import printable

VERB: Final = "run"
FOLDER: Final = "commands"
"""Subdirectory of the run directory for the output of each command."""
_LONGEST_SHOWN: Final = 500
"""Characters of a command in events and errors."""
MOST_OUTPUT: Final = 16 * 2**20
"""Bytes of a command's output that are kept."""
STOP_SECONDS: Final = 5.0
"""Real seconds between SIGTERM and SIGKILL."""
DRAIN_SECONDS: Final = 1.0
"""Real seconds for the rest of the output when the group has ended."""
_POLL_SECONDS: Final = 0.02
_PROC: Final = Path("/proc")


class CommandError(Exception):
    """A command did not start, ran too long, or ended with another status than 0."""


class NotAllowedError(ValueError):
    """A scenario has commands that may not run."""


@attrs.frozen
class CommandLine:
    """A program and its arguments. No shell reads them.

    As text: one line of limited length, with the quotes that a shell needs.
    """

    words: tuple[str, ...]

    def __str__(self) -> str:
        return printable(cut_text(shlex.join(self.words), _LONGEST_SHOWN))


def read_command(value: Any) -> CommandLine:
    """Return the argument of a step. TypeError for another one."""
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value) or not value[0]:
        raise TypeError(
            f'expected an array of a command and its arguments, such as ["make", "test"], got {shown(value)}'
        )
    return CommandLine(tuple(value))


def check_commands(scenario: Scenario, *, is_allowed: bool, is_simulated: bool) -> None:
    """NotAllowedError for a scenario with commands that may not run."""
    for number, step in enumerate(scenario.steps, 1):
        if step.action is not None and step.action.verb == VERB:
            place = f"step {number}: run {step.action.argument}"
            if is_simulated:
                raise NotAllowedError(f"{place}: a command runs in real time, and cannot reach a simulated cluster")
            if not is_allowed:
                raise NotAllowedError(f"{place}: commands run only with --allow-commands")


async def run_command(cluster: Cluster, command: CommandLine, label: str, seconds: float) -> None:
    """Run a command until it ends. CommandError unless it ends with status 0 in time.

    `seconds` are real ones. Its output goes into the run directory, up to a limit. When it has ended, takes too long,
    or its run is cancelled, all processes of its group are ended.
    """
    supervisor = cluster.supervisor
    output = _output_path(supervisor.directory.path, label or Path(command.words[0]).name)
    environment = {
        **os.environ,
        "NAMESRV_ADDR": cluster.namesrv_addr,
        "RMQLAB_RUN_DIR": str(supervisor.directory.path),
    }
    with output.open("wb") as file:
        try:
            process = await trio.lowlevel.open_process(
                command.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            raise CommandError(f"{command}: {exc}") from None
        ended_in_time = await _play(process, file, seconds)
    supervisor.record(
        "", "command_ended", command_line=str(command), exit_status=process.returncode, output=output.name
    )
    if not ended_in_time:
        raise CommandError(f"{command}: still ran after {seconds:g} s, and was ended; output: {output}")
    if process.returncode != 0:
        raise CommandError(f"{command}: exit status {process.returncode}; output: {output}")


async def _play(process: trio.Process, file: BinaryIO, seconds: float) -> bool:
    """Wait until a process ends, then end its group. Return False if it took too long."""
    is_copied = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_copy_output, process, file, is_copied)
        try:
            with trio.move_on_after(real_seconds(seconds)) as limit:
                await _wait_unreaped(process)
        finally:
            await _end_group(process)
        with trio.move_on_after(real_seconds(DRAIN_SECONDS)):  # a process that left the group may keep the pipe open
            await is_copied.wait()
        nursery.cancel_scope.cancel()
    return not limit.cancelled_caught


async def _copy_output(process: trio.Process, file: BinaryIO, is_copied: trio.Event) -> None:
    """Write the output of a process into a file.

    What exceeds the limit is read and counted.
    """
    assert process.stdout is not None
    left, dropped = MOST_OUTPUT, 0
    try:
        async for data in process.stdout:
            file.write(data[:left])
            file.flush()
            dropped += max(0, len(data) - left)
            left = max(0, left - len(data))
    finally:
        if dropped:
            file.write(f"\n... {dropped} more bytes are not kept\n".encode())
    is_copied.set()


def _output_path(run: Path, title: str) -> Path:
    folder = run / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    number = 1 + sum(1 for _ in folder.iterdir())
    return folder / f"{number:02}-{re.sub(r'[^A-Za-z0-9._-]+', '-', title)[:60]}.log"


async def _wait_unreaped(process: trio.Process) -> None:
    """Wait until a process has ended.

    It stays a zombie, so that no other group can have its id.
    """
    if not hasattr(os, "pidfd_open"):  # macOS: what the process leaves in its group is not ended
        await process.wait()
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def _end_group(process: trio.Process) -> None:
    """End the running processes of a group, and reap its first one."""
    with trio.CancelScope(shield=True):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if _has_running(process):
                os.killpg(process.pid, number)
                with trio.move_on_after(real_seconds(STOP_SECONDS)):
                    while _has_running(process):  # noqa: ASYNC110 -- the kernel sets no event
                        await trio.sleep(real_seconds(_POLL_SECONDS))
        with trio.move_on_after(real_seconds(STOP_SECONDS)):
            await process.wait()


def _has_running(process: trio.Process) -> bool:
    """Return True if a process of the group runs."""
    if not _PROC.is_dir():
        return process.returncode is None
    return any(_is_running_in(process.pid, path) for path in _PROC.glob("[0-9]*/stat"))


def _is_running_in(group: int, path: Path) -> bool:
    try:
        state, _parent, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):  # it ended meanwhile
        return False
    return state not in (b"Z", b"X") and int(its_group) == group
