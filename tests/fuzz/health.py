"""Conditions of a node after each batch: process, memory, files, reply times.

The process is the same; memory and open files are as before.
"""

import contextlib
import statistics
import time
from pathlib import Path

import attrs
import trio

from rmqlab.remoting.command import request
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from tests.bench.process import pss_mb

MEMORY_MB = 50.0
"""Growth of the proportional set size that a node may show over a whole run."""
FILES = 64
"""More open files than at the start: connections are closed, and log files roll seldom."""
MEDIAN_SECONDS = 0.1
PROBES = 5
CALM_SECONDS = 1.0
"""Pause before slow replies are measured once more: effects of a peer must be over by then."""
PROBE_TIMEOUT = 20.0


@attrs.frozen
class Node:
    """A process under test, as it was when the run began."""

    name: str
    pid: int
    address: str
    probe: int
    """The request code of a well-formed question without fields."""
    memory_mb: float
    files: int

    @classmethod
    def at_start(cls, name: str, pid: int, address: str, probe: int) -> "Node":
        """Measure it."""
        return cls(name, pid, address, probe, pss_mb(pid), open_files(pid))


def open_files(pid: int) -> int:
    """Return the number of open descriptors, without queue files.

    Clients create queues, and the store bounds their files.
    """
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            targets.append(str(link.readlink()))
    return sum("/consumequeue/" not in target for target in targets)


def is_alive(pid: int) -> bool:
    """True for a process that has not ended."""
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


async def complaints(node: Node) -> list[str]:
    """Return the problems of the node; empty if it is healthy."""
    if not is_alive(node.pid):
        return [f"{node.name} died"]
    seconds = await probe_seconds(node)
    if seconds is None or seconds > MEDIAN_SECONDS:  # another process of this machine may have been busy
        await trio.sleep(CALM_SECONDS)
        seconds = await probe_seconds(node)
    found = []
    if seconds is None:
        found.append(f"{node.name} did not answer a well-formed request within {PROBE_TIMEOUT:g} s")
    elif seconds > MEDIAN_SECONDS:
        found.append(f"{node.name} answers after {seconds * 1000:.0f} ms, more than {MEDIAN_SECONDS * 1000:.0f}")
    if (grown := pss_mb(node.pid) - node.memory_mb) > MEMORY_MB:
        found.append(f"{node.name} has grown by {grown:.0f} MB, more than {MEMORY_MB:.0f}")
    if (more := open_files(node.pid) - node.files) > FILES:
        found.append(f"{node.name} holds {more} more open files than at the start, more than {FILES}")
    return found


async def probe_seconds(node: Node) -> float | None:
    """Return the median time of some well-formed requests; None if one gets no reply."""
    taken = []
    async with open_reactor() as reactor:
        client = RemotingClient(reactor)
        try:
            for _ in range(PROBES):
                began = time.perf_counter()
                await client.request(node.address, request(node.probe), PROBE_TIMEOUT)
                taken.append(time.perf_counter() - began)
        except Exception:  # noqa: BLE001 - any failure of a well-formed request is the finding
            return None
        finally:
            client.close()
    await trio.lowlevel.checkpoint()
    return statistics.median(taken)
