"""The supervisor: starts the processes of a cluster, and acts on them. What it knows of them is in `rmqlab.cluster.supervisor.processes`."""

import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
import trio

from rmqlab.cluster.faults.controller import FaultController
from rmqlab.cluster.supervisor import nodestore
from rmqlab.cluster.supervisor.child import SpawnRequest
from rmqlab.cluster.supervisor.children import ForkServer
from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.forklaunch import BROKER_MODULE, NAMESERVER_MODULE
from rmqlab.cluster.supervisor.logs import last_lines
from rmqlab.cluster.supervisor.process_state import NodeFailedError, ProcessState, WrongStateError, describe_end
from rmqlab.cluster.supervisor.processes import Processes
from rmqlab.cluster.supervisor.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    check_workload_name,
    find_targets,
    namesrv_addr,
    workload_host,
)
from rmqlab.runtime.clock import RatedClock
from rmqlab.store.disk import StoreError
from rmqlab.store.powerloss import Lost

T = TypeVar("T")

START_SECONDS = 30.0
MORE_START_SECONDS = 1.0
"""Those that start together share the machine: so much longer any of them may take for each other."""
STOP_SECONDS = 10.0
SIGNAL_SECONDS = 5.0

MODULES: Mapping[NodeKind, str] = {NodeKind.NAMESERVER: NAMESERVER_MODULE, NodeKind.BROKER: BROKER_MODULE}


@attrs.define(eq=False)
class Supervisor:
    """One running cluster. Made by `rmqlab.cluster.lab.open_cluster`."""

    spec: ClusterSpec
    placement: Placement
    directory: ClusterDirectory
    clock: RatedClock
    forks: ForkServer
    nodes: dict[str, Node]
    events: EventLog
    modules: Mapping[NodeKind, str] = MODULES
    seed: str = ""
    """What the random choices of its processes follow from; empty: chance."""
    processes: Processes = attrs.field(init=False)
    workload_modules: dict[str, str] = attrs.field(factory=dict, init=False)
    workload_settings: dict[str, Mapping[str, Any]] = attrs.field(factory=dict, init=False)
    """The settings files of workloads. They may hold secret keys: on disk only while a process reads them."""
    is_stopping: bool = attrs.field(default=False, init=False)
    """All is about to end."""
    moved: str = attrs.field(default="", init=False)
    """Why it is not at the addresses of its last start; empty where it is."""
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _log_starts: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.processes = Processes(self.nodes, self.clock, self.events)

    @property
    def faults(self) -> FaultController:
        """The faults in force."""
        return self.processes.faults

    @property
    def namesrv_addr(self) -> str:
        """What clients are given."""
        return namesrv_addr(self.nodes.values())

    def find(self, target: str) -> list[Node]:
        """The nodes that a target means. UnknownTargetError lists what exists."""
        return find_targets(target, self.nodes.values())

    def life(self, name: str) -> ProcessState:
        """What is known about a node's process."""
        return self.processes.life(name)

    def record(self, node: str, kind: str, **fields: object) -> None:
        """Add an event of the supervisor's own to the log, at the cluster's time."""
        self.processes.record(node, kind, **fields)

    async def start(self, *names: str) -> None:
        """Start nodes that do not run, all at once, and wait until each is ready. NodeFailedError says why not."""
        for name in names:
            if (life := self.life(name)).is_alive:
                raise WrongStateError(f"{name} is {life.state} (pid {life.pid}) already")
        for name in names:
            await self.spawn(name)
        try:
            for name in names:
                await self.wait_ready(name, START_SECONDS + (len(names) - 1) * MORE_START_SECONDS)
        finally:
            for name in self.workload_settings.keys() & set(names):
                self.directory.config_path(name).unlink(missing_ok=True)

    async def spawn(self, name: str) -> None:
        """Order the birth of a node's process, without waiting for what becomes of it.

        NodeFailedError for a node that would write outside its directory.
        """
        node = self.nodes[name]
        try:
            await trio.to_thread.run_sync(nodestore.check_startable, self.directory, node)
            if (settings := self.workload_settings.get(name)) is not None:
                nodestore.write_settings(self.directory, name, settings)
        except nodestore.OutsideError as exc:
            raise NodeFailedError(f"{name} is not started: {exc}") from None
        log = self.directory.log_path(name)
        self._log_starts[name] = log.stat().st_size if log.exists() else 0
        number = next(self._numbers)
        await self.forks.spawn(
            SpawnRequest(
                id=number,
                name=name,
                module=self.workload_modules.get(name) or self.modules[node.kind],
                config=str(self.directory.config_path(name)),
                log=str(log),
                journal=str(self.directory.journal_path(name)),
                control=str(self.directory.control_socket),
                clock=self.clock.settings,
                rules=self.processes.expect(name, number).to_plain(),
                seed=self.seed,
            )
        )

    async def wait_ready(self, name: str, seconds: float = START_SECONDS) -> None:
        """Wait until a node is ready. NodeFailedError when it ends before, or takes too long.

        A workload may have done all its work before this task runs again: that is a success.
        """
        if not await self.processes.wait_progress(
            name, lambda life: life.ready is not None or not life.is_alive, seconds
        ):
            raise NodeFailedError(
                f"{name} is not ready after {seconds:g} s{self.faults.suffix_for(name)}{self._last_words(name)}"
            )
        if self.life(name).is_alive:
            return
        await self.processes.wait_told(name)  # "ready" may still be on its way, behind the report of the end
        life = self.life(name)
        is_workload = self.nodes[name].kind is NodeKind.WORKLOAD
        if not is_workload or (life.ready is None and life.exit_status != 0):
            raise NodeFailedError(f"{name} ended with {describe_end(life.exit_status)}{self._last_words(name)}")

    async def kill(self, *names: str) -> None:
        """SIGKILL, and wait for the end."""
        await self._signal(names, signal.SIGKILL, "kill", lambda life: not life.is_alive, SIGNAL_SECONDS)
        await self.processes.wait_told(*names)

    async def stop(self, *names: str) -> None:
        """SIGTERM, and wait for the end. A node that does not come to it is killed."""
        for name in names:
            if self._alive(name).is_paused:
                raise WrongStateError(f"{name} is paused and cannot stop in order: resume it first, or kill it")
            self.processes.expect_end(name)
        try:
            await self._signal(names, signal.SIGTERM, "stop", lambda life: not life.is_alive, STOP_SECONDS)
        except NodeFailedError:
            await self.kill(*(name for name in names if self.life(name).is_alive))
            raise
        await self.processes.wait_told(*names)

    async def pause(self, *names: str) -> None:
        """SIGSTOP, and wait until the kernel says that it stands."""
        for name in names:
            if self._alive(name).is_paused:
                raise WrongStateError(f"{name} is paused already")
        await self._signal(names, signal.SIGSTOP, "pause", lambda life: life.is_paused or not life.is_alive)

    async def resume(self, *names: str) -> None:
        """SIGCONT, and wait until the kernel says that it moves."""
        for name in names:
            if not (life := self._alive(name)).is_paused:
                raise WrongStateError(f"{name} is {life.state}, not paused")
        await self._signal(names, signal.SIGCONT, "resume", lambda life: not life.is_paused)

    async def restart(self, *names: str) -> None:
        """Stop those that run, then start all."""
        await self.stop(*(name for name in names if self.life(name).is_alive))
        await self.start(*names)

    async def power_loss(self, *names: str) -> dict[str, Lost]:
        """SIGKILL what runs, then erase what was not synced to disk; answer what each node lost.

        WrongStateError, and nothing done, where that would reach outside a node's directory.
        """
        for name in names:
            await self._check(nodestore.check_inside, name)
        await self.kill(*(name for name in names if self.life(name).is_alive))
        losses = {}
        for name in names:
            try:
                lost = await trio.to_thread.run_sync(nodestore.lose_power, self.directory, self.nodes[name])
            except (StoreError, OSError, nodestore.OutsideError) as exc:
                raise NodeFailedError(f"{name} is {self.life(name).state}, but: {exc}") from None
            self.processes.lost_power(name, lost)
            losses[name] = lost
        return losses

    async def wipe(self, *names: str) -> dict[str, int]:
        """SIGKILL what runs, then delete its data; answer how many files it were.

        WrongStateError, and nothing done, if there are none, or where that would reach outside a node's directory.
        """
        for name in names:
            await self._check(nodestore.check_wipeable, self.nodes[name])
        await self.kill(*(name for name in names if self.life(name).is_alive))
        deleted = {}
        for name in names:
            try:
                deleted[name] = await trio.to_thread.run_sync(nodestore.wipe, self.directory, self.nodes[name])
            except (StoreError, OSError, nodestore.OutsideError) as exc:
                raise NodeFailedError(f"{name} is {self.life(name).state}, but: {exc}") from None
            self.record(name, "store_wiped", files=deleted[name])
        return deleted

    async def stop_all(self) -> None:
        """End every process: workloads, slaves, masters, nameservers; in order, without failing, in bounded time.

        Faults end first: a node that cannot reach anybody would wait long with its goodbyes.
        """
        self.record("", "cluster_stopping")
        self.is_stopping = True
        self.faults.end_all("the cluster stops")
        for phase in reversed(start_phases([*self.nodes.values()])):
            alive = [name for name in phase if self.life(name).is_alive]
            try:
                await self.kill(*(name for name in alive if self.life(name).is_paused))
                await self.stop(*(name for name in alive if self.life(name).is_alive))
            except (NodeFailedError, WrongStateError) as exc:
                self.record("", "stop_overdue", reason=str(exc))
        await self.processes.wait_told(*self.nodes)  # also of those that ended by themselves just now

    async def kill_all(self) -> None:
        """End every process at once, without waiting for it."""
        for life in list(self.processes.lives.values()):
            if life.is_alive and life.pid is not None:
                await self.forks.signal(life.pid, signal.SIGKILL)

    def add_workload(self, name: str, module: str) -> Node:
        """Make room for a workload process: a node that speaks from an address of its own and listens nowhere.

        ValueError for a name that is no file name, or taken; WrongStateError for one that runs.
        """
        check_workload_name(name, self.nodes)
        if self.life(name).is_alive:
            raise WrongStateError(f"{name} runs already")
        index = sum(node.kind is NodeKind.WORKLOAD for node in self.nodes.values())
        node = Node(name=name, kind=NodeKind.WORKLOAD, host=workload_host(self.placement, index))
        self.nodes[name] = node
        self.workload_modules[name] = module
        self.faults.change_rules()  # it is among those whom others are cut off from
        return node

    async def _check(self, check: Callable[[ClusterDirectory, T], None], what: T) -> None:
        try:
            await trio.to_thread.run_sync(check, self.directory, what)
        except (nodestore.NothingToWipeError, nodestore.OutsideError) as exc:
            raise WrongStateError(str(exc)) from None

    def _alive(self, name: str) -> ProcessState:
        life = self.life(name)
        if not life.is_alive:
            raise WrongStateError(f"{name} is {life.state}: it has no process")
        return life

    async def _signal(
        self,
        names: Iterable[str],
        number: signal.Signals,
        verb: str,
        holds: Callable[[ProcessState], bool],
        seconds: float = SIGNAL_SECONDS,
    ) -> None:
        lives = {name: self._alive(name) for name in names}
        for name, life in lives.items():
            if life.pid is None:  # ordered, not yet born: a moment
                await self.processes.wait_life(name, lambda life: life.pid is not None or not life.is_alive, seconds)
            self.record(name, "command", command=verb)
            if (pid := self.life(name).pid) is not None:
                await self.forks.signal(pid, number)
        for name in lives:
            if not await self.processes.wait_progress(name, holds, seconds):
                raise NodeFailedError(
                    f"{name}: {verb} had no effect within {seconds:g} s; it is {self.life(name).state}"
                )

    def _last_words(self, name: str) -> str:
        lines = last_lines(self.directory.log_path(name), since=self._log_starts.get(name, 0))
        return "".join(f"\n  {name}| {line}" for line in lines)


def start_phases(nodes: Iterable[Node]) -> list[list[str]]:
    """Who may start together: nameservers, then masters, then slaves, then workloads.

    A broker registers once at its start and then every 30 s, and a slave learns its master from a registration:
    each must find the one before it ready.
    """
    phases: list[list[str]] = [[], [], [], []]
    for node in nodes:
        phase = 0 if node.kind is NodeKind.NAMESERVER else 1 if node.is_master else 2 if node.is_slave else 3
        phases[phase].append(node.name)
    return phases
