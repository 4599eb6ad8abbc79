"""What idle nodes cost: time until ready, memory, CPU.

A cluster of one nameserver and pairs of master and slave, without load. Memory and CPU are the kernel's figures of each
process, so other work on the machine matters little; the time until ready does depend on it. The number of page faults
does not.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.process import page_faults, pss_mb, run_seconds, smaps_mb
from tests.bench.tables import Cell, Table, median
from tests.interop.ours import rmqlab, stopped

_IDLE_AFTER = 12.0  # seconds after the start: the first saves, registrations and samples are done
_IDLE_FOR = 20.0


def measure(directory: Path, *, groups: Sequence[int]) -> Table:
    """One row for each number of groups, each with a slave."""
    rows = [_measure_one(directory, count) for count in groups]
    columns = [
        "nodes", "s until ready", "CPU until ready, ms a node", "page faults until ready", "PSS, MB", "private, MB",
        "idle CPU, ms/s", "wake-ups/s",
    ]  # fmt: skip
    notes = f"Medians of the brokers. Idle figures are of {_IDLE_FOR:g} s."
    return Table("Idle nodes", columns, rows, notes, better=dict.fromkeys(range(2, 8), "less"))


def _measure_one(directory: Path, groups: int) -> list[Cell]:
    name = f"density-{groups}"
    began = time.monotonic()
    printed = rmqlab(directory, "up", "--detach", "--json", "--name", name, "--groups", str(groups), "--slaves", "1")
    ready = time.monotonic() - began
    try:
        nodes = json.loads(printed)["nodes"]
        brokers = [node["pid"] for node in nodes if node["kind"] == "broker"]
        started = median([run_seconds(pid)[0] for pid in brokers])
        faults = median([page_faults(pid) for pid in brokers])
        time.sleep(_IDLE_AFTER)
        before = [run_seconds(pid) for pid in brokers]
        time.sleep(_IDLE_FOR)
        idle = [
            (now[0] - then[0], now[1] - then[1]) for then, now in zip(before, map(run_seconds, brokers), strict=True)
        ]
        figures: list[Cell] = [
            str(len(nodes)), round(ready, 2), round(started * 1000, 1), round(faults),
            round(median(list(map(pss_mb, brokers))), 1),
            round(median([smaps_mb(pid, "Private_Dirty") for pid in brokers]), 1),
            round(median([seconds for seconds, _ in idle]) / _IDLE_FOR * 1000, 2),
            round(median([wakes for _, wakes in idle]) / _IDLE_FOR, 1),
        ]  # fmt: skip
    finally:
        stopped(directory, name)
    print("  " + ", ".join(f"{cell}" for cell in figures), flush=True)
    return figures
