"""Time in which an empty slave copies a master's log, real and ours.

It counts from the slave's first bytes until its queues have all messages. The log is a single file, for an empty slave
begins at the start of its master's last one. Beside them, where there is a C compiler, a program that only receives
into a mapped file (receive.c), from either master.
"""

import contextlib
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path

from tests.bench.brokers import (
    BODY_SIZE,
    QUEUES,
    SYSTEMS,
    TOPIC,
    broker_of,
    entries_of,
    fill,
    messages_in,
    nameserver_of,
)
from tests.bench.process import cpu_seconds, own_memory_mb
from tests.bench.tables import RATIO, Better, Cell, Table, median, ratio
from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until


def measure(java: Java, directory: Path, *, megabytes: int, rounds: int) -> Table:
    """Two masters filled alike; then `rounds` times an empty slave for each, in turn."""
    samples: dict[str, list[float]] = defaultdict(list)
    messages = messages_in(megabytes)
    # One file holds all, with room, and is of less than 2 GiB, as Java wants it.
    settings = {"mappedFileSizeCommitLog": min((megabytes * 11 // 10 // 64 + 1) * 64, 2047) * 2**20}
    bare = _compile_receiver(directory)
    with contextlib.ExitStack() as running:
        masters: dict[str, BrokerServer] = {}
        for kind in SYSTEMS:
            nameserver = running.enter_context(nameserver_of(kind, java, directory))
            master = broker_of(kind, java, directory, nameserver.address, 0, settings)
            masters[kind] = running.enter_context(master)
            fill(java, master, messages)
        for number in range(rounds):
            for kind, master in masters.items():
                place = directory / f"round-{number}"
                slave = broker_of(kind, java, place, master.namesrv, 1, settings)
                rate, cpu, memory = _catch_up(master, slave)
                shutil.rmtree(slave.directory)
                samples[f"{kind} MB/s"].append(rate)
                samples[f"{kind} CPU"].append(cpu)
                samples[f"{kind} memory"].append(memory)
                line = f"{rate:6.0f} MB/s, slave's CPU {cpu:5.2f} s per GB, {memory:.0f} MB of memory"
                if bare is not None:
                    samples[f"{kind} bare"].append(_receive_barely(bare, master))
                    line += f"; a C program received at {samples[f'{kind} bare'][-1]:.0f} MB/s"
                print(f"  {kind:5} {line}", flush=True)
    rows: list[list[Cell]] = []
    for what, key in (
        ("MB/s", "MB/s"),
        ("CPU of the slave, s per GB", "CPU"),
        ("memory of the slave when it has caught up, without mapped files, MB", "memory"),
        ("MB/s to a C program that only receives", "bare"),
    ):
        if key != "bare" or bare is not None:
            real, ours = (median(samples[f"{kind} {key}"]) for kind in SYSTEMS)
            rows.append([what, real, ours, ratio(ours, real)])
    title = f"HA catch-up of {megabytes:,} MB with dispatch to queues"
    notes = f"Medians of {rounds}; {messages:,} messages of {BODY_SIZE} B, from the slave's first bytes to its last queue entry."
    rates: dict[str, Better] = {"MB/s": "more", "MB/s to a C program that only receives": "more"}
    return Table(title, ["", "real", "ours", "ratio"], rows, notes, samples, {RATIO: "less"}, rates)


def _compile_receiver(directory: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        print("  no C compiler: nothing to hold both against", flush=True)
        return None
    program = directory / "receive"
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O2", "-o", program, Path(__file__).with_name("receive.c")], check=True)
    return program


def _receive_barely(program: Path, master: BrokerServer) -> float:
    """MB/s of the C program."""
    host, port = rawrequest.split_address(master.address)
    end = int(rawrequest.runtime_info(master.address)["commitLogMaxOffset"])
    log = program.with_name("received")
    done = subprocess.run(
        [program, host, str(port + 1), log, str(end)], capture_output=True, text=True, timeout=300, check=True
    )
    log.unlink()
    return end / 1e6 / float(done.stdout)


def _catch_up(master: BrokerServer, slave: BrokerServer) -> tuple[float, float, float]:
    """MB/s, CPU seconds of the slave per GB, and its own memory then, in MB."""
    entries, end = entries_of(master), int(rawrequest.runtime_info(master.address)["commitLogMaxOffset"])
    with slave:
        cpu = cpu_seconds(slave.pid)
        wait_until(lambda: _has_bytes(slave), f"first bytes at {slave.name}", 60, period=0.005)
        began = time.perf_counter()
        wait_until(lambda: _has_entries(slave, entries), f"{slave.name} has caught up", 300)
        seconds = time.perf_counter() - began
        cpu = cpu_seconds(slave.pid) - cpu
        memory = own_memory_mb(slave.pid)
    return end / 1e6 / seconds, cpu / (end / 1e9), memory


def _has_entries(broker: BrokerServer, wanted: list[int]) -> bool:
    """Asks as little as it can: the slave has other work."""
    return all(rawrequest.max_offset(broker.address, TOPIC, queue) == wanted[queue] for queue in reversed(QUEUES))


def _has_bytes(broker: BrokerServer) -> bool:
    """Return True if the broker's log has begun, by its file.

    An empty real broker does not respond to requests about itself.
    """
    files = broker.describe().commit_log()
    if not files:
        return False
    with files[0].open("rb") as log:
        return any(log.read(8))
