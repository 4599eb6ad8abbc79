"""Five thousand long polls at a master, each on its own connection, real and ours.

What each costs in memory, and how long one message takes to reach all of them. The asker is this process, with one
selector; it costs the same towards either system.
"""

import contextlib
import json
import resource
import selectors
import socket
import struct
import time
from collections.abc import Iterator

from tests.bench.process import cpu_seconds, pss_mb
from tests.bench.tables import RATIO, Cell, Table, ratio
from tests.interop import rawrequest
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

POLLS = 5_000
_TOPIC = "BenchLongPoll"
_PULL_MESSAGE = 11
_SUSPEND, _SUBSCRIPTION = 2, 4
_PATIENCE = 60.0
_SETTLE = 2.0  # seconds for the last pulls to be parked: nothing tells when one is
_RESERVE = 200  # files of this process beside the connections


def measure(systems: dict[str, Cluster], *, polls: int = POLLS) -> Table:
    """One system after the other.

    The second of two messages counts, when everything has been used once.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, polls + _RESERVE)), hard))
    found = {name: _measure(name, cluster, polls) for name, cluster in systems.items()}
    rows: list[list[Cell]] = []
    labels = ("kB PSS for each parked poll", "ms until all are answered", "us of the master's CPU for each answer")
    for label, real, ours in zip(labels, found["real"], found["ours"], strict=True):
        rows.append([label, real, ours, ratio(ours, real)])
    return Table(
        f"{polls:,} parked long polls", ["", "real", "ours", "ratio"], rows, samples=found, better={RATIO: "less"}
    )


def _measure(name: str, cluster: Cluster, polls: int) -> tuple[float, float, float]:
    _, master, _ = cluster.pids.values()
    address = cluster.master.address
    rawrequest.send(address, _TOPIC, b"makes the topic")
    wait_until(lambda: rawrequest.max_offset(address, _TOPIC, 0) == 1, f"the queue of {_TOPIC}")
    before = pss_mb(master)
    with _connected(address, polls) as sockets:
        took = used = 0.0
        for offset in (1, 2):
            for sock in sockets:
                sock.sendall(_pull(offset))
            time.sleep(_SETTLE)
            parked = pss_mb(master)
            used = cpu_seconds(master)
            began = time.monotonic()
            rawrequest.send(address, _TOPIC, b"for all of you")
            _wait_replies(sockets)
            took = time.monotonic() - began
            used = cpu_seconds(master) - used
    each = (parked - before) / polls * 1000
    print(f"  {name:5} {each:6.1f} kB a poll, {took * 1000:6.0f} ms until all {polls} were answered", flush=True)
    return each, took * 1000, used / polls * 1e6


@contextlib.contextmanager
def _connected(address: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(rawrequest.split_address(address), _PATIENCE))
            for _ in range(count)
        ]


def _pull(offset: int) -> bytes:
    """A pull that brings its subscription along: no heartbeat is needed."""
    fields = {
        "consumerGroup": "bench-pollers",
        "topic": _TOPIC,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(_SUSPEND | _SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(int(_PATIENCE * 1000)),
        "subscription": "*",
        "subVersion": "0",
    }
    head = {"code": _PULL_MESSAGE, "flag": 0, "language": "JAVA", "opaque": offset, "version": 409, "extFields": fields}
    header = json.dumps(head).encode()
    return struct.pack(">II", 4 + len(header), len(header)) + header


def _wait_replies(sockets: list[socket.socket]) -> None:
    """Read one frame from each; every one must be a message."""
    with selectors.DefaultSelector() as selector:
        received = dict.fromkeys(sockets, b"")
        for sock in sockets:
            selector.register(sock, selectors.EVENT_READ)
        waiting = len(sockets)
        while waiting:
            ready = selector.select(_PATIENCE)
            if not ready:
                raise TimeoutError(f"{waiting} of {len(sockets)} long polls were not answered")
            for key, _ in ready:
                polled = key.fileobj
                assert isinstance(polled, socket.socket)
                data = received[polled] = received[polled] + polled.recv(65536)
                if len(data) >= 4 and len(data) == 4 + struct.unpack_from(">I", data)[0]:
                    selector.unregister(polled)
                    waiting -= 1
    assert all(b"for all of you" in data for data in received.values()), "a poll was answered without the message"
