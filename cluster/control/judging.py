"""The judgement of the run, made by a process of its own.

Journals can be large: reading them must neither delay the supervisor nor use its memory.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from rmqlab.cluster.supervisor.fork.ownmodules import module_command
from rmqlab.runtime.clock import real_seconds

CHECK_SECONDS = 600.0
_LONGEST_REASON = 2000


class CannotJudgeError(Exception):
    """`rmqlab check` rejected the request. The text is its error."""


async def judge(directory: Path, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the document of `rmqlab check --json`. CannotJudgeError, TooSlowError."""
    if any("\0" in metric for metric in metrics):  # no argument of a process
        raise CannotJudgeError("a metric's name has no NUL character; `rmqlab check --metrics` lists all")
    options = [f"--metric={metric}" for metric in metrics]
    command = module_command("rmqlab.cluster", "check", "--json", *options, "--", os.fspath(directory))
    with trio.fail_after(real_seconds(CHECK_SECONDS)):
        done = await trio.run_process(
            command, stdin=subprocess.DEVNULL, capture_stdout=True, capture_stderr=True, check=False
        )
    if not done.stdout.strip():
        reason = done.stderr.decode("utf-8", "replace").strip().removeprefix("rmqlab: ")
        raise CannotJudgeError(reason[:_LONGEST_REASON] or f"it ended with status {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
