"""Rate of the stock Java benchmark Producer to a SYNC_MASTER with a slave.

Messages have 128 B; rates are sends per second, real and ours.
"""

import contextlib
import re
from collections.abc import Sequence

from tests.bench.tables import Table
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.bench.turns import compare, take_turns
from tests.interop.child import Child
from tests.interop.java import Java
from tests.interop.topology import Cluster

THREADS = (1, 4, 16, 64)
_TOPIC = "BenchTopic"
_MAIN = "org.apache.rocketmq.example.benchmark.Producer"


def measure(java: Java, systems: dict[str, Cluster], *, warm_up: int, turns: int) -> Table:
    """For each number of threads, one Producer at each system, by turns."""
    make_topic(java, systems.values(), _TOPIC)
    taken, failures = {}, {}
    for threads in THREADS:
        with contextlib.ExitStack() as stack:
            producers = {
                name: stack.enter_context(_producer(java, cluster, threads)) for name, cluster in systems.items()
            }
            taken[str(threads)] = take_turns(systems, producers, warm_up=warm_up, turns=turns)
            failures[str(threads)] = {name: failed_sends(producer.lines) for name, producer in producers.items()}
    title = f"Sends/s, {BODY_SIZE} B, SYNC_MASTER with one slave, stock Java Producer"
    notes = f"Medians of {turns} turns of each. {QUEUES} queues, binary headers."
    return compare(title, "threads", taken, failures, notes)


def _producer(java: Java, cluster: Cluster, threads: int) -> Child:
    options = ["-n", cluster.namesrv, "-t", _TOPIC, "-w", str(threads), "-s", str(BODY_SIZE)]
    producer = java.start(_MAIN, *options, jvm=JVM)
    producer.wait_line("Send TPS")  # every ten seconds; by then it sends from all its threads
    return producer


def failed_sends(lines: Sequence[str]) -> int:
    """Return the failures that a Producer reported last.

    Its counters begin at its start.
    """
    for line in reversed(lines):
        if counters := re.findall(r"Failed: (\d+)", line):
            return sum(map(int, counters))
    return 0
