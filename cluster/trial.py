"""Whether a broker takes the settings that somebody wants for all of them: asked before anything starts.

Only the broker's own reader knows its keys, and it is another program: a process of a moment (0.2 s) reads them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.topology import toml_text


class BadSettingsError(ValueError):
    """No broker takes these settings. The text names key and value, and what was expected."""


def try_settings(settings: Mapping[str, Any]) -> list[str]:
    """Let a broker read these settings, by our names; its remarks, such as what has no effect.

    BadSettingsError where it refuses them.
    """
    if not settings:
        return []
    with tempfile.TemporaryDirectory(prefix="rmqlab-") as directory:
        path = Path(directory) / "settings.toml"
        path.write_text(toml_text(settings))
        done = subprocess.run(  # noqa: S603 -- ourselves
            [sys.executable, "-m", "broker", "--check", os.fspath(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line.partition(f"{path}: ")[2] or line for line in done.stderr.splitlines()]
    if done.returncode:
        raise BadSettingsError(lines[-1] if lines else f"a broker that reads them ends with status {done.returncode}")
    return lines
