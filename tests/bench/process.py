"""Memory and CPU of a process, as the kernel counts them."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> float:
    """Return the proportional set size in MB: private pages, and a share of others.

    Shared pages count in proportion to the processes that map them.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    raise ValueError(f"no Pss line for process {pid}")


def own_memory_mb(pid: int) -> float:
    """Memory that no file backs, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    raise ValueError(f"no RssAnon line for process {pid}")


def cpu_seconds(pid: int) -> float:
    """User and system time since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
