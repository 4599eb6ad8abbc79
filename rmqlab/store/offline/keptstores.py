"""Whether a run kept the stores of its brokers, which judges need."""

import json
from pathlib import Path


def no_stores_hint(run: Path) -> str:
    """Return what to do if a run's directory has no store, else an empty text.

    A scenario's run deletes the stores if its claim holds.
    """
    if any(run.glob("*/store")) or not (run / "scenario.toml").exists():
        return ""
    return f"this run kept no stores: play it again with `{_command(run)} --keep-stores`"


def _command(run: Path) -> str:
    """Return the command that repeats a run, by its record."""
    try:
        return str(json.loads((run / "run.json").read_bytes())["command"])
    except (OSError, ValueError, LookupError, TypeError):
        return "rmqlab run NAME"
