"""External commands as steps of a scenario: `run = ["command", "argument"]`.

They run with the rights of the user, so a scenario has them only if it is played with `--allow-commands`.
"""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.printable import printable
from rmqlab.runtime.validators import shown

VERB: Final = "run"
FOLDER: Final = "commands"
"""Of the run directory: has the output of each command."""
_LONGEST_SHOWN: Final = 500
"""Characters of a command in events and errors."""
STOP_SECONDS: Final = 5.0
"""Real seconds between SIGTERM and SIGKILL."""


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
                raise NotAllowedError(f"{place}: a command lives in real time, and cannot reach a simulated cluster")
            if not is_allowed:
                raise NotAllowedError(f"{place}: commands run only with --allow-commands")


async def run_command(cluster: Cluster, command: CommandLine, label: str, seconds: float) -> None:
    """Run a command until it ends. CommandError unless it ends with status 0 in time.

    `seconds` are real ones. Its output goes into the run directory. A command that takes too long, or whose run is
    cancelled, is ended with its process group.
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
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            raise CommandError(f"{command}: {exc}") from None
    try:
        with trio.move_on_after(real_seconds(seconds)):
            await process.wait()
    finally:
        ended_in_time = process.returncode is not None
        if not ended_in_time:
            await _end_group(process)
    supervisor.record(
        "", "command_ended", command_line=str(command), exit_status=process.returncode, output=output.name
    )
    if not ended_in_time:
        raise CommandError(f"{command}: still ran after {seconds:g} s, and was ended; output: {output}")
    if process.returncode != 0:
        raise CommandError(f"{command}: exit status {process.returncode}; output: {output}")


def _output_path(run: Path, title: str) -> Path:
    folder = run / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    number = 1 + sum(1 for _ in folder.iterdir())
    return folder / f"{number:02}-{re.sub(r'[^A-Za-z0-9._-]+', '-', title)[:60]}.log"


async def _end_group(process: trio.Process) -> None:
    """End a process that has not been reaped, with its group.

    Until then no other group can have its id.
    """
    with trio.CancelScope(shield=True):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                os.killpg(process.pid, number)
                with trio.move_on_after(real_seconds(STOP_SECONDS)):
                    await process.wait()
