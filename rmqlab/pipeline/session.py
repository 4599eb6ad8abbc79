"""Open a Spark session with rmqlab's data sources that logs only errors.

    with open_session() as spark:
        spark.read.format("rocketmq-store").load("/data/rocketmq/store").count()

Local by default; with `master` the same jobs run on a cluster, which has its own Java and needs this package on its
executors. Executors run the Python of PYSPARK_PYTHON or spark.pyspark.python, else this interpreter's path. Reference:
spark.md sections 1 to 4.
"""

import atexit
import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.pipeline.java import NoJavaError, find_java
from rmqlab.pipeline.masters import LOCAL, NoMasterError, check_master, is_local
from rmqlab.pipeline.spark_home import Machine, make_log_settings, make_overlay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("pyspark", "pyarrow", "numpy")

QUIET: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
}
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",  # saves 40 ms per Python task (spark.md, pitfall 6)
}
SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # many tasks do not speed up small jobs
}


class NoSparkError(Exception):
    """Spark cannot be started. The text says why, and what to do."""


@contextlib.contextmanager
def open_session(
    master: str = LOCAL,
    *,
    machine: Machine | None = None,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    app_name: str = "rmqlab",
) -> Iterator["SparkSession"]:
    """Open a session for the duration of the block, or until the interpreter exits.

    `machine` configures the JVM of a local run, and is ignored otherwise. `settings` override ours. `py_files` are
    modules and archives for the executors' import path. Only one session may be open in a process. Raises NoSparkError
    if the extra, Java or a file is missing, or the master does not respond.
    """
    check_installed()
    given = settings or {}
    local = is_local(master)
    try:
        check_master(master)
    except NoMasterError as exc:
        raise NoSparkError(str(exc)) from None
    _check_files(py_files)
    with _environment(local=local, machine=machine or Machine(), python=given.get("spark.pyspark.python")):
        spark = _start(master, app_name, {**QUIET, **(LOCAL_SETTINGS if local else {}), **SETTINGS, **given})
    with contextlib.ExitStack() as at_end:
        at_end.callback(spark.stop)
        # If the block is still open when the interpreter exits, it would wait forever for the gateway's threads.
        atexit.register(at_end.close)
        at_end.callback(atexit.unregister, at_end.close)
        for path in py_files:
            spark.sparkContext.addPyFile(path)
        register_sources(spark)
        yield spark


def _check_files(paths: Sequence[str]) -> None:
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise NoSparkError(f"there is no file {path}; expected a .py, .zip or .egg file for the executors")


def check_installed() -> None:
    """Raise NoSparkError with the names of the extra's missing packages."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NoSparkError(f"{', '.join(missing)} cannot be imported: `pip install 'rmqlab[spark]'`, or `make spark`")


def register_sources(spark: "SparkSession") -> None:
    """Register rmqlab's data sources, by their own names, in a session of other code."""
    from rmqlab.pipeline.journalsource import JournalSource  # noqa: PLC0415 - these need Spark, this module does not
    from rmqlab.pipeline.queuesource import QueueSource  # noqa: PLC0415
    from rmqlab.pipeline.storesource import StoreSource  # noqa: PLC0415
    from rmqlab.pipeline.topicsource import TopicSource  # noqa: PLC0415

    for source in (TopicSource, StoreSource, QueueSource, JournalSource):
        spark.dataSource.register(source)


def _start(master: str, app_name: str, settings: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as exc:
        raise NoSparkError(f"Spark did not start at master {master}: {_cause(str(exc))}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _cause(text: str) -> str:
    """Return the first line with a cause of a Java or Python error, without stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))]
    return (causes or lines or [text])[0]


@contextlib.contextmanager
def _environment(*, local: bool, machine: Machine, python: str | None) -> Iterator[None]:
    """Set the environment that PySpark reads at its start, and restore it afterwards.

    `python` is the executors' interpreter, if a setting selects it.
    """
    wanted = _local_environment(machine) if local else _cluster_environment()
    default = wanted["PYSPARK_DRIVER_PYTHON"]
    wanted["PYSPARK_PYTHON"] = python or os.environ.get("PYSPARK_PYTHON") or default
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _cluster_environment() -> dict[str, str]:
    """Return the driver's interpreter and JVM log level settings, plus the user's.

    Raises NoSparkError.
    """
    try:
        log = f"-Dlog4j2.configurationFile={make_log_settings().as_uri()}"
    except OSError as exc:
        raise NoSparkError(str(exc)) from None
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {log}".strip()
    return {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options}


def _local_environment(machine: Machine) -> dict[str, str]:
    """Return the home of a local run, and the interpreter of its planners.

    Raises NoSparkError.
    """
    import pyspark  # noqa: PLC0415

    try:
        home = make_overlay(Path(pyspark.__file__).parent, find_java(), machine)
    except (NoJavaError, OSError) as exc:
        raise NoSparkError(str(exc)) from None
    return {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": str(home / "bin" / "python"),
    }
