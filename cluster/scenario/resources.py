"""Resources of a run: the duration of its start, memory and processor time."""

import contextlib
import re
import resource
from collections.abc import Iterable
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Resources:
    """Real seconds and bytes. None if unknown."""

    start_seconds: float | None = None
    """From the start until every node was ready."""
    memory_bytes: int | None = None
    """Memory of all processes before the first step; shared pages count once (PSS; Linux)."""
    cpu_seconds: float = 0.0
    """Processor time of all processes until their ends."""


def memory_of(pids: Iterable[int]) -> int | None:
    """Return the memory of processes in bytes; None if the system does not report it."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    return total or None


def cpu_seconds_of_nodes(*, is_simulated: bool) -> float:
    """Return the processor time of all ended descendants of this process.

    If nodes are simulated in this process, measure this process.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF if is_simulated else resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
