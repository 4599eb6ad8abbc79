"""Open a Spark session with rmqlab's data sources that logs only errors.

    with open_session() as spark:
        spark.read.format("rocketmq-store").load("/data/rocketmq/store").count()

Local by default; with `master` the same jobs run on a cluster, which has its own Java. Its workers need this package,
unless `ship` sends it to them. They run the Python of PYSPARK_PYTHON or spark.pyspark.python, else the one of
`environment.cluster_environment`. Reference: spark.md sections 1 to 4.
"""

import atexit
import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.pipeline.errors import NoSparkError, first_and_last_cause
from rmqlab.pipeline.spark.environment import cluster_environment, local_environment, set_environment
from rmqlab.pipeline.spark.interrupts import ending_programs
from rmqlab.pipeline.spark.jvmoutput import JvmOutput, reason_of
from rmqlab.pipeline.spark.masters import LOCAL, check_master, is_local
from rmqlab.pipeline.spark.shipping import COMPILED, let_streams_import, ship_packages
from rmqlab.pipeline.spark.spark_home import Machine
from rmqlab.pipeline.spark.workers import check_packages, have_own_platform
from rmqlab.pipeline.topics.disconnects import ignore_disconnects

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
    # Spark's default starts `readlink` some 16 times for each micro-batch, as Hadoop's native library is not there.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # many tasks do not speed up small jobs
}


@contextlib.contextmanager
def open_session(
    master: str = LOCAL,
    *,
    machine: Machine | None = None,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    ship: bool = False,
    app_name: str = "rmqlab",
) -> Iterator["SparkSession"]:
    """Open a session for the duration of the block, or until the interpreter exits.

    `machine` configures the JVM of a local run, and is ignored otherwise. `settings` override ours. `py_files` are
    modules and archives for the executors' import path. `ship` sends this package to workers (`shipping`). Only one
    session may be open in a process. Raises NoSparkError if the extra, Java or a file is missing, the master does not
    respond, or a worker cannot run our tasks.
    """
    check_installed()
    given = settings or {}
    local = is_local(master)
    check_master(master)
    _check_files(py_files)
    with contextlib.ExitStack() as at_end:
        scratch = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="rmqlab-spark-")))
        own = {**QUIET, **(LOCAL_SETTINGS if local else {}), **SETTINGS}
        own["spark.sql.warehouse.dir"] = str(scratch / "warehouse")  # some queries make it: not in the user's directory
        wanted = local_environment(machine or Machine()) if local else cluster_environment(ship=ship)
        if python := given.get("spark.pyspark.python"):
            wanted["PYSPARK_PYTHON"] = python
        with set_environment(wanted):
            spark = _start(master, app_name, {**own, **given})
        at_end.callback(spark.stop)
        ignore_disconnects(spark.sparkContext._accumulatorServer)  # noqa: SLF001 - no other way
        # If the block is still open when the interpreter exits, it would wait forever for the gateway's threads.
        atexit.register(at_end.close)
        at_end.callback(atexit.unregister, at_end.close)
        for path in py_files:
            spark.sparkContext.addPyFile(path)
        let_streams_import()
        if ship:
            ship_packages(spark, scratch, without=() if local or have_own_platform(spark) else COMPILED)
        if not local:
            check_packages(spark, are_shipped=ship)
        register_sources(spark)
        yield spark


def _check_files(paths: Sequence[str]) -> None:
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise NoSparkError(f"there is no file {path}; expected a .py, .zip or .egg file for the executors")


def check_installed(needed: Sequence[str] = _NEEDED) -> None:
    """Raise NoSparkError with the names of missing packages."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise NoSparkError(
            f"{', '.join(missing)} cannot be imported: `pip install '/path/to/rmqlab[spark]'`,"
            " or `make .venv/.spark` in a clone"
        )


def register_sources(spark: "SparkSession") -> None:
    """Register rmqlab's data sources, by their own names, in a session of other code."""
    from rmqlab.pipeline.journals.journalsource import JournalSource  # noqa: PLC0415 - these need Spark, this module does not
    from rmqlab.pipeline.stores.queuesource import QueueSource  # noqa: PLC0415
    from rmqlab.pipeline.stores.storesource import StoreSource  # noqa: PLC0415
    from rmqlab.pipeline.topics.topicsource import TopicSource  # noqa: PLC0415

    for source in (TopicSource, StoreSource, QueueSource, JournalSource):
        spark.dataSource.register(source)


def _start(master: str, app_name: str, settings: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = {"spark.master": master, "spark.app.name": app_name, **settings}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with ending_programs():
            _start_jvm(settings)
            spark = builder.getOrCreate()
            spark.conf.get("spark.sql.session.timeZone")  # Spark reads the settings of a session at its first use
    except (PySparkException, Py4JError) as exc:
        raise NoSparkError(f"Spark did not start at master {master}: {_reason(exc)}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process, if it has none.

    NoSparkError says why it ended.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:  # noqa: SLF001 - no other way
        return
    output = JvmOutput()
    try:
        gateway = launch_gateway(SparkConf().setAll([*settings.items()]), {"stderr": output.descriptor})
    except PySparkException:
        output.close()
        why = reason_of(output.text()) or "Java ended without a message"
        hint = "Correct the settings (--conf), or the heap (--memory, or Machine)"
        raise NoSparkError(f"Spark did not start at master {settings['spark.master']}: {why}. {hint}") from None
    except BaseException:
        output.close()
        raise
    output.close()
    output.pass_on()
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above


def _reason(exc: Exception) -> str:
    """Return the cause of an error of a JVM that runs, in one line."""
    while (cause := getattr(exc, "_cause", None)) is not None:  # of an error in the JVM
        exc = cause
    return first_and_last_cause(str(exc))
