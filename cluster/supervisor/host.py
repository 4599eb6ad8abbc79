"""The machine of a cluster: this one, or a simulated one."""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
import trio

from rmqlab.cluster.supervisor.address_allocation import AddressAllocation, allocate_addresses
from rmqlab.cluster.supervisor.check_settings import try_settings
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.files.privatesocket import private_socket
from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.children import ForkServer
from rmqlab.cluster.supervisor.fork.forkserver import Report
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.net.worker import in_thread

_RUN_BYTES = 8
_CONTROL_BACKLOG = 1024


class Forks(Protocol):
    """Starts and signals the processes of a cluster; see ForkServer."""

    async def attend(self, changed: Callable[[int, Report], object]) -> None:
        """Pass on each report with the id of its request.

        Return when the processes can no longer be reached.
        """

    async def spawn(self, request: SpawnRequest) -> None:
        """Order the start of a process."""

    async def signal(self, pid: int, number: int) -> None:
        """Send a signal. No effect on a process that has ended."""

    def check_runs(self) -> None:
        """ForkServerStoppedError if orders are not executed now."""

    def close(self) -> None:
        """Kill all processes."""


class Host(Protocol):
    """The machine of a cluster."""

    is_simulated: bool

    def start_forks(self, modules: Sequence[str], log: Path, spawn_method: str | None) -> Forks:
        """Return the starter of processes that need these modules."""

    def allocate_addresses(
        self, spec: ClusterSpec, directory: ClusterDirectory, record: Record | None
    ) -> AbstractContextManager[AddressAllocation]:
        """Hold addresses for the cluster. PortTakenError if none is free."""

    def clock(self, rate: float, not_before: float) -> RatedClock:
        """Return a clock for the cluster.

        Wall time begins at `not_before`, in seconds since 1970, or later.
        """

    def new_run(self, spec: ClusterSpec) -> str:
        """Return an id that no other run has."""

    def control_listener(
        self, directory: ClusterDirectory
    ) -> AbstractAsyncContextManager[trio.abc.Listener[trio.abc.Stream]]:
        """Accept the control channels of the processes."""

    async def try_settings(self, settings: Mapping[str, Any], members: int) -> list[str]:
        """Let a broker check these settings. As `check_settings.try_settings`."""


@attrs.frozen
class ThisMachine:
    """Processes of the kernel, on addresses of the loopback network."""

    forks: ForkServer | None = None
    """A fork server that runs already."""
    is_simulated = False

    def start_forks(self, modules: Sequence[str], log: Path, spawn_method: str | None) -> Forks:
        return self.forks or ForkServer.start(modules, log, spawn_method)

    def allocate_addresses(
        self, spec: ClusterSpec, directory: ClusterDirectory, record: Record | None
    ) -> AbstractContextManager[AddressAllocation]:
        return allocate_addresses(spec, directory, record)

    def clock(self, rate: float, not_before: float) -> RatedClock:
        return RatedClock(ClockSettings.starting_now(rate, not_before=not_before))

    def new_run(self, spec: ClusterSpec) -> str:  # noqa: ARG002 -- a host's form
        return secrets.token_hex(_RUN_BYTES)

    @asynccontextmanager
    async def control_listener(self, directory: ClusterDirectory) -> AsyncIterator[trio.abc.Listener[trio.abc.Stream]]:
        async with private_socket(directory, directory.control_socket, _CONTROL_BACKLOG) as listener:
            yield listener

    async def try_settings(self, settings: Mapping[str, Any], members: int) -> list[str]:
        return await in_thread(try_settings, settings, members)


THIS_MACHINE = ThisMachine()
