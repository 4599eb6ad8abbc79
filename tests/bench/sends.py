"""Sends a second of the stock Java benchmark Producer, 128 B, to a SYNC_MASTER with one slave: real and ours."""

import re
from collections import defaultdict

from tests.bench.process import cpu_seconds
from tests.bench.tables import Cell, Table, median, ratio
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.topology import Cluster

THREADS = (1, 4, 16, 64)
_TOPIC = "BenchTopic"
_MAIN = "org.apache.rocketmq.example.benchmark.Producer"


def measure(java: Java, systems: dict[str, Cluster], *, rounds: int, reports: int) -> Table:
    """Interleaved: in each round, for each number of threads, one system after the other. Medians of the rounds.

    The Producer reports every ten seconds on those; its last of `reports` counts, the ones before are warm-up.
    """
    make_topic(java, systems.values(), _TOPIC)
    samples: dict[str, list[float]] = defaultdict(list)
    failures = 0
    for _ in range(rounds):
        for threads in THREADS:
            for name, cluster in systems.items():
                before = _spent(cluster)
                rate, failed = _run(java, cluster, threads, reports)
                cost = _cost(before, _spent(cluster))
                samples[f"{name} {threads}"].append(rate)
                samples[f"{name} {threads} us"].append(cost)
                failures += failed
                print(
                    f"  {name:5} {threads:3} threads: {rate:7,} sends/s, {failed} failed, {cost:5.1f} us of the master's CPU",
                    flush=True,
                )
    rows: list[list[Cell]] = []
    for threads in THREADS:
        real, ours = (median(samples[f"{name} {threads}"]) for name in ("real", "ours"))
        costs = [median(samples[f"{name} {threads} us"]) for name in ("real", "ours")]
        rows.append([str(threads), round(real), round(ours), ratio(ours, real), *costs])
    notes = f"Medians of {rounds} interleaved runs; {failures} sends failed. {QUEUES} queues, binary headers."
    title = f"Sends/s, {BODY_SIZE} B, SYNC_MASTER with one slave, stock Java Producer"
    return Table(
        title, ["threads", "real", "ours", "ratio", "real: master's CPU, us a send", "ours"], rows, notes, samples
    )


def _spent(cluster: Cluster) -> tuple[float, int]:
    """CPU seconds of the master so far, and messages put."""
    _, master, _ = cluster.pids.values()
    return cpu_seconds(master), int(rawrequest.runtime_info(cluster.master.address)["putMessageTimesTotal"])


def _cost(before: tuple[float, int], after: tuple[float, int]) -> float:
    """Microseconds of the master's CPU for each message: less at the mercy of other load than a rate is."""
    return (after[0] - before[0]) / max(after[1] - before[1], 1) * 1e6


def _run(java: Java, cluster: Cluster, threads: int, reports: int) -> tuple[int, int]:
    options = ["-n", cluster.namesrv, "-t", _TOPIC, "-w", str(threads), "-s", str(BODY_SIZE)]
    with java.start(_MAIN, *options, jvm=JVM) as producer:
        found = 0
        for _ in range(reports):
            found = producer.find_line("Send TPS", 30, start=found) + 1
        numbers = [int(number) for number in re.findall(r"(?:TPS|Failed): (\d+)", producer.lines[found - 1])]
    return numbers[0], sum(numbers[1:])
