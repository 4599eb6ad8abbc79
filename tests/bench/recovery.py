"""Time until a broker is ready on the store of a killed one, real and ours.

Each broker starts on a copy of the same store. Ours wrote it (both kinds open each other's) and was killed with 9 after
the last message. The files are in the page cache, as they are after a kill.
"""

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
from tests.bench.process import cpu_seconds
from tests.bench.tables import RATIO, Cell, Table, median, ratio
from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

_KEY, _BODY = "the-last", b"the last message"
_ROWS = {
    "from the process's start to ready, s": "ready",
    "until a query by key is answered as well, s": "indexed",
    "CPU until then, s": "CPU",
    "from start to ready on an empty store, s": "empty",
}


def measure(java: Java, directory: Path, *, megabytes: int, rounds: int) -> Table:
    """One store; then `rounds` times each kind starts on a copy of it, in turn."""
    samples: dict[str, list[float]] = defaultdict(list)
    messages = messages_in(megabytes)
    with nameserver_of("ours", java, directory) as nameserver:
        with broker_of("ours", java, directory / "writer", nameserver.address) as writer:
            fill(java, writer, messages)
            sent = rawrequest.send(writer.address, TOPIC, _BODY, properties=f"KEYS\x01{_KEY}\x02")
            assert sent.code == rawrequest.SUCCESS
            wanted = entries_of(writer)
            writer.kill()
        for number in range(rounds):
            for kind in SYSTEMS:
                place = directory / f"round-{number}"
                empty = broker_of(kind, java, place / "empty", nameserver.address)
                samples[f"{kind} empty"].append(_time_start(empty))
                empty.kill()
                killed = broker_of(kind, java, place, nameserver.address)
                _copy(writer.store, killed.store)
                found = _recover(killed, wanted)
                for what, seconds in found.items():
                    samples[f"{kind} {what}"].append(seconds)
                _delete(place)
                print(
                    f"  {kind:5} " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in found.items()), flush=True
                )
    rows: list[list[Cell]] = []
    for what, key in _ROWS.items():
        real, ours = (median(samples[f"{kind} {key}"]) for kind in SYSTEMS)
        rows.append([what, real, ours, ratio(ours, real)])
    title = f"Start after kill -9 on a store of {megabytes:,} MB"
    notes = f"Medians of {rounds}; {messages:,} messages of {BODY_SIZE} B in {len(QUEUES)} queues."
    return Table(title, ["", "real", "ours", "ratio"], rows, notes, samples, {RATIO: "less"})


def _recover(broker: BrokerServer, wanted: list[int]) -> dict[str, float]:
    """Start it; it must have every queue entry when it is ready."""
    began = time.perf_counter()
    try:
        ready = _time_start(broker)
        assert entries_of(broker) == wanted, f"{broker.name} has {entries_of(broker)} entries of {wanted}"
        wait_until(lambda: rawrequest.query(broker.address, TOPIC, _KEY) == [_BODY], f"{broker.name} finds a key", 300)
        return {"ready": ready, "indexed": time.perf_counter() - began, "CPU": cpu_seconds(broker.pid)}
    finally:
        broker.kill()


def _time_start(broker: BrokerServer) -> float:
    began = time.perf_counter()
    broker.start()
    return time.perf_counter() - began


def _copy(store: Path, to: Path) -> None:
    subprocess.run(["cp", "--recursive", "--sparse=always", store, to], check=True)


def _delete(place: Path) -> None:
    subprocess.run(["rm", "--recursive", place], check=True)
