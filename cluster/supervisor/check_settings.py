"""Whether a broker takes the settings that somebody wants for all of them: asked before anything starts.

Only the broker's own reader knows its keys, and it is another program: a process of a moment (0.2 s) reads them.
"""

import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.topology import toml_text
from rmqlab.runtime.validators import line_fault, shown

_KEY = re.compile(r"[A-Za-z0-9_-]+")


class BadSettingsError(ValueError):
    """No broker takes these settings. The text names key and value, and what was expected."""


def try_settings(settings: Mapping[str, Any]) -> list[str]:
    """Let a broker read these settings, by our names; its remarks, such as what has no effect.

    BadSettingsError where it refuses them.
    """
    if not settings:
        return []
    for key, value in settings.items():
        _check_value(key, value)
    with tempfile.TemporaryDirectory(prefix="rmqlab-") as directory:
        path = Path(directory) / "settings.toml"
        path.write_text(toml_text(settings), "utf-8")
        done = subprocess.run(  # noqa: S603 -- ourselves
            [sys.executable, "-m", "rmqlab.broker", "--check", os.fspath(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line.partition(f"{path}: ")[2] or line for line in done.stderr.splitlines()]
    if done.returncode:
        raise BadSettingsError(lines[-1] if lines else f"a broker that reads them ends with status {done.returncode}")
    return lines


def _check_value(key: str, value: Any) -> None:
    """BadSettingsError for what TOML cannot say: the Python API passes any object."""
    if not _KEY.fullmatch(key):
        raise BadSettingsError(f"unknown key {shown(key)}; expected RocketMQ's keys in this form: listen_port")
    if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadSettingsError(f"{key} = {shown(value)}: expected text, a number, true or false")
    if isinstance(value, str) and (fault := line_fault(value)):
        raise BadSettingsError(f"{key} = {shown(value)}: expected {fault}")
