"""Rules about the time and address of producers, for both judges."""

from typing import Final

from rmqlab.verdict.conditions import Conditions

CLOCK_SLACK: Final = 1000
"""Milliseconds between a send and the creation of its message, as `clock_disagreement` does not see less."""


def why_unknown(conditions: Conditions, *, has_sends: bool, has_stores: bool) -> str:
    """Return why producers cannot be compared; empty if they can."""
    if not has_sends or not has_stores:
        return "no workload of the journal sent anything" if has_stores else "no store was given"
    return "a fault set clocks, perhaps during a send" if conditions.has_clock_faults else ""
