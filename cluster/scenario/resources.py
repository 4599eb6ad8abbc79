"""What a run cost the machine: how long its start took, memory, processor time."""

import contextlib
import re
import resource
from collections.abc import Iterable
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Resources:
    """Real seconds and bytes. What is not known is None."""

    start_seconds: float | None = None
    """From the beginning until every node was ready."""
    memory_bytes: int | None = None
    """Of all processes of the cluster before the first step, pages that several share counted once (PSS; Linux)."""
    cpu_seconds: float = 0.0
    """Of all processes of the cluster, to their ends."""


def memory_of(pids: Iterable[int]) -> int | None:
    """The memory that processes have together, in bytes; None where the system does not tell."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    return total or None


def children_cpu_seconds() -> float:
    """Processor time of all processes that this one, or one below it, has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
