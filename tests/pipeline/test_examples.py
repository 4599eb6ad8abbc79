"""The examples that need Spark, as a user would run them."""

import collections
import json
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from rmqlab.runtime.clock import wall_millis

if TYPE_CHECKING:
    from tests.pipeline.conftest import Lab

pytestmark = pytest.mark.long  # each starts a Spark of its own

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_a_real_store_is_summed_up(golden: pathlib.Path) -> None:
    program = [sys.executable, str(EXAMPLES / "spark_store.py"), str(golden / "master")]
    output = subprocess.run(program, check=True, capture_output=True, text=True, timeout=300)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.stdout.splitlines() if "|" in line]
    assert ["master", "ok", "2161"] in lines
    topics = {line[1]: int(line[2]) for line in lines if len(line) == 5 and line[0] == "master"}
    assert topics["StoreBulk"] == 2100
    assert topics["StoreTopic"] == 25
    assert sum(topics.values()) == 2161
    assert not [line for line in lines if line[1] in ("torn", "badCrc")]
    assert output.stderr == ""


def test_a_stream_counts_on_while_the_master_is_dead_and_writes_when_it_is_back(own_lab: "Lab") -> None:
    """Each written window counts the messages that the source topic has of its second."""
    own_lab.create_topic("orders", 4)
    own_lab.create_topic("counts", 1)
    program = [sys.executable, str(EXAMPLES / "spark_stream.py"), "orders", "counts", "--from", "earliest"]
    environment = own_lab.environment | {"NAMESRV_ADDR": own_lab.namesrv_addr}
    produce = own_lab.start("produce", "--topic", "orders", "--rate-per-second", "40", "--name", "broken")
    example = subprocess.Popen(
        [*program, "--seconds", "900", "--late", "8"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        wait_for(lambda: windows(own_lab), example)
        own_lab.run("kill", "broker-a:master", "--name", "broken")
        own_lab.run("wait", "route-gone", "broker-a:master", "--name", "broken")
        away_at = wall_millis()
        own_lab.run("start", "broker-a:master", "--name", "broken")
        wait_for(lambda: [at for at in windows(own_lab) if at * 1000 > away_at], example)
        example.send_signal(signal.SIGINT)
        printed, complaints = example.communicate(timeout=300)
    finally:
        for process in (produce, example):
            process.kill()
            process.wait()
    assert example.returncode == 0, complaints  # Spark logs an error at Ctrl-C, and continues
    written = windows(own_lab)
    assert len(printed.splitlines()) == len(written)
    stored = collections.Counter(message.stored.store_timestamp // 1000 for message in own_lab.messages("orders"))
    assert {at: stored[at] for at in written} == written


def windows(lab: "Lab") -> dict[int, int]:
    """Return the written counts of messages, by the second of their store time."""
    found: dict[int, int] = {}
    for body in lab.bodies("counts"):
        output = json.loads(body)
        at = int(datetime.fromisoformat(output["at"]).timestamp())
        assert found.setdefault(at, output["orders"]) == output["orders"]
    return found


def wait_for(condition: Callable[[], object], program: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 400
    while not condition():
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.5)
