"""Sends a second of the stock Java benchmark Producer, 128 B, to a SYNC_MASTER with one slave: real and ours."""

import contextlib
import re
from typing import Any

import attrs

from tests.bench.tables import Cell, Table, median
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.bench.turns import Turn, rate_ratio, take_turns
from tests.interop.child import Child
from tests.interop.java import Java
from tests.interop.topology import Cluster

THREADS = (1, 4, 16, 64)
_TOPIC = "BenchTopic"
_MAIN = "org.apache.rocketmq.example.benchmark.Producer"


def measure(java: Java, systems: dict[str, Cluster], *, warm_up: int, turns: int) -> Table:
    """For each number of threads, one Producer at each system, by turns."""
    make_topic(java, systems.values(), _TOPIC)
    rows: list[list[Cell]] = []
    samples: dict[str, Any] = {}
    failures = 0
    for threads in THREADS:
        with contextlib.ExitStack() as stack:
            producers = {
                name: stack.enter_context(_producer(java, cluster, threads)) for name, cluster in systems.items()
            }
            taken = take_turns(systems, producers, warm_up=warm_up, turns=turns)
            failures += sum(map(_failed, producers.values()))
        samples |= {f"{name} {threads}": [attrs.astuple(turn) for turn in found] for name, found in taken.items()}
        rows.append(_row(threads, taken["real"], taken["ours"]))
        print("  {} threads: real {:,}, ours {:,} sends/s: {}".format(*rows[-1]), flush=True)
    notes = f"Medians of {turns} turns of each; {failures} sends failed. {QUEUES} queues, binary headers."
    title = f"Sends/s, {BODY_SIZE} B, SYNC_MASTER with one slave, stock Java Producer"
    return Table(
        title, ["threads", "real", "ours", "ratio", "real: master's CPU, us a send", "ours"], rows, notes, samples
    )


def _row(threads: int, real: list[Turn], ours: list[Turn]) -> list[Cell]:
    rates = [round(median([turn.rate for turn in turns])) for turns in (real, ours)]
    costs = [median([turn.master_us for turn in turns]) for turns in (real, ours)]
    return [str(threads), *rates, rate_ratio(ours, real), *costs]


def _producer(java: Java, cluster: Cluster, threads: int) -> Child:
    options = ["-n", cluster.namesrv, "-t", _TOPIC, "-w", str(threads), "-s", str(BODY_SIZE)]
    producer = java.start(_MAIN, *options, jvm=JVM)
    producer.wait_line("Send TPS")  # every ten seconds; by then it sends from all its threads
    return producer


def _failed(producer: Child) -> int:
    """Of all that it reported."""
    return sum(int(number) for line in producer.lines for number in re.findall(r"Failed: (\d+)", line))
