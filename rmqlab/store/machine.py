"""What a store learns about its machine: physical memory and used disk space.

A simulation replaces both, because its course must not depend on the real machine. Call them as
`machine.memory_bytes()`, never by an imported name.
"""

import os
from collections.abc import Callable
from pathlib import Path

_ASSUMED_MEMORY = 24 * 2**30  # RocketMQ's assumption if the memory size is unknown


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return _ASSUMED_MEMORY


def _disk_used_percent(path: Path) -> int:
    try:
        stat = os.statvfs(path)
    except OSError:
        return -1
    used = stat.f_blocks - stat.f_bfree
    seen = used + stat.f_bavail
    return -(-100 * used // seen) if seen else 0


memory_bytes: Callable[[], int] = _memory_bytes
"""Returns the bytes of physical memory. They decide when a reader counts as far behind (section 6.2)."""
disk_used_percent: Callable[[Path], int] = _disk_used_percent
"""Returns the used space of a file system in percent, as `Disk.used_percent`; -1 if unknown."""


def replace(new_memory_bytes: Callable[[], int], new_disk_used_percent: Callable[[Path], int]) -> None:
    """Use these facts from now on, in the whole process."""
    global memory_bytes, disk_used_percent
    memory_bytes, disk_used_percent = new_memory_bytes, new_disk_used_percent
