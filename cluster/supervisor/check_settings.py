"""Checks the brokers' settings of a cluster before any node starts.

Only the broker's parser has the list of its keys, and `cluster` does not import the broker. So a short-lived process
(0.2 s) runs the parser.
"""

import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.fork.ownmodules import module_command
from rmqlab.cluster.supervisor.plan.nodesettings import toml_text
from rmqlab.runtime.config.settings import NO_SIMILAR_KEY
from rmqlab.runtime.config.validators import line_fault, shown

_KEY = re.compile(r"[A-Za-z0-9_-]+")


class BadSettingsError(ValueError):
    """Brokers reject these settings.

    The message contains key, value, and the expected value.
    """


def try_settings(settings: Mapping[str, Any], members: int = 0) -> list[str]:
    """Let a broker check these settings, whose keys are in snake_case.

    Return its warnings, such as keys without effect. `members`: the number of members of its DLedger group, 0 for a
    plain broker.

    BadSettingsError if it rejects them.
    """
    if not settings:
        return []
    for key, value in settings.items():
        _check_value(key, value)
    with tempfile.TemporaryDirectory(prefix="rmqlab-") as directory:
        path = Path(directory) / "settings.toml"
        path.write_text(toml_text({**settings, **_membership(members)}), "utf-8")
        done = subprocess.run(  # noqa: S603 -- ourselves
            module_command("rmqlab.broker", "--check", os.fspath(path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            process_group=0,  # Ctrl-C must reach only the command, else it looks like rejected settings
        )
    lines = [line.partition(f"{path}: ")[2] or line for line in done.stderr.splitlines()]
    if done.returncode:
        raise BadSettingsError(lines[-1] if lines else f"the check of the settings ended with status {done.returncode}")
    return lines


def _membership(members: int) -> dict[str, Any]:
    """Return the settings of the first member of a DLedger group of this size."""
    if not members:
        return {}
    return {
        "enable_dleger_commit_log": True,
        "d_leger_group": "checked",
        "d_leger_peers": ";".join(f"n{number}-127.0.0.1:40911" for number in range(members)),
        "d_leger_self_id": "n0",
    }


def _check_value(key: str, value: Any) -> None:
    """Raise BadSettingsError for values that TOML cannot represent.

    The Python API accepts any object.
    """
    if not _KEY.fullmatch(key):
        raise BadSettingsError(f"unknown key {shown(key)}; {NO_SIMILAR_KEY}")
    if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadSettingsError(f"{key} = {shown(value)}: expected text, a number, true or false")
    if isinstance(value, str) and (fault := line_fault(value)):
        raise BadSettingsError(f"{key} = {shown(value)}: expected {fault}")
