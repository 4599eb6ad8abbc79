"""Failures of disks, paths and output; commands whose exit status is a result."""

import errno
import os
import sys

_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors of writes and syncs, which name no file."""
JUDGING = frozenset({"check", "audit", "report", "run", "repro", "scenarios", "compare", "hunt", "diff", "wait"})
"""Commands whose exit status 1 is a result, such as the verdict `violated`: whatever prevents a result ends with 2."""


def disk_failure(exc: BaseException) -> OSError | None:
    """Return the failure of a path or a disk; None for a defect.

    A path that was given, or the machine, is its cause: a traceback would not help.
    """
    if isinstance(exc, BaseExceptionGroup):
        failures = [disk_failure(one) for one in exc.exceptions]
        return None if None in failures else failures[0]
    if isinstance(exc, OSError) and (exc.filename is not None or exc.errno in _DISK_FAILURES):
        return exc
    return None


class OutputClosedError(Exception):
    """Nobody reads what a command prints, as after `| head -1`.

    Not an OSError, which some commands report as the failure of a file.
    """


def has_only(exc: BaseException, *kinds: type[BaseException]) -> bool:
    """Return True for an exception of these kinds, or a group of tasks with no other."""
    if isinstance(exc, BaseExceptionGroup):
        return all(has_only(one, *kinds) for one in exc.exceptions)
    return isinstance(exc, kinds)


def discard_output() -> None:
    """Let stdout lead nowhere: the interpreter flushes it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
