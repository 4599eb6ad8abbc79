"""Rate of batch sends, 128 B, to a SYNC_MASTER with one slave: real and ours.

Rates are messages per second. RocketMQ's own BatchProducer exists since 4.9; Maven Central has only examples of 4.7.0.
So this is a program of ours, built like it: threads that each send batch after batch.
"""

import contextlib
from collections import Counter
from collections.abc import Sequence

from tests.bench.tables import Table
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.bench.turns import compare, take_turns
from tests.interop.child import Child
from tests.interop.java import Java
from tests.interop.topology import Cluster

THREADS = 64
SIZES = (16, 100)
"""Of messages. 64 threads and 16 messages are the stock benchmark's defaults."""
_TOPIC = "BenchBatches"


def measure(java: Java, systems: dict[str, Cluster], *, warm_up: int, turns: int) -> Table:
    """For each size of a batch, one producer at each system, by turns."""
    make_topic(java, systems.values(), _TOPIC)
    taken, failures = {}, {}
    for size in SIZES:
        with contextlib.ExitStack() as stack:
            producers = {name: stack.enter_context(_producer(java, cluster, size)) for name, cluster in systems.items()}
            taken[str(size)] = take_turns(systems, producers, warm_up=warm_up, turns=turns)
            failures[str(size)] = {name: failed_batches(name, producer.lines) for name, producer in producers.items()}
    title = f"Messages/s in batches, {BODY_SIZE} B, SYNC_MASTER with one slave"
    notes = f"Medians of {turns} turns of each, {THREADS} threads. {QUEUES} queues."
    return compare(title, "batch", taken, failures, notes)


def _producer(java: Java, cluster: Cluster, size: int) -> Child:
    target = [f"namesrv={cluster.namesrv}", f"topic={_TOPIC}", f"size={BODY_SIZE}"]
    producer = java.start("BatchProducer", *target, f"batch={size}", f"threads={THREADS}", jvm=JVM)
    producer.wait_line("STARTED")
    return producer


def failed_batches(system: str, lines: Sequence[str]) -> int:
    """Return the number of sends that failed, and print why each did."""
    failed = [line for line in lines if line.startswith("FAILED")]
    for cause, count in Counter(failed).items():
        print(f"  {system}, {count} times: {cause}", flush=True)
    return len(failed)
