"""Memory and CPU of a process, as the kernel counts them."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> float:
    """Return the proportional set size in MB: private pages, and a share of others.

    Shared pages count in proportion to the processes that map them.
    """
    return smaps_mb(pid, "Pss")


def smaps_mb(pid: int, name: str) -> float:
    """Return a figure of all mappings in MB.

    For example `Private_Dirty`: pages that no other process shares.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1000
    raise ValueError(f"no {name} line for process {pid}")


def run_seconds(pid: int) -> tuple[float, int]:
    """Return the CPU seconds so far, and how often the process was woken.

    The seconds are exact to microseconds.
    """
    seconds, wakes = 0.0, 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
        status = (thread / "status").read_text()
        wakes += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return seconds, wakes


def page_faults(pid: int) -> int:
    """Return the number of page faults so far that read no disk.

    In a forked process, most are copies of its parent's pages.
    """
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


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
