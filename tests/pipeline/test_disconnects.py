import os
import pathlib
import socket
import socketserver
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.serializers import read_int, write_int, write_with_length
from pyspark.sql.types import BinaryType, StructField, StructType

from rmqlab.pipeline.topics.disconnects import ignore_disconnects
from rmqlab.pipeline.topics.topicsource import TopicSource

if TYPE_CHECKING:
    from tests.pipeline.conftest import Lab

PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
SUPPORTED_FEATURES = 888
SCHEMA = StructType([StructField("body", BinaryType())])


@pytest.fixture
def short_path() -> Iterator[pathlib.Path]:
    """A directory for Unix sockets: their paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield pathlib.Path(directory)


def planner_noise(directory: pathlib.Path, *, is_early: bool) -> bytes:
    """Start the planner of a stream as Spark does, and close its connection.

    Returns what it prints. `is_early`: close before it responds, else while it waits for the next request.
    """
    path = str(directory / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        environment = os.environ | {"PYTHON_WORKER_FACTORY_SOCK_PATH": path, "PYTHON_UNIX_DOMAIN_ENABLED": "true"}
        planner = subprocess.Popen([sys.executable, "-m", PLANNER], stderr=subprocess.PIPE, env=environment)
        connection, _ = server.accept()
    with planner, connection, connection.makefile("rwb") as stream:
        assert read_int(stream) == planner.pid
        _initialize(stream, directory)
        write_int(SUPPORTED_FEATURES, stream)
        stream.flush()
        if not is_early:
            assert read_int(stream) == 0
            assert read_int(stream) > 0
        stream.close()
        connection.close()
        _, noise = planner.communicate(timeout=300)
    return noise


def _initialize(stream: Any, directory: pathlib.Path) -> None:
    """Write what Spark's class PythonStreamingSourceRunner sends first."""
    for value in (f"{sys.version_info[0]}.{sys.version_info[1]}", str(directory)):
        write_with_length(value.encode(), stream)
    write_int(0, stream)  # files for the import path
    source = TopicSource({"nameserver": "127.0.0.1:1", "topic": "orders"})
    write_with_length(cloudpickle.dumps(source), stream)
    write_with_length(SCHEMA.json().encode(), stream)
    write_int(10_000, stream)  # rows of a batch


@pytest.mark.parametrize("is_early", [False, True])
def test_the_planner_of_a_stopped_stream_ends_without_a_word(short_path: pathlib.Path, *, is_early: bool) -> None:
    assert planner_noise(short_path, is_early=is_early) == b""


def served(failure: Exception, directory: pathlib.Path) -> None:
    """Handle a request with this failure."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            raise failure

    path = str(directory / "s")
    with socketserver.UnixStreamServer(path, Handler) as server, socket.socket(socket.AF_UNIX) as client:
        ignore_disconnects(server)
        client.connect(path)
        server.handle_request()


@pytest.mark.parametrize(
    ("failure", "said"), [(BrokenPipeError(), ""), (EOFError(), ""), (ValueError("wrong token"), "wrong token")]
)
def test_the_server_of_accumulators_reports_errors_but_no_disconnections(
    short_path: pathlib.Path, capsys: pytest.CaptureFixture[str], failure: Exception, said: str
) -> None:
    served(failure, short_path)
    noise = capsys.readouterr().err
    assert said in noise
    assert bool(noise) == bool(said)


PROGRAM = """
import sys
from rmqlab.pipeline.session import open_session

server, checkpoint = sys.argv[1:]
with open_session("local[1]") as spark:
    options = {"nameServer": server, "topic": "stopped", "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**options).load().select("body")
    sink = frame.writeStream.format("rocketmq").options(nameServer=server, topic="stopped-copies")
    query = sink.option("checkpointLocation", checkpoint).start()
    while not sum(progress["numInputRows"] for progress in query.recentProgress):
        query.awaitTermination(0.2)
    query.stop()
print("stopped")
"""


@pytest.fixture
def path_with_spy(tmp_path: pathlib.Path) -> str:
    """A search path whose `readlink` leaves the file `links`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "readlink").write_text(f"#!/bin/sh\ntouch {tmp_path}/links\n")
    (programs / "readlink").chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


@pytest.mark.long  # it starts a Spark of its own
def test_a_stopped_stream_leaves_the_terminal_quiet(lab: "Lab", tmp_path: pathlib.Path, path_with_spy: str) -> None:
    """It writes to a topic that its first batch creates.

    Its checkpoint starts no program to follow links.
    """
    lab.send("stopped", [b"one", b"two"])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, lab.namesrv_addr, tmp_path / "checkpoint"],
        check=False, capture_output=True, text=True, timeout=500, env=os.environ | {"PATH": path_with_spy},
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)
    assert not (tmp_path / "links").exists()
