"""A simulated machine as the host of a cluster."""

import hashlib
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from rmqlab.cluster.simulation.forks import SimulatedForks
from rmqlab.cluster.simulation.nodelogs import NodeLogs
from rmqlab.cluster.supervisor.address_allocation import AddressAllocation
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.host import Forks, Host
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, place
from rmqlab.runtime import stopwatch
from rmqlab.runtime.clock import RatedClock
from rmqlab.runtime.identity import Identity, set_identity
from rmqlab.runtime.net.network import set_network
from rmqlab.runtime.net.worker import InlineCalls, run_inline
from rmqlab.simulation.guest import seed_scheduler
from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.network import Fabric, SimulatedNetwork
from rmqlab.store.files.machine import DiskSpace, set_machine
from rmqlab.store.files.machine import Machine as StoreMachine

T = TypeVar("T")

SUPERVISOR_PID = 1
_RUN_DIGITS = 16
OWN_ADDRESSES = Placement(network="127.1", subnet=1, more_subnets=(2, 3, 4, 5))
MEMORY_BYTES = 24 * 2**30
"""Physical memory of the simulated machine: RocketMQ's own assumption where it is unknown."""
DISK_BYTES = 100 * 2**30
DISK_USED_PERCENT = 40
"""Used space of its disk, far from every threshold of a broker."""


@attrs.define
class SimulatedSystem(StoreMachine):
    """Memory, disk and paths that every simulated machine has, wherever its files are."""

    root: Path = Path("/")

    def memory_bytes(self) -> int:
        return MEMORY_BYTES

    def used_percent(self, path: Path) -> int:
        return DISK_USED_PERCENT if path.exists() else -1

    def disk_space(self, path: Path) -> DiskSpace:  # noqa: ARG002 -- as in StoreMachine
        return DiskSpace(DISK_BYTES, DISK_BYTES * (100 - DISK_USED_PERCENT) // 100)

    def path_name(self, path: Path) -> str:
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)


@attrs.define(eq=False)
class SimulatedHost:
    """A `rmqlab.cluster.supervisor.host.Host`."""

    machine: Machine
    logs: NodeLogs
    surroundings: SimulatedSystem
    seed: str = ""
    supervisor: Node = attrs.field(init=False)
    fabric: Fabric = attrs.field(init=False)
    is_simulated = True
    _forks: SimulatedForks | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.fabric = Fabric(self.machine)

    def start_forks(self, modules: Sequence[str], log: Path, spawn_method: str | None) -> Forks:  # noqa: ARG002 -- as in Host
        self._forks = SimulatedForks(self.machine, self.fabric, self.supervisor, self.logs)
        return self._forks

    @contextmanager
    def allocate_addresses(
        self, spec: ClusterSpec, directory: ClusterDirectory, record: Record | None
    ) -> Iterator[AddressAllocation]:
        self.surroundings.root = directory.path
        unused = Placement() if spec.single_address else OWN_ADDRESSES
        recorded = record.placement if record is not None else unused
        is_kept = (recorded.subnet is None) == spec.single_address
        yield AddressAllocation(place(spec, recorded if is_kept else unused))

    def clock(self, rate: float, not_before: float) -> RatedClock:  # noqa: ARG002 -- as in Host
        return self.supervisor.guest.clock

    def new_run(self, spec: ClusterSpec) -> str:
        """Return an id made of the seed and the cluster.

        The same simulation must have the same journals.
        """
        return hashlib.sha256(f"{self.seed} {spec}".encode()).hexdigest()[:_RUN_DIGITS]

    @asynccontextmanager
    async def control_listener(
        self,
        directory: ClusterDirectory,  # noqa: ARG002 -- as in Host
    ) -> AsyncIterator[trio.abc.Listener[trio.abc.Stream]]:
        assert self._forks is not None
        yield _ControlListener(self._forks.connections[1])

    async def try_settings(self, settings: Mapping[str, Any], members: int) -> list[str]:  # noqa: ARG002 -- as in Host
        """Return no warning: brokers check their settings when they start."""
        await trio.lowlevel.checkpoint()
        return []


@attrs.define(eq=False, slots=False)
class _ControlListener(trio.abc.Listener[trio.abc.Stream]):
    connections: trio.MemoryReceiveChannel[trio.abc.Stream]

    async def accept(self) -> trio.abc.Stream:
        return await self.connections.receive()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _replace_surroundings(machine: Machine, surroundings: SimulatedSystem) -> None:
    """Hide load, time zone, memory, disk and paths of the real machine."""
    set_machine(surroundings)
    stopwatch.replace(lambda: machine.now, lambda: 0.0)
    os.environ["TZ"] = "UTC"
    time.tzset()


def simulate(seed: str, play: Callable[[Host], Awaitable[T]]) -> T:
    """Run `play` on a simulated machine; return its result.

    Call it in a process that does nothing else: from now on, its clocks for work, its generator of random numbers
    and its logs are those of the simulation.
    """
    machine = Machine(seed)
    logs = NodeLogs(machine)
    logs.install()
    random.seed(f"{seed} of all nodes")
    seed_scheduler(seed)
    surroundings = SimulatedSystem()
    _replace_surroundings(machine, surroundings)
    host = SimulatedHost(machine, logs, surroundings, seed)

    async def supervise() -> T:
        set_network(SimulatedNetwork(host.fabric, host.supervisor))
        set_identity(Identity(SUPERVISOR_PID))
        run_inline(InlineCalls())
        return await play(host)

    host.supervisor = machine.start("supervisor", supervise, lambda _: None)
    machine.run_until(host.supervisor)
    result: T = host.supervisor.guest.outcome()
    return result
