"""Parts of the benchmarks that compute without measuring."""

import mmap
import os
import pathlib
import subprocess
import sys

import pytest

from rmqlab.broker.testing import open_talking_broker
from tests.bench.commands import command_seconds
from tests.bench.growth import best_us, fill
from tests.bench.nameserver_micro import waits
from tests.bench.process import page_faults, pss_mb, run_seconds, smaps_mb
from tests.bench.send_micro import receives, receives_of_batches


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
def test_figures_of_a_process_come_from_the_kernel() -> None:
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
