"""Faults of a cluster's workers are one line. Spark's texts are recorded."""

import logging
import pathlib
import pickle
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark import cloudpickle

from rmqlab.pipeline.spark import workerprobe, workers
from rmqlab.pipeline.spark.environment import PYTHON_NAME
from rmqlab.pipeline.spark.workerprobe import WorkerReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISMATCH = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pyspark/worker_util.py", line 93, in check_python_version
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: \
3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set.
"""
NO_PROGRAM = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: java.io.IOException: Cannot run program "/driver/python": error=2, No such file or directory
	at java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""
NO_PYSPARK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3.11: Error while finding module specification for 'pyspark.daemon' (ModuleNotFoundError: No module named 'pyspark')
"""
LONG_PATH = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times
Error from python worker:
  OSError: AF_UNIX path too long
"""
BROKEN = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.
	at org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError(SparkCoreErrors.scala:55)
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MISMATCH, "runs Python 3.12, and this driver 3.11. Set PYSPARK_PYTHON to a Python "),
        (NO_PROGRAM, "cannot run /driver/python. Set PYSPARK_PYTHON to a Python "),
        (NO_PYSPARK, "has no pyspark. Set SPARK_HOME there, or install pyspark"),
        (LONG_PATH, "has too long a path for sockets. Set spark.python.unix.domain.socket.dir to a short one"),
        (BROKEN, "cannot run Python tasks: org.apache.spark.SparkException: EOFException occurred while"),
    ],
)
def test_an_error_of_a_workers_python_is_one_line_with_the_remedy(error: str, said: str) -> None:
    explained = workers.explain(error)
    assert explained.startswith(said)
    assert "\n" not in explained
    if "PYSPARK_PYTHON" in said:
        assert explained.endswith(f"that all workers and this machine have, such as {PYTHON_NAME}")


def report(**faults: str) -> WorkerReport:
    return {"host": "far", "executor": 7, "python": "/usr/bin/python", "platform": "arm.so", "faults": faults}


@pytest.mark.parametrize(
    ("faults", "are_shipped", "said"),
    [
        ({"numpy": "no libm", "rmqlab": ""}, True, "cannot import numpy (no libm). Install it there: it is too large"),
        ({"pyarrow": "", "numpy": ""}, False, "cannot import pyarrow, numpy. Install it there"),
        (
            {"msgspec": "", "rmqlab": ""},
            False,
            "cannot import rmqlab. Ship it with --ship, or open_session(..., ship=T",
        ),
        ({"trio": "", "attrs": ""}, False, "cannot import trio, attrs. Ship it with --ship"),
        ({"msgspec": ""}, True, "cannot import msgspec. Install it there: this machine's is compiled for .cpython-"),
    ],
)
def test_a_missing_package_is_named_with_its_worker_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, faults: dict[str, str], *, are_shipped: bool, said: str
) -> None:
    monkeypatch.setattr(workers, "examine_workers", lambda *_: [report(), report(**faults)])
    with pytest.raises(workers.WorkerError) as caught:
        workers.check_packages(cast("SparkSession", None), are_shipped=are_shipped)
    assert str(caught.value).startswith(f"worker far (/usr/bin/python, arm.so) {said}")


@pytest.mark.parametrize(
    ("fault", "said"), [("does not see", "does not see"), ("cannot write to", "cannot write to"), ("", "")]
)
def test_a_directory_that_only_the_driver_has_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, fault: str, said: str
) -> None:
    def examine(_: object, find: workers.FindFaults) -> list[WorkerReport]:
        assert find() == {}  # this process sees the directory
        (mark,) = (tmp_path / "audit").iterdir()
        return [report(**({str(mark): fault} if fault else {}))]

    monkeypatch.setattr(workers, "examine_workers", examine)
    if not said:
        workers.check_shared_directory(cast("SparkSession", None), tmp_path / "audit")
    else:
        with pytest.raises(workers.WorkerError, match=rf"^worker far .* {said} {tmp_path}/audit\. .*RMQLAB_HOME"):
            workers.check_shared_directory(cast("SparkSession", None), tmp_path / "audit")
    assert list((tmp_path / "audit").iterdir()) == []


def test_a_path_is_examined_from_a_worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    assert workerprobe.path_faults(str(mark)) == {str(mark): "does not see"}
    mark.touch()
    assert workerprobe.path_faults(str(mark)) == {}
    monkeypatch.setattr("os.access", lambda *_: False)
    assert workerprobe.path_faults(str(mark)) == {str(mark): "cannot write to"}


def test_missing_and_broken_packages_are_distinguished(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_here.py").write_text("import nowhere_at_all")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert workerprobe.import_faults(("json", "missing_here", "broken_here")) == {
        "missing_here": "",
        "broken_here": "No module named 'nowhere_at_all'",
    }


def test_the_examination_of_a_worker_needs_no_package_of_ours_there(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = cloudpickle.dumps(workerprobe.examine)
    with workers._pickled_by_value():
        by_value = cloudpickle.dumps(workerprobe.examine)
    monkeypatch.setitem(sys.modules, workerprobe.__name__, None)
    (found,) = pickle.loads(by_value)(dict, [])
    assert (found["python"], found["faults"]) == (sys.executable, {})
    with pytest.raises(ImportError):
        pickle.loads(by_name)


def test_a_session_without_executors_is_said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(workers, "_executor_count", lambda _: 0)
    spark = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master="spark://far:7077")))
    with caplog.at_level(logging.WARNING), workers._patience(spark) as timer:
        timer.join(60)
    assert caplog.text.count("spark://far:7077 has given this session no executor for 0 s") == 1
