"""A cluster that has nothing of ours: what workers lack is shipped, or named."""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.standalone import BareCluster, bare_cluster
from tests.pipeline.violations import clean_run, write_run

if TYPE_CHECKING:
    from tests.pipeline.conftest import Lab

DRIVER = pathlib.Path(__file__).with_name("bare_driver.py")
IDLE_PLANNER = re.compile(
    r'^(Traceback \(most recent call last\):|  File "[^\n"]+pyspark/daemon\.py", .+|    .+|BrokenPipeError: .+)\n',
    re.MULTILINE,
)
"""Lines that PySpark prints a minute after a read, by a Python that is not this interpreter (rmqlab/pipeline/spark/daemon.py).

Those of several processes mix. The last line of another exception, and a frame of another file, do not match.
"""
CHECKOUT = DRIVER.parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareCluster]:
    with bare_cluster(tmp_path_factory.mktemp("bare"), workers=2) as cluster:
        yield cluster


def test_workers_without_this_package_read_stream_write_and_audit(
    cluster: BareCluster, golden: pathlib.Path, lab: "Lab", tmp_path: pathlib.Path
) -> None:
    """Issue 15.3. The driver's planning processes have the workers' Python, too."""
    lab.create_topic("shipped", 2)
    lab.create_topic("shipped-copies", 1)
    run = write_run(clean_run(), tmp_path)
    done = subprocess.run(
        [sys.executable, DRIVER, cluster.url, golden / "master", lab.namesrv_addr, run, tmp_path],
        check=False, capture_output=True, text=True, timeout=600,
        env=cluster.environment | {"PYSPARK_PYTHON": str(cluster.python), "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert (IDLE_PLANNER.sub("", done.stderr), done.returncode) == ("", 0)
    found: dict[str, Any] = json.loads(done.stdout)
    assert f"({cluster.python}" in found["unshipped"]
    assert "cannot import rmqlab. Ship it with --ship" in found["unshipped"]
    assert found["audit"]["verdict"] == "holds"
    assert [pathlib.Path(place).name for place in found["shipped"]] == ["rmqlab-shipped"] * 2
    assert found["batch"] == 2161
    assert found["streams"] == [[20], [20]]
    assert sorted(lab.bodies("shipped-copies")) == sorted(2 * [f"row {number}".encode() for number in range(20)])
