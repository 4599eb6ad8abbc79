"""The examples that need Spark, as a user would run them."""

import json
import pathlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.pipeline.conftest import Lab

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_a_stream_is_counted_into_another_topic_while_the_master_is_killed(own_lab: "Lab") -> None:
    for topic in ("orders", "counts"):
        own_lab.create_topic(topic, 2)
    own_lab.send("orders", [b"x"] * 200)
    own_lab.run("wait", "slave-caught-up", "broker-a", "--name", "broken")
    program = [
        sys.executable,
        str(EXAMPLES / "spark_stream.py"),
        "orders",
        "counts",
        "--seconds",
        "600",
        "--from",
        "earliest",
    ]
    environment = own_lab.environment | {"NAMESRV_ADDR": own_lab.namesrv_addr}
    with subprocess.Popen(program, env=environment) as running:
        try:
            wait_counted(own_lab, 200)
            own_lab.run("kill", "broker-a:master", "--name", "broken")
            own_lab.run("start", "broker-a:master", "--name", "broken")
            own_lab.send("orders", [b"x"] * 50)
            wait_counted(own_lab, 250)
        finally:
            running.kill()


def wait_counted(lab: "Lab", wanted: int) -> None:
    """Wait until the counts of all windows, each at its newest, sum up to this."""
    deadline = time.monotonic() + 300
    while (seen := counted(lab)) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(1)


def counted(lab: "Lab") -> int:
    newest: dict[tuple[str, str], int] = {}
    for row in map(json.loads, lab.bodies("counts")):
        key = row["at"], row["broker"]
        newest[key] = max(newest.get(key, 0), row["orders"])
    return sum(newest.values())


def test_a_real_store_is_summed_up(golden: pathlib.Path) -> None:
    program = [sys.executable, str(EXAMPLES / "spark_store.py"), str(golden / "master")]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=300).stdout
    assert "|master|ok   |2161 |" in told
    assert "StoreBulk" in told
