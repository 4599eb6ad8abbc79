"""The store's view of its machine: memory, disk space, names of paths.

A simulation replaces it, because its results must not depend on the real machine.
"""

import os
from pathlib import Path

import attrs

_ASSUMED_MEMORY = 24 * 2**30  # RocketMQ's assumption if the memory size is unknown


@attrs.frozen
class DiskSpace:
    """Space of a file system in bytes, as ordinary users see it."""

    total: int
    free: int


class Machine:
    """The real machine."""

    def memory_bytes(self) -> int:
        """Return the bytes of physical memory.

        The broker suggests its slave to readers that are farther behind than a share of it (section 6.2).
        """
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError):
            return _ASSUMED_MEMORY

    def used_percent(self, path: Path) -> int:
        """Return the used space of a file system in percent, rounded up.

        -1 if unknown.
        """
        try:
            stat = os.statvfs(path)
        except OSError:
            return -1
        used = stat.f_blocks - stat.f_bfree
        seen = used + stat.f_bavail
        return -(-100 * used // seen) if seen else 0

    def disk_space(self, path: Path) -> DiskSpace:
        """Return the space of a file system. OSError if there is no such path."""
        stat = os.statvfs(path)
        return DiskSpace(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def path_name(self, path: Path) -> str:
        """Return the name of a path for replies to clients."""
        return str(path)


_machine = Machine()


def this_machine() -> Machine:
    """Return the machine of this process."""
    return _machine


def set_machine(machine: Machine) -> None:
    """Set the machine of the whole process, from now on."""
    global _machine  # noqa: PLW0603 -- one machine for each process
    _machine = machine
