"""Open a Spark session that knows our data sources, and says nothing but errors.

    with open_session() as spark:
        spark.read.format("rocketmq-store").load("/data/rocketmq/store").count()

Local by default; with `master` the same jobs run on a cluster, which brings its own Java and needs this package on
its executors. Reference: spark.md sections 1 to 4.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.pipeline.java import NoJavaError, find_java
from rmqlab.pipeline.spark_home import Machine, make_overlay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
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
    app_name: str = "rmqlab",
) -> Iterator["SparkSession"]:
    """A session for the length of the block. NoSparkError where the extra or Java is missing, or no answer comes.

    `machine` shapes the JVM of a local run, and is of no meaning elsewhere. Only one session may be open in a process.
    """
    check_installed()
    is_local = master.startswith("local[") or master == "local"
    with _environment(is_local=is_local, machine=machine or Machine()):
        spark = _start(
            master, app_name, {**QUIET, **(LOCAL_SETTINGS if is_local else {}), **SETTINGS, **(settings or {})}
        )
    try:
        register_sources(spark)
        yield spark
    finally:
        spark.stop()


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
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as exc:
        raise NoSparkError(f"Spark did not start: {exc}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextlib.contextmanager
def _environment(*, is_local: bool, machine: Machine) -> Iterator[None]:
    """What PySpark reads as it starts a JVM and its workers; put back afterwards, for it is also read by others."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if is_local:
        import pyspark  # noqa: PLC0415

        try:
            java = find_java()
            home = make_overlay(Path(pyspark.__file__).parent, java, machine)
        except (NoJavaError, OSError) as exc:
            raise NoSparkError(str(exc)) from None
        wanted = dict.fromkeys(wanted, str(home / "bin" / "python"))
        wanted |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
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
