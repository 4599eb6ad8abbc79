"""Functions that examine a Spark worker.

They are pickled by value, because workers may lack this package: so only the standard library is imported here.
"""

import importlib
import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from typing import TypedDict


class WorkerReport(TypedDict):
    """What a task found on its worker."""

    host: str
    executor: int
    """Process id of the parent of the executor's Python processes."""
    python: str
    platform: str
    """Suffix of compiled modules: Python version, processor and operating system."""
    faults: dict[str, str]
    """What is wrong there, by the name of a package or path."""


def examine(find_faults: Callable[[], dict[str, str]], _: Iterable[int]) -> Iterator[WorkerReport]:
    """Yield a report about the worker that runs this task."""
    yield {
        "host": socket.gethostname(),
        "executor": os.getppid(),
        "python": sys.executable,
        "platform": str(sysconfig.get_config_var("EXT_SUFFIX")),
        "faults": find_faults(),
    }


def import_faults(names: Iterable[str]) -> dict[str, str]:
    """Return the packages that cannot be imported, each with the reason.

    The reason is empty for a package that is not installed.
    """
    faults = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as exc:
            faults[name] = "" if isinstance(exc, ModuleNotFoundError) and exc.name == name else str(exc)
    return faults


def path_faults(file: str) -> dict[str, str]:
    """Return the fault of a file's directory on this machine, by the file.

    Empty if the file exists, and its directory can be written.
    """
    if not os.path.exists(file):  # noqa: PTH110 - a path of the driver's system
        return {file: "does not see"}
    return {} if os.access(os.path.dirname(file), os.W_OK) else {file: "cannot write to"}  # noqa: PTH120
