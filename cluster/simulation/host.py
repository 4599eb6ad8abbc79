"""A simulated machine as the host of a cluster."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from rmqlab.cluster.simulation.forks import SimulatedForks
from rmqlab.cluster.simulation.nodelogs import NodeLogs
from rmqlab.cluster.supervisor.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.host import Forks, Host
from rmqlab.cluster.supervisor.placing import Place
from rmqlab.cluster.supervisor.topology import ClusterSpec, Placement, place
from rmqlab.runtime import stopwatch
from rmqlab.runtime.clock import RatedClock
from rmqlab.runtime.network import set_network
from rmqlab.runtime.worker import InlineCalls, run_inline
from rmqlab.simulation.guest import seed_scheduler
from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.network import Fabric, SimulatedNetwork

T = TypeVar("T")

SUBNET = 1
NETWORK = "127.1"


@attrs.define(eq=False)
class SimulatedHost:
    """A `rmqlab.cluster.supervisor.host.Host`."""

    machine: Machine
    logs: NodeLogs
    supervisor: Node = attrs.field(init=False)
    fabric: Fabric = attrs.field(init=False)
    is_simulated = True
    _forks: SimulatedForks | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.fabric = Fabric(self.machine)

    def start_forks(self, modules: Sequence[str], log: Path, way: str | None) -> Forks:  # noqa: ARG002 -- a host's form
        self._forks = SimulatedForks(self.machine, self.fabric, self.supervisor, self.logs)
        return self._forks

    @contextmanager
    def placed(self, spec: ClusterSpec, directory: ClusterDirectory, record: Record | None) -> Iterator[Place]:  # noqa: ARG002 -- a host's form
        yield Place(place(spec, record.placement if record else Placement(network=NETWORK, subnet=SUBNET)))

    def clock(self, rate: float, not_before: float) -> RatedClock:  # noqa: ARG002 -- a host's form
        return self.supervisor.guest.clock

    @asynccontextmanager
    async def control_listener(
        self,
        directory: ClusterDirectory,  # noqa: ARG002 -- a host's form
    ) -> AsyncIterator[trio.abc.Listener[trio.abc.Stream]]:
        assert self._forks is not None
        yield _ControlListener(self._forks.connections[1])

    async def try_settings(self, settings: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 -- a host's form
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


def simulate(seed: str, play: Callable[[Host], Awaitable[T]]) -> T:
    """Return what `play` does on a simulated machine, where a cluster can be opened.

    It changes this process for good, so call it in one that does nothing else: clocks for work, the generator of
    random numbers, and the logs are those of the simulation from now on.
    """
    machine = Machine(seed)
    logs = NodeLogs(machine)
    logs.install()
    random.seed(f"{seed} of all nodes")
    seed_scheduler(seed)
    stopwatch.replace(lambda: machine.now, lambda: 0.0)
    host = SimulatedHost(machine, logs)

    async def supervise() -> T:
        set_network(SimulatedNetwork(host.fabric, host.supervisor))
        run_inline(InlineCalls())
        return await play(host)

    host.supervisor = machine.start("supervisor", supervise, lambda _: None)
    machine.run_until(host.supervisor)
    result: T = host.supervisor.guest.outcome()
    return result
