"""Decides which messages a broker may have deleted for their age, for both judges.

A broker deletes whole files from the begin of its log (event `file_deleted`). What it deleted is older than the first
record that it kept, so a message that was created later is none of that, even if its queue has no earlier record left.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rmqlab.verdict.clocksteps import TOLERANCE


def are_clocks_right(faults: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if times of different processes can be compared.

    `faults` are the fields of each `fault_applied`.
    """
    return not any(fields.get("fault") == "clock" for fields in faults)


def latest_deleted(first_stored_at: int | None, *, are_clocks_right: bool) -> int | None:
    """Return the latest time at which a deleted message can have been created.

    In milliseconds; None if it is not known. `first_stored_at` is the lowest store time of the records that the broker
    kept; None if it kept none.
    """
    return first_stored_at + TOLERANCE if first_stored_at is not None and are_clocks_right else None
