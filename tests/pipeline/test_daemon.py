import os
import pathlib
import select
import socket
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from pyspark.serializers import read_int

from rmqlab.pipeline.spark import daemon
from rmqlab.pipeline.spark.java import Java
from rmqlab.pipeline.spark.spark_home import make_overlay

PLANNER = "pyspark.sql.worker.lookup_data_sources"


@pytest.fixture
def short_path() -> Iterator[str]:
    """A directory for Unix sockets: their paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def test_a_planner_whose_socket_spark_closes_ends_without_a_word(tmp_path: pathlib.Path, short_path: str) -> None:
    """Spark closes planners that were idle for a minute.

    It starts them as `python -m pyspark.daemon PLANNER`.
    """
    (tmp_path / "jars").mkdir()
    home = make_overlay(tmp_path, Java(pathlib.Path("/bin/sh"), 17, "nowhere"), tmp_path / "cache")
    sockets = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": short_path}
    quirks = {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1", "SPARK_REUSE_WORKER": "1"}  # as Spark sets them
    with subprocess.Popen(
        [home / "bin" / "python", "-m", "pyspark.daemon", PLANNER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | sockets | quirks,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        path = parent.stdout.read(read_int(parent.stdout))
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as stream:
            connection.connect(path)
            worker = os.pidfd_open(read_int(stream))
        ended, _, _ = select.select([worker], [], [], 300)
        os.close(worker)
        _, noise = parent.communicate(timeout=300)
    assert ended
    assert noise == b""


def test_after_a_task_collections_skip_what_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's parent of workers collects garbage after each task.

    With pyarrow loaded that takes 10 ms.
    """
    done: list[str] = []

    def serve(*_: object) -> int:
        done.append("task")
        return 0

    monkeypatch.setattr(daemon, "_serve", serve)
    monkeypatch.setattr(daemon, "freeze_imports", lambda: done.append("freeze"))
    assert daemon.worker(None, authenticated=True) == 0
    assert done == ["task", "freeze"]
