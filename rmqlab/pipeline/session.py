"""Open a Spark session that knows our data sources, and says nothing but errors.

    with open_session() as spark:
        spark.read.format("rocketmq-store").load("/data/rocketmq/store").count()

Local by default; with `master` the same jobs run on a cluster, which brings its own Java and needs this package on
its executors. Executors run the Python of PYSPARK_PYTHON or spark.pyspark.python, else this interpreter's path.
Reference: spark.md sections 1 to 4.
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
    "spark.python.unix.domain.socket.enabled": "true",  # 40 ms less for every Python task (spark.md, pitfall 6)
}
SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # small jobs gain nothing from many tasks
}


class NoSparkError(Exception):
    """Spark cannot be started here. The text says why, and what to do."""


@contextlib.contextmanager
def open_session(
    master: str = LOCAL,
    *,
    machine: Machine | None = None,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    app_name: str = "rmqlab",
) -> Iterator["SparkSession"]:
    """A session for the length of the block, or until the interpreter exits.

    `machine` shapes the JVM of a local run, and is of no meaning elsewhere. `settings` win over ours. `py_files` are
    modules and archives for the executors' import path. Only one session may be open in a process. NoSparkError where
    the extra, Java or a file is missing, or the master does not answer.
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
        # A block that is still open when the interpreter exits would wait for ever for the gateway's threads.
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
    """NoSparkError that names the packages of the extra that are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NoSparkError(f"{', '.join(missing)} cannot be imported: `pip install 'rmqlab[spark]'`, or `make spark`")


def register_sources(spark: "SparkSession") -> None:
    """Tell a session of somebody else's making our data sources, by their own names."""
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
    """The first line of a Java or Python error that names a cause, without the stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))]
    return (causes or lines or [text])[0]


@contextlib.contextmanager
def _environment(*, local: bool, machine: Machine, python: str | None) -> Iterator[None]:
    """Set what PySpark reads as it starts a JVM and its workers; put it back afterwards, for others read it too.

    `python` is the executors' interpreter, where a setting names it.
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
    """This interpreter for the driver, and log levels for its JVM beside the user's options. NoSparkError."""
    try:
        log = f"-Dlog4j2.configurationFile={make_log_settings().as_uri()}"
    except OSError as exc:
        raise NoSparkError(str(exc)) from None
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {log}".strip()
    return {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options}


def _local_environment(machine: Machine) -> dict[str, str]:
    """The home of a local run, and the interpreter that starts its planners. NoSparkError."""
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
