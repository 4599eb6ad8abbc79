"""Parts of the benchmarks that compute without measuring."""

import mmap
import os
import pathlib
import subprocess
import sys

import pytest

from rmqlab.broker.testing import open_talking_broker
from tests.bench.batches import failed_batches
from tests.bench.commands import command_seconds
from tests.bench.growth import best_us, fill
from tests.bench.nameserver_micro import waits
from tests.bench.process import page_faults, pss_mb, run_seconds, smaps_mb
from tests.bench.send_micro import receives, receives_of_batches
from tests.bench.sends import failed_sends
from tests.bench.turns import Turn, compare


def test_requests_wait_for_the_heartbeats_before_them() -> None:
    assert waits([], 30.0, probes=10) == [0.0] * 10
    assert max(waits([0.001], 30.0)) <= 0.001
    busy = waits([1.0] * 30, 30.0)
    assert busy[len(busy) // 2] > 1.0  # as much work as time: most moments are in a queue
    assert sum(waits([0.0] * 500, 30.0)) == 0.0


def test_growth_fills_topics_evenly(tmp_path: pathlib.Path) -> None:
    talking = open_talking_broker(tmp_path)
    fill(talking, 250, 2)
    assert [talking.broker.store.max_queue_offset(f"growth-{topic}", 0) for topic in range(2)] == [125, 125]
    talking.broker.store.close()


def test_a_call_is_measured_often() -> None:
    calls: list[int] = []
    assert best_us(lambda: calls.append(1)) >= 0
    assert len(calls) == 1000


def test_cpu_of_a_command_is_that_of_its_process() -> None:
    spin = "import time\nwhile time.process_time() < 0.2: pass"
    assert command_seconds(lambda: subprocess.run([sys.executable, "-S", "-c", spin], check=True)) >= 0.2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_process_figures_are_read_from_the_kernel() -> None:
    seconds, wakes = run_seconds(os.getpid())
    assert seconds > 0
    assert wakes >= 0
    assert 0 < smaps_mb(os.getpid(), "Private_Dirty") <= smaps_mb(os.getpid(), "Rss")
    assert pss_mb(os.getpid()) > 0
    with pytest.raises(ValueError, match="Other"):
        smaps_mb(os.getpid(), "Other")
    faults = page_faults(os.getpid())
    with mmap.mmap(-1, 2**20) as memory:
        memory.write(bytes(2**20))
    assert page_faults(os.getpid()) > faults


def test_batches_of_the_send_benchmark_are_one_frame_a_receive() -> None:
    assert len(receives(1, 48)) == 3
    assert len(receives_of_batches(1, 300, 100)) == 3


def test_a_producer_reports_failures_since_its_start() -> None:
    line = "Send TPS: {} Max RT: 30 Average RT:   1.200 Send Failed: {} Response Failed: {}"
    assert failed_sends([line.format(900, 0, 0), line.format(800, 2, 1), line.format(900, 4, 1), "other"]) == 5
    assert failed_sends(["other"]) == 0


def test_causes_of_failed_batches_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed_batches("ours", ["STARTED", "FAILED late", "FAILED busy", "FAILED late"]) == 3
    assert capsys.readouterr().out == "  ours, 2 times: FAILED late\n  ours, 1 times: FAILED busy\n"


def test_failed_sends_are_reported_for_each_system() -> None:
    turns = {"16": {"real": [Turn(100.0, 2.0)], "ours": [Turn(90.0, 1.0)]}}
    table = compare("sends", "threads", turns, {"16": {"real": 3, "ours": 0}}, "")
    assert list(zip(table.columns[-2:], table.rows[0][-2:], strict=True)) == [("real: failed sends", 3), ("ours", 0)]
