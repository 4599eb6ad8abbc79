"""How long a nameserver, a master and its slave take to be ready, and what idle brokers weigh: real and ours."""

import time
from collections import defaultdict
from pathlib import Path

from tests.bench.process import pss_mb
from tests.bench.tables import Cell, Table, median, ratio
from tests.interop.java import Java
from tests.interop.ours import rmqlab, started, stopped
from tests.interop.realrocketmq import RealBroker, RealNameserver
from tests.interop.topology import Cluster


def measure_start(java: Java, directory: Path, *, rounds: int) -> Table:
    """From the first process started to the last one ready, one after the other as each kind is started.

    Ours counts the whole command `rmqlab up --detach`, its own start, its supervisor and the fork server included;
    `rmqlab --help` tells how much of that is the command line waking up.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        place = directory / f"start-{number}"
        place.mkdir(parents=True)
        samples["real"].append(_time_real(java, place))
        began = time.perf_counter()
        name, _ = started(place)
        samples["ours"].append(time.perf_counter() - began)
        stopped(place, name)
        began = time.perf_counter()
        rmqlab(place, "--help")
        samples["help"].append(time.perf_counter() - began)
        print("  " + ", ".join(f"{kind} {times[-1]:.2f} s" for kind, times in samples.items()), flush=True)
    real, ours, waking = (median(samples[kind]) for kind in ("real", "ours", "help"))
    rows: list[list[Cell]] = [
        ["all ready, s", real, ours, ratio(ours, real)],
        ["of which `rmqlab --help`, s", None, waking, None],
    ]
    title = "Nameserver, master and slave from nothing to ready"
    return Table(title, ["", "real", "ours", "ratio"], rows, f"Medians of {rounds}.", samples)


def _time_real(java: Java, directory: Path) -> float:
    began = time.perf_counter()
    with (
        RealNameserver(java, directory) as nameserver,
        RealBroker(java, directory, nameserver.address),
        RealBroker(java, directory, nameserver.address, broker_id=1),
    ):
        return time.perf_counter() - began


def measure_idle(systems: dict[str, Cluster]) -> Table:
    """Proportional set size of each server, soon after the start, with the slave connected."""
    rows: list[list[Cell]] = []
    weights = {name: [pss_mb(pid) for pid in cluster.pids.values()] for name, cluster in systems.items()}
    for place, what in enumerate(["nameserver", "master", "slave"]):
        real, ours = (weights[name][place] for name in ("real", "ours"))
        rows.append([what, real, ours, ratio(ours, real)])
    notes = "Java heap of the real brokers: -Xms1g -Xmx1g (RocketMQ's own script asks for 8g)."
    return Table("Idle memory, MB PSS", ["", "real", "ours", "ratio"], rows, notes, weights)
