"""Ctrl-C during work on Spark: one KeyboardInterrupt, without tracebacks of py4j."""

import contextlib
import logging
import os
import pathlib
import signal
from collections.abc import Iterator

from rmqlab.runtime.interrupts import as_ctrl_c


@contextlib.contextmanager
def silent_requests() -> Iterator[None]:
    """Let py4j log no failed requests to the JVM.

    Each also raises an exception. Ctrl-C during a request would print two tracebacks before the line of the command.
    """
    logger = logging.getLogger()  # the one that py4j uses
    logger.addFilter(_is_not_py4js)
    try:
        yield
    finally:
        logger.removeFilter(_is_not_py4js)


@contextlib.contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt in this block, which begins with a session.

    The handler of a session asks the JVM to cancel all jobs, in the middle of another request: both fail. The end of
    the session cancels the jobs, too.
    """
    with as_ctrl_c(signal.SIGINT):
        yield


@contextlib.contextmanager
def ending_programs() -> Iterator[None]:
    """End the programs that this block started if Ctrl-C interrupts it.

    PySpark leaves a JVM that starts alone, and removes the directory for its address: it would print a stack trace
    after the command has ended. Only on Linux; Python's own processes, such as those of a pool, are not touched.
    """
    before = _programs()
    try:
        yield
    except KeyboardInterrupt:
        for pid in _programs() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def _programs() -> set[int]:
    """Return the children of this process that run another program than Python."""
    found = set[int]()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            pid_and_name, _, rest = (process / "stat").read_text("utf-8", "replace").rpartition(")")
            _state, parent, *_ = rest.split()
            pid, _, name = pid_and_name.partition(" (")
            if int(parent) == os.getpid() and not name.startswith("python"):
                found.add(int(pid))
    return found


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return "py4j" not in pathlib.PurePath(record.pathname).parts
