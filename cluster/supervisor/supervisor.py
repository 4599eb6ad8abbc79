"""Starts, signals and stops the processes of a cluster.

Their state is in `rmqlab.cluster.supervisor.processes`.
"""

import contextlib
import itertools
import signal
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
import trio

from rmqlab.cluster.faults.controller import FaultController
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.files import nodestore
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.logs import last_lines
from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError, ForkServerStoppedError
from rmqlab.cluster.supervisor.fork.nodemodules import MODULES, module_of
from rmqlab.cluster.supervisor.host import Forks
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, ProcessState, WrongStateError, describe_end
from rmqlab.cluster.supervisor.plan.targets import ALL_MEMBERS, find_targets, target_words
from rmqlab.cluster.supervisor.plan.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    check_workload_name,
    namesrv_addr,
    start_phases,
    workload_host,
)
from rmqlab.cluster.supervisor.processes import Processes
from rmqlab.runtime.clock import RatedClock
from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.files.disk import StoreError
from rmqlab.store.offline.powerloss import Lost

T = TypeVar("T")

STARTING_AT_ONCE = 32
"""Nodes that start at the same time. With more, nameservers and the supervisor wait for processors behind them."""
START_SECONDS = 30.0
MORE_START_SECONDS = 1.0
"""Additional seconds of the timeout for each process that starts at the same time, because they share the machine."""
STOP_SECONDS = 10.0
SIGNAL_SECONDS = 5.0


async def _accept_all(_settings: Mapping[str, Any], _members: int) -> list[str]:
    await trio.lowlevel.checkpoint()
    return []


@attrs.define(eq=False)
class Supervisor:
    """One running cluster. Made by `rmqlab.cluster.lab.open_cluster`."""

    spec: ClusterSpec
    placement: Placement
    directory: ClusterDirectory
    clock: RatedClock
    forks: Forks
    nodes: dict[str, Node]
    events: EventLog
    modules: Mapping[NodeKind, str] = MODULES
    seed: str = ""
    """Random seed of its processes; empty means unseeded."""
    run: str = ""
    """Id of this start of the cluster, in the journals of all its processes."""
    try_settings: Callable[[Mapping[str, Any], int], Awaitable[list[str]]] = _accept_all
    """Lets a broker check settings, as `Host.try_settings`."""
    processes: Processes = attrs.field(init=False)
    workload_modules: dict[str, str] = attrs.field(factory=dict, init=False)
    workload_settings: dict[str, Mapping[str, Any]] = attrs.field(factory=dict, init=False)
    """The settings files of workloads. They can contain secret keys, so they exist only until they are read."""
    pending_settings: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)
    """By node: settings for its next start."""
    changing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while nodes or settings are changed."""
    is_stopping: bool = attrs.field(default=False, init=False)
    """True when the whole cluster is about to stop."""
    moved: str = attrs.field(default="", init=False)
    """Why its addresses differ from those of its last start; empty if they do not."""
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _log_starts: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.processes = Processes(self.nodes, self.clock, self.events)

    @property
    def faults(self) -> FaultController:
        """The faults in effect."""
        return self.processes.faults

    @property
    def namesrv_addr(self) -> str:
        """The nameserver addresses for clients."""
        return namesrv_addr(self.nodes.values())

    def find(self, target: str) -> list[Node]:
        """Return the nodes of a target. UnknownTargetError lists the valid ones.

        Of several masters of one group, those that run, if any does: the others were masters before.
        """
        found = [node for word in target_words(target) for node in self._find(word)]
        return list({node.name: node for node in found}.values())

    def _find(self, target: str) -> list[Node]:
        found = find_targets(target, self.nodes.values())
        alive = [node for node in found if self.process_state(node.name).is_alive]
        is_masters = all(node.is_master for node in found) and not target.endswith(f":{ALL_MEMBERS}")
        return alive if alive and is_masters else found

    def node(self, name: str) -> Node:
        """Return a node. WrongStateError if another command has removed it meanwhile."""
        if (node := self.nodes.get(name)) is None:
            raise WrongStateError(f"{name} is no node of this cluster any more: another command has removed it")
        return node

    def process_state(self, name: str) -> ProcessState:
        """Return the state of a node's process."""
        return self.processes.state_of(name)

    def record(self, node: str, kind: str, **fields: object) -> None:
        """Add an event of the supervisor to the log, at the cluster's time."""
        self.processes.record(node, kind, **fields)

    async def start(self, *names: str) -> None:
        """Start nodes, and wait until all are ready. NodeFailedError if one fails."""
        for name in names:
            if (process := self.process_state(name)).is_alive:
                remedy = "; `resume` continues it" if process.is_paused else ""
                raise WrongStateError(f"{name} is already {process.state} (pid {process.pid}){remedy}")
        # A member of a DLedger group is ready once its group has elected a leader: it would hold up the others.
        at_once = STARTING_AT_ONCE if all(self.node(name).member_id is None for name in names) else len(names)
        seconds = START_SECONDS + (min(len(names), at_once) - 1) * MORE_START_SECONDS
        try:
            for name, earlier in itertools.zip_longest(names, (None,) * at_once + names):
                if earlier is not None:
                    await self.wait_ready(earlier, seconds)
                if name is not None:
                    await self.spawn(name)
        finally:
            for name in self.workload_settings.keys() & set(names):
                self.directory.config_path(name).unlink(missing_ok=True)

    async def spawn(self, name: str) -> None:
        """Order the start of a node's process, without waiting for its result.

        NodeFailedError for a node that would write outside its directory.
        """
        node = self.node(name)
        try:
            await self._write_pending_settings(name)
            await in_thread(nodestore.check_startable, self.directory, node)
            if (settings := self.workload_settings.get(name)) is not None:
                nodestore.write_settings(self.directory, name, settings)
        except (nodestore.OutsideError, OSError, ValueError) as exc:
            raise NodeFailedError(f"{name} is not started: {exc}") from None
        if (process := self.process_state(name)).is_alive:  # another command has started it meanwhile
            raise WrongStateError(f"{name} is already {process.state}")
        node = self.node(name)
        log = self.directory.log_path(name)
        self._log_starts[name] = log.stat().st_size if log.exists() else 0
        await self._order_start(node)

    async def _order_start(self, node: Node) -> None:
        """Order the start of a process.

        After ForkServerGoneError, the state of the process is as before.
        """
        name, number, before = node.name, next(self._numbers), self.process_state(node.name)
        rules = self.processes.expect(name, number)
        try:
            await self.forks.spawn(
                SpawnRequest(
                    id=number,
                    name=name,
                    module=self.workload_modules.get(name) or module_of(node, self.modules),
                    config=str(self.directory.config_path(name)),
                    log=str(self.directory.log_path(name)),
                    journal=str(self.directory.journal_path(name)),
                    control=str(self.directory.control_socket),
                    clock=self.clock.settings,
                    rules=rules.to_plain(),
                    seed=self.seed,
                    run=self.run,
                )
            )
        except ForkServerGoneError:
            self.processes.expect_no_more(name, number, before)
            raise

    async def _write_pending_settings(self, name: str) -> None:
        """Write settings into a node's file.

        On a failure, such as a full disk, the next start of the node does.
        """
        if not (changes := self.pending_settings.pop(name, None)):
            return
        try:
            await in_thread(nodestore.change_settings, self.directory, name, changes)
        except BaseException:
            self.pending_settings[name] = {**changes, **self.pending_settings.get(name, {})}
            raise

    async def wait_ready(self, name: str, seconds: float = START_SECONDS) -> None:
        """Wait until a node is ready.

        NodeFailedError if it ends before that, or after the timeout. A workload that has finished its work before this
        task runs again counts as a success.
        """
        if not await self.processes.wait_progress(
            name, lambda process: process.ready is not None or not process.is_alive, seconds
        ):
            raise NodeFailedError(
                f"{name} is not ready after {seconds:g} s{self.faults.suffix_for(name)}{self._log_tail(name)}"
            )
        if self.process_state(name).is_alive:
            return
        await self.processes.wait_ends_recorded(name)  # its Ready can arrive after the report of its end
        process = self.process_state(name)
        is_workload = self.node(name).kind is NodeKind.WORKLOAD
        if not is_workload or (process.ready is None and process.exit_status != 0):
            raise NodeFailedError(f"{name} ended with {describe_end(process.exit_status)}{self._log_tail(name)}")

    async def kill(self, *names: str) -> None:
        """Kill nodes with SIGKILL, and wait until they have ended."""
        await self._signal(names, signal.SIGKILL, "kill", lambda process: not process.is_alive, SIGNAL_SECONDS)
        await self.processes.wait_ends_recorded(*names)

    async def stop(self, *names: str) -> None:
        """Stop nodes with SIGTERM, and wait until they have ended.

        A node that does not end within the timeout is killed. One that stops already gets no second SIGTERM, which
        would end it at once. WrongStateError, without any effect, for a node that is paused or does not run;
        ForkServerStoppedError likewise.
        """
        for name in names:
            if self._alive(name).is_paused:
                raise WrongStateError(f"{name} is paused and cannot stop gracefully: resume it first, or kill it")
        if names:
            self.forks.check_runs()  # otherwise they would count as stopping, and no later stop would signal them
        sent = {name for name in names if not self.processes.expect_end(name)}
        try:
            await self._signal(names, signal.SIGTERM, "stop", lambda process: not process.is_alive, STOP_SECONDS, sent)
        except NodeFailedError:
            await self.kill(*(name for name in names if self.process_state(name).is_alive))
            raise
        await self.processes.wait_ends_recorded(*names)

    async def pause(self, *names: str) -> None:
        """Pause nodes with SIGSTOP, and wait until the kernel reports it."""
        for name in names:
            if self._alive(name).is_paused:
                raise WrongStateError(f"{name} is already paused")
        await self._signal(names, signal.SIGSTOP, "pause", lambda process: process.is_paused or not process.is_alive)

    async def resume(self, *names: str) -> None:
        """Resume nodes with SIGCONT, and wait until the kernel reports it."""
        for name in names:
            if not (process := self._alive(name)).is_paused:
                raise WrongStateError(f"{name} is {process.state}, not paused")
        await self._signal(names, signal.SIGCONT, "resume", lambda process: not process.is_paused)

    async def restart(self, *names: str) -> None:
        """Stop the running nodes, then start all."""
        await self.stop(*(name for name in names if self.process_state(name).is_alive))
        await self.start(*names)

    async def power_loss(self, *names: str) -> dict[str, Lost]:
        """Kill nodes and erase their unsynced data. Return the loss of each node.

        WrongStateError, without any effect, if a node has files outside its directory.
        """
        for name in names:
            await self._check(nodestore.check_inside, name)
        await self.kill(*(name for name in names if self.process_state(name).is_alive))
        losses = {}
        for name in names:
            try:
                lost = await in_thread(nodestore.lose_power, self.directory, self.node(name))
            except (StoreError, OSError, nodestore.OutsideError) as exc:
                raise NodeFailedError(f"{name} is {self.process_state(name).state}, but: {exc}") from None
            self.processes.lost_power(name, lost)
            losses[name] = lost
        return losses

    async def wipe(self, *names: str) -> dict[str, int]:
        """Kill nodes and delete their data.

        Return the number of deleted files of each node. WrongStateError, without any effect, if a node has no data, or
        files outside its directory.
        """
        for name in names:
            await self._check(nodestore.check_wipeable, self.node(name))
        await self.kill(*(name for name in names if self.process_state(name).is_alive))
        deleted = {}
        for name in names:
            try:
                deleted[name] = await in_thread(nodestore.wipe, self.directory, self.node(name))
            except (StoreError, OSError, nodestore.OutsideError) as exc:
                raise NodeFailedError(f"{name} is {self.process_state(name).state}, but: {exc}") from None
            self.record(name, "store_wiped", files=deleted[name])
        return deleted

    async def stop_all(self) -> None:
        """Stop all processes, in the order workloads, slaves, masters, nameservers.

        Never fails; time is bounded.

        Faults end first, because an isolated node would wait long for its unregistration.
        """
        self.record("", "cluster_stopping")
        self.is_stopping = True
        self.faults.end_all("the cluster stops")
        for phase in reversed(start_phases([*self.nodes.values()])):
            alive = [name for name in phase if self.process_state(name).is_alive]
            try:
                await self.kill(*(name for name in alive if self.process_state(name).is_paused))
                await self.stop(*(name for name in alive if self.process_state(name).is_alive))
            except (NodeFailedError, WrongStateError, ForkServerStoppedError) as exc:
                self.record("", "stop_overdue", reason=str(exc))
        await self.processes.wait_ends_recorded(*self.nodes)  # includes processes that have just ended by themselves

    async def kill_all(self) -> None:
        """Kill all processes, without waiting for their ends.

        A fork server that is stopped is killed when it is closed, and all processes end with it.
        """
        with contextlib.suppress(ForkServerStoppedError):
            for process in list(self.processes.states.values()):
                if process.is_alive and process.pid is not None:
                    await self.forks.signal(process.pid, signal.SIGKILL)

    def add_workload(self, name: str, module: str) -> Node:
        """Add the node of a workload, which has its own address but does not listen.

        ValueError for a name that is invalid or taken; WrongStateError for one that is running.
        """
        check_workload_name(name, self.nodes)
        if self.process_state(name).is_alive:
            raise WrongStateError(f"{name} already runs")
        index = sum(node.kind is NodeKind.WORKLOAD for node in self.nodes.values())
        node = Node(name=name, kind=NodeKind.WORKLOAD, host=workload_host(self.placement, index))
        self.nodes[name] = node
        self.workload_modules[name] = module
        self.faults.change_rules()  # faults that isolate other nodes apply to this one, too
        return node

    async def _check(self, check: Callable[[ClusterDirectory, T], None], what: T) -> None:
        try:
            await in_thread(check, self.directory, what)
        except (nodestore.NothingToWipeError, nodestore.OutsideError) as exc:
            raise WrongStateError(str(exc)) from None

    def _alive(self, name: str) -> ProcessState:
        process = self.process_state(name)
        if not process.is_alive:
            raise WrongStateError(f"{name} is {process.state}: it has no process")
        return process

    async def _signal(
        self,
        names: Iterable[str],
        number: signal.Signals,
        verb: str,
        holds: Callable[[ProcessState], bool],
        seconds: float = SIGNAL_SECONDS,
        sent: Collection[str] = (),
    ) -> None:
        """Send a signal to all but `sent`, and wait for its effect on all."""
        states = {name: self._alive(name) for name in names}
        for name in [name for name in states if name not in sent]:
            await self.processes.wait_spawned(name, seconds)
            self.record(name, "command", command=verb)
            if (pid := self.process_state(name).pid) is not None:
                await self.forks.signal(pid, number)
        for name in states:
            if not await self.processes.wait_progress(name, holds, seconds):
                raise NodeFailedError(
                    f"{name}: {verb} had no effect within {seconds:g} s; it is {self.process_state(name).state}"
                )

    def _log_tail(self, name: str) -> str:
        lines = last_lines(self.directory.log_path(name), since=self._log_starts.get(name, 0))
        return "".join(f"\n  {name}| {line}" for line in lines)
