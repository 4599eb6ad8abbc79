"""Messages a second of batch sends, 128 B, to a SYNC_MASTER with one slave: real and ours.

RocketMQ's own BatchProducer came with 4.9; Maven Central has the examples of 4.7.0 only. So this is a program of
ours, built like it: threads that each send batch after batch.
"""

from collections import defaultdict

from tests.bench.process import cpu_seconds
from tests.bench.tables import Cell, Table, median, ratio
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.interop.java import Java
from tests.interop.topology import Cluster

THREADS = 8
SIZES = (16, 100)
_TOPIC = "BenchBatches"


def measure(java: Java, systems: dict[str, Cluster], *, rounds: int, seconds: int) -> Table:
    """Interleaved: in each round, for each size of a batch, one system after the other. Medians of the rounds."""
    make_topic(java, systems.values(), _TOPIC)
    samples: dict[str, list[float]] = defaultdict(list)
    failures = 0
    for _ in range(rounds):
        for size in SIZES:
            for name, cluster in systems.items():
                rate, failed, cost = _run(java, cluster, size, seconds)
                samples[f"{name} {size}"].append(rate)
                samples[f"{name} {size} us"].append(cost)
                failures += failed
                print(
                    f"  {name:5} batches of {size:3}: {rate:9,.0f} messages/s, {failed} failed,"
                    f" {cost:5.2f} us of the master's CPU",
                    flush=True,
                )
    rows: list[list[Cell]] = []
    for size in SIZES:
        real, ours = (median(samples[f"{name} {size}"]) for name in ("real", "ours"))
        costs = [median(samples[f"{name} {size} us"]) for name in ("real", "ours")]
        rows.append([str(size), round(real), round(ours), ratio(ours, real), *costs])
    notes = f"Medians of {rounds} interleaved runs, {THREADS} threads; {failures} sends failed. {QUEUES} queues."
    columns = ["batch", "real", "ours", "ratio", "real: master's CPU, us a message", "ours"]
    return Table(f"Messages/s in batches, {BODY_SIZE} B, SYNC_MASTER with one slave", columns, rows, notes, samples)


def _run(java: Java, cluster: Cluster, size: int, seconds: int) -> tuple[float, int, float]:
    _, master, _ = cluster.pids.values()
    used = cpu_seconds(master)
    target = [f"namesrv={cluster.namesrv}", f"topic={_TOPIC}", f"size={BODY_SIZE}"]
    with java.start(
        "BatchProducer", *target, f"batch={size}", f"threads={THREADS}", f"seconds={seconds}", jvm=JVM
    ) as it:
        total, rate, failed = (float(word) for word in it.finish(seconds + 60)[-1].split())
    return rate, int(failed), (cpu_seconds(master) - used) / max(total, 1) * 1e6
