"""Check the workers of a Spark cluster: their Python and paths.

Each error names a worker and the remedy. Without these checks the first task fails four times, and Spark shows stacks.
"""

import functools
import logging
import re
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqlab.pipeline.errors import NoSparkError, first_cause
from rmqlab.pipeline.spark import workerprobe
from rmqlab.pipeline.spark.environment import PYTHON_NAME, PYTHON_VERSION
from rmqlab.pipeline.spark.shipping import COMPILED, INSTALLED, PURE
from rmqlab.pipeline.spark.workerprobe import WorkerReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FindFaults = Callable[[], dict[str, str]]
_OWN_PLATFORM = str(sysconfig.get_config_var("EXT_SUFFIX"))
_ROUNDS = 5
_SILENT_SECONDS = 20.0
_LOG = logging.getLogger(__name__)
_SET_PYTHON = (
    f"Set PYSPARK_PYTHON to a Python {PYTHON_VERSION} that all workers and this machine have, such as {PYTHON_NAME}"
)
_CAUSES: Final = (
    (re.compile(r'Cannot run program "(?P<python>[^"]+)"'), f"cannot run {{python}}. {_SET_PYTHON}"),
    (
        re.compile(r"different version: (?P<theirs>[\d.]+) than that in driver: (?P<ours>[\d.]*\d)"),
        f"runs Python {{theirs}}, and this driver {{ours}}. {_SET_PYTHON}",
    ),
    (re.compile(r"No module named '?pyspark"), "has no pyspark. Set SPARK_HOME there, or install pyspark"),
    (
        re.compile("AF_UNIX path too long"),
        "has too long a path for sockets. Set spark.python.unix.domain.socket.dir to a short one, such as /tmp",
    ),
)
"""Patterns of Spark's errors about the Python of a worker, and how to say them."""


class WorkerError(NoSparkError):
    """Workers cannot run tasks of this package.

    The text names a worker and the remedy.
    """


def have_own_platform(spark: "SparkSession") -> bool:
    """Return True if all workers can load compiled modules of this machine.

    Raises WorkerError.
    """
    return all(report["platform"] == _OWN_PLATFORM for report in examine_workers(spark, dict))


def check_packages(spark: "SparkSession", *, are_shipped: bool) -> None:
    """Raise WorkerError if a worker cannot import this package, or what it imports."""
    find = functools.partial(workerprobe.import_faults, (*INSTALLED, *COMPILED, *PURE))
    for report in examine_workers(spark, find):
        if faults := report["faults"]:
            raise WorkerError(f"{_name(report)} {_import_error(faults, are_shipped=are_shipped)}")


def check_shared_directory(spark: "SparkSession", directory: Path) -> None:
    """Check that workers see a directory of this machine, and can write there.

    Creates it if missing. Raises WorkerError, or OSError if it cannot be created.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".shared-") as mark:
        reports = examine_workers(spark, functools.partial(workerprobe.path_faults, mark.name))
    for report in reports:
        if mark.name in report["faults"]:
            raise WorkerError(
                f"{_name(report)} {report['faults'][mark.name]} {directory}. All workers must have the run under the"
                f" same path: put it on a shared file system, with RMQLAB_HOME there, or leave --master out"
            )


def examine_workers(spark: "SparkSession", find_faults: FindFaults) -> list[WorkerReport]:
    """Return the reports of all executors that the session has by now.

    Raises WorkerError if a worker cannot run Python. Executors that start later are not examined.
    """
    context = spark.sparkContext
    found: dict[tuple[str, int], WorkerReport] = {}
    for _ in range(_ROUNDS):
        # Spark offers the tasks to all executors in turn.
        slots = max(2, context.defaultParallelism)
        tasks = context.parallelize(range(slots), slots)
        with _pickled_by_value(), _patience(spark), _failures_explained(spark):
            reports = tasks.mapPartitions(functools.partial(workerprobe.examine, find_faults)).collect()
        found |= {(report["host"], report["executor"]): report for report in reports}
        if len(found) >= _executor_count(spark):
            break
    return list(found.values())


@contextmanager
def _pickled_by_value() -> Iterator[None]:
    from pyspark import cloudpickle  # noqa: PLC0415 - not without the extra

    cloudpickle.register_pickle_by_value(workerprobe)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(workerprobe)


@contextmanager
def _patience(spark: "SparkSession") -> Iterator[threading.Timer]:
    """Log a warning if the session gets no executor for a while.

    Spark would wait without a message.
    """

    def warn() -> None:
        if not _executor_count(spark):
            _LOG.warning(
                "%s has given this session no executor for %g s, and Spark waits on. Are workers registered, with a"
                " core and spark.executor.memory free? Or do executors fail at their start, by the logs of workers?",
                spark.sparkContext.master,
                _SILENT_SECONDS,
            )

    timer = threading.Timer(_SILENT_SECONDS, warn)
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


@contextmanager
def _failures_explained(spark: "SparkSession") -> Iterator[None]:
    """Convert Spark's error about a task to a WorkerError."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - not without the extra
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as exc:
        raise WorkerError(f"{_failed_worker(spark)} {explain(str(exc))}") from None


def explain(error: str) -> str:
    """Return what a worker cannot do, from Spark's error about a task."""
    for pattern, meaning in _CAUSES:
        if found := pattern.search(error):
            return meaning.format(**found.groupdict())
    return f"cannot run Python tasks: {first_cause(error)}"


def _failed_worker(spark: "SparkSession") -> str:
    """Return the address of a worker on which tasks failed."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - as below
    every = [executors.apply(index) for index in range(executors.size())]
    failed = [executor.hostPort().rpartition(":")[0] for executor in every if executor.failedTasks()]
    return f"worker {failed[0]}" if failed else "a worker"


def _executor_count(spark: "SparkSession") -> int:
    """Return the number of executors without the driver, which Spark counts as one."""
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001 - no other way


def _name(report: WorkerReport) -> str:
    return f"worker {report['host']} ({report['python']}, {report['platform']})"


def _import_error(faults: Mapping[str, str], *, are_shipped: bool) -> str:
    """Return what cannot be imported, and the remedy."""
    if large := [name for name in INSTALLED if name in faults]:
        return f"cannot import {_listed(large, faults)}. Install it there: it is too large to ship"
    names = ["rmqlab"] if "rmqlab" in faults else list(faults)
    if are_shipped:
        remedy = f"Install it there: this machine's is compiled for {_OWN_PLATFORM}"
    else:
        remedy = "Ship it with --ship, or open_session(..., ship=True), or install rmqlab[spark] there"
    return f"cannot import {_listed(names, faults)}. {remedy}"


def _listed(names: Sequence[str], faults: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({faults[name]})" if faults[name] else name for name in names)
