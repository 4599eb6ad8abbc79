"""The delays of delay levels, by the settings of a broker that need not run."""

from collections.abc import Mapping
from typing import Any

from rmqlab.store.config import DEFAULT_DELAY_LEVELS, parse_delay_levels


def delay_millis(settings: Mapping[str, Any] | None) -> tuple[int, ...]:
    """Return the delays in ms, level 1 first; empty if they are unknown or invalid."""
    if settings is None:
        return ()
    try:
        return parse_delay_levels(str(settings.get("message_delay_level", DEFAULT_DELAY_LEVELS)))
    except (ValueError, KeyError):
        return ()
