"""The settings of a run's nodes, from their files `config.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rmqlab.runtime.config.tomltext import parse_toml
from rmqlab.runtime.regularfile import read_regular
from rmqlab.verdict.rules import HARDENED

_KEEPS_NEWER: Final = "keep_newer_consumer_offsets"
KEEPING_KEYS: Final = frozenset({_KEEPS_NEWER, "profile"})
"""Settings that decide whether a slave keeps newer consumer offsets."""

Settings = Mapping[str, Any]


def read_settings(directory: Path, node: str) -> Settings | None:
    """Return the settings of a node; None if its config.toml cannot be read."""
    try:
        return parse_toml(read_regular(directory / node / "config.toml").decode())
    except (OSError, ValueError, RecursionError):
        return None


def why_no_index(settings: Settings | None) -> str:
    """Return why a broker keeps no index.

    Empty if it keeps one, or if its settings are unknown.
    """
    is_off = settings is not None and settings.get("message_index_enable") is False
    return "its setting messageIndexEnable is false" if is_off else ""


def keeps_newer_offsets(settings: Settings) -> bool:
    """Return True if a slave keeps consumer offsets that are newer than its master's.

    A key that is set by hand wins over the profile.
    """
    return bool(settings.get(_KEEPS_NEWER, settings.get("profile") == HARDENED))
