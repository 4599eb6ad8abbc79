"""Start time of a nameserver, a master and a slave, and memory of idle brokers.

Both are measured with real servers and with ours.
"""

import json
import time
from collections import defaultdict
from pathlib import Path

from tests.bench.process import pss_mb
from tests.bench.tables import RATIO, Cell, Table, median, ratio
from tests.interop.java import Java
from tests.interop.ours import rmqlab, started, stopped
from tests.interop.realrocketmq import RealBroker, RealNameserver
from tests.interop.topology import Cluster

_PHASES = {  # what is timed until the cluster is ready, and the event it begins with
    "from the supervisor being up": "cluster_starting",
    "from the first node's start": "node_spawned",
}


def measure_start(java: Java, directory: Path, *, rounds: int) -> Table:
    """Return the time from the first started process to the last ready one.

    Servers start one after the other, as each kind requires. Ours counts the whole command `rmqlab up --detach`: the
    command line, the supervisor and the fork server have to start first. What comes after each of those is taken from
    the cluster's own events.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        place = directory / f"start-{number}"
        place.mkdir(parents=True)
        samples["real"].append(_time_real(java, place))
        began = time.perf_counter()
        name, _ = started(place)
        samples["ours"].append(time.perf_counter() - began)
        _note_phases(samples, rmqlab(place, "events", "--json", "--name", name))
        stopped(place, name)
        print("  " + ", ".join(f"{kind} {times[-1]:.2f} s" for kind, times in samples.items()), flush=True)
    real, ours = (median(samples[kind]) for kind in ("real", "ours"))
    rows: list[list[Cell]] = [["from the command to ready", real, ours, ratio(ours, real)]]
    rows += [[phase, None, median(samples[phase]), None] for phase in _PHASES]
    title = "Nameserver, master and slave from nothing to ready, s"
    return Table(title, ["", "real", "ours", "ratio"], rows, f"Medians of {rounds}.", samples, {RATIO: "less"})


def _note_phases(samples: dict[str, list[float]], events: str) -> None:
    at: dict[str, int] = {}
    for line in events.splitlines():
        event = json.loads(line)
        at.setdefault(event["kind"], event["at"])
    for phase, kind in _PHASES.items():
        samples[phase].append((at["cluster_ready"] - at[kind]) / 1000)


def _time_real(java: Java, directory: Path) -> float:
    began = time.perf_counter()
    with (
        RealNameserver(java, directory) as nameserver,
        RealBroker(java, directory, nameserver.address),
        RealBroker(java, directory, nameserver.address, broker_id=1),
    ):
        return time.perf_counter() - began


def measure_idle(systems: dict[str, Cluster]) -> Table:
    """Return the proportional set size of each server soon after the start.

    The slave is connected.
    """
    rows: list[list[Cell]] = []
    weights = {name: [pss_mb(pid) for pid in cluster.pids.values()] for name, cluster in systems.items()}
    for place, what in enumerate(["nameserver", "master", "slave"]):
        real, ours = (weights[name][place] for name in ("real", "ours"))
        rows.append([what, real, ours, ratio(ours, real)])
    notes = "Java heap of the real brokers: -Xms1g -Xmx1g (RocketMQ's own script asks for 8g)."
    return Table("Idle memory, MB PSS", ["", "real", "ours", "ratio"], rows, notes, weights, {RATIO: "less"})
