"""Tasks that write again on another executor give each row the same SPARK_ID."""

import json
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.retry_driver import CASES, ROWS
from tests.pipeline.standalone import bare_cluster
from tests.pipeline.test_shipping import CHECKOUT

if TYPE_CHECKING:
    from tests.pipeline.conftest import Lab

DRIVER = pathlib.Path(__file__).with_name("retry_driver.py")


@pytest.fixture(scope="module")
def executors(lab: "Lab", tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Run all cases; return the tasks of each: partition and executor's directory."""
    place = tmp_path_factory.mktemp("retried")
    for topic in ("source", *CASES):
        lab.create_topic(topic, 4)
    lab.send("source", [b"%05d" % number for number in range(ROWS)])
    with bare_cluster(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        done = subprocess.run(
            [sys.executable, DRIVER, cluster.url, lab.namesrv_addr, "source", place],
            check=False, capture_output=True, text=True, timeout=900,
            env=cluster.environment | {"PYSPARK_PYTHON": str(cluster.python), "PYTHONPATH": str(CHECKOUT)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_row_has_the_same_id_in_each_attempt(lab: "Lab", executors: dict[str, list[str]], case: str) -> None:
    places: dict[str, list[str]] = {}
    for task in executors[case]:
        partition, place = task.split()
        places.setdefault(partition, []).append(place)
    repeated = [attempts for attempts in places.values() if len(attempts) > 1]
    assert repeated
    assert all(len(attempts) == len(set(attempts)) for attempts in repeated)
    messages = lab.messages(case)
    pairs = {(message.properties["SPARK_ID"], message.body[:5]) for message in messages}
    assert len(messages) > ROWS
    assert sorted(body for _, body in pairs) == [b"%05d" % number for number in range(ROWS)]
    assert len({spark_id for spark_id, _ in pairs}) == ROWS
