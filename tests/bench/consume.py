"""Rate of the stock Java benchmark Consumer on a backlog, real and ours.

Messages have 128 B; rates are messages per second.
"""

import time
from collections import defaultdict
from collections.abc import Callable

from tests.bench.process import cpu_seconds
from tests.bench.tables import OURS_US, RATIO, Cell, Table, median, ratio
from tests.bench.topics import BODY_SIZE, JVM, QUEUES, make_topic
from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

_TOPIC = "BenchBacklog"
_MAIN = "org.apache.rocketmq.example.benchmark.Consumer"
_PATIENCE = 300.0
_LOOK = 0.1  # seconds between two looks at the counters of the broker, which each cost it a millisecond


def measure(java: Java, systems: dict[str, Cluster], *, messages: int, rounds: int) -> Table:
    """Each round is a group of its own that begins at the first message.

    From the first message handed out to the
    last, as the master counts them: the start of the virtual machine is left out. Interleaved; medians.
    """
    make_topic(java, systems.values(), _TOPIC)
    for cluster in systems.values():
        _fill(java, cluster, messages)
    samples: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        for name, cluster in systems.items():
            rate, cost = _drain(java, cluster, messages, f"drainers-{number}")
            samples[name].append(rate)
            samples[f"{name} us"].append(cost)
            print(f"  {name:5} {rate:9,.0f} messages/s, {cost:5.2f} us of the master's CPU", flush=True)
    real, ours = (median(samples[name]) for name in ("real", "ours"))
    costs = [median(samples[f"{name} us"]) for name in ("real", "ours")]
    row: list[Cell] = [f"{messages:,}", round(real), round(ours), ratio(ours, real), *costs]
    columns = ["backlog", "real", "ours", "ratio", "real: master's CPU, us a message", "ours"]
    notes = f"Medians of {rounds} interleaved runs. {QUEUES} queues, pulls of 32, binary headers."
    return Table(
        f"Messages/s consumed, {BODY_SIZE} B, stock Java Consumer",
        columns,
        [row],
        notes,
        samples,
        {RATIO: "more", OURS_US: "less"},
    )


def _fill(java: Java, cluster: Cluster, messages: int) -> None:
    options = [f"namesrv={cluster.namesrv}", f"topic={_TOPIC}", f"count={messages}", f"size={BODY_SIZE}", "batch=500"]
    with java.start("Filler", *options, "anyStatus=1") as filler:
        filler.finish(_PATIENCE)


def _drain(java: Java, cluster: Cluster, messages: int, group: str) -> tuple[float, float]:
    """Return messages per second, and microseconds of the master's CPU for each."""
    _, master, _ = cluster.pids.values()
    before, cpu_before = _handed_out(cluster), cpu_seconds(master)
    with java.start(_MAIN, "-n", cluster.namesrv, "-t", _TOPIC, "-g", group, "-p", "false", jvm=JVM):
        began, first = _wait(lambda: _handed_out(cluster) - before, 1)
        ended, last = _wait(lambda: _handed_out(cluster) - before, messages)
    used = cpu_seconds(master) - cpu_before
    return (last - first) / max(ended - began, _LOOK), used / messages * 1e6


def _handed_out(cluster: Cluster) -> int:
    """Messages given to consumers since the master's start."""
    return int(rawrequest.runtime_info(cluster.master.address)["msgGetTotalTodayNow"])


def _wait(count: Callable[[], int], wanted: int) -> tuple[float, int]:
    """Wait until so many were handed out.

    Return the time and the number of messages then.
    """
    seen = wait_until(
        lambda: found if (found := count()) >= wanted else None, f"{wanted} messages", _PATIENCE, period=_LOOK
    )
    return time.monotonic(), seen
