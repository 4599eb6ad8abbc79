"""The Python API: starts a cluster, acts on it, reads events, awaits conditions.

    async with open_cluster(ClusterSpec(name="demo", role="SYNC_MASTER")) as cluster:
        await cluster.kill("broker-a:master")
        await cluster.wait_until("route-gone broker-a:master")

Time-outs are real seconds, whatever the cluster's rate.
"""

import contextlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

import rmqlab
from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import NodeActions
from rmqlab.cluster.changes import ClusterChanges
from rmqlab.cluster.conditions import Condition, parse_condition
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.forklaunch import BROKER_MODULE, import_steps
from rmqlab.cluster.supervisor.host import THIS_MACHINE, Host
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.marks import mark_logs
from rmqlab.cluster.supervisor.nodemodules import MODULES
from rmqlab.cluster.supervisor.nodesettings import node_settings
from rmqlab.cluster.supervisor.nodestore import OutsideError, write_settings
from rmqlab.cluster.supervisor.placing import Place, addresses_of
from rmqlab.cluster.supervisor.process_state import NodeFailedError, ProcessState
from rmqlab.cluster.supervisor.processes import SNAPSHOT_SECONDS
from rmqlab.cluster.supervisor.roles import changes_of
from rmqlab.cluster.supervisor.status import Document
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.cluster.supervisor.targets import join_targets
from rmqlab.cluster.supervisor.topology import ClusterSpec, NodeKind, node_names, start_phases
from rmqlab.faults import Fault
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.journal import (
    SUPERVISOR,
    JournalEntry,
    JournalWriter,
    merge_entries,
    opened,
    read_journal,
    read_journals,
)
from rmqlab.runtime.journaltail import JournalTail
from rmqlab.runtime.process import allow_many_files

R = TypeVar("R")

log = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.01  # without it each event of a busy workload would cause a request to all nodes
_PROBE_SECONDS = 0.05  # between two checks of a condition without an event: live facts change silently
_TAIL_SECONDS = 0.1  # between two reads of the journals without an event


@attrs.frozen
class JournalReader:
    """Reads the journals of a cluster as they grow."""

    _tail: JournalTail
    _events: EventLog

    def read_new(self) -> list[JournalEntry]:
        """Return all entries since the last call, by time, with those of single messages."""
        return self._tail.read_new()

    async def wait_changed(self) -> None:
        """Wait until there may be new entries."""
        with trio.move_on_after(real_seconds(_TAIL_SECONDS)):
            await self._events.wait_changed()

    def close(self) -> None:
        """Close the files."""
        self._tail.close()


class WaitTimeoutError(Exception):
    """A condition did not become true in time. The text says what was seen last."""


@attrs.define(eq=False)
class Workload:
    """A workload process of a cluster."""

    name: str
    _supervisor: Supervisor

    @property
    def process_state(self) -> ProcessState:
        return self._supervisor.process_state(self.name)

    def events(self) -> list[JournalEntry]:
        """Return its events, with each message, and the supervisor's events about it."""
        place = self._supervisor.directory
        own = place.journal_path(self.name)
        known = [event for event in read_journal(place.journal_path(SUPERVISOR)) if event.node == self.name]
        return merge_entries(read_journal(own) if own.exists() else (), known)

    async def wait_ended(self, seconds: float = WAIT_SECONDS) -> int:
        """Wait until it ends by itself; return its exit status. WaitTimeoutError."""
        if not await self._supervisor.processes.wait_state(self.name, lambda process: not process.is_alive, seconds):
            raise WaitTimeoutError(f"{self.name} still runs after {seconds:g} s")
        await self._supervisor.processes.wait_ends_recorded(self.name)
        return self.process_state.exit_status or 0

    async def stop(self) -> None:
        """Stop it unless it has ended."""
        if self.process_state.is_alive:
            await self._supervisor.stop(self.name)


@attrs.define(eq=False)
class Cluster(NodeActions, ClusterChanges):
    """A running cluster.

    Its actions (`kill`, `start`, ...) are the entries of `rmqlab.cluster.actions.table`; `rmqlab.cluster.changes` has
    the methods that add and remove nodes.
    """

    supervisor: Supervisor

    @property
    def namesrv_addr(self) -> str:
        return self.supervisor.namesrv_addr

    @property
    def events(self) -> EventLog:
        """All events without single messages.

        Iterate over the past ones; `follow()` yields later ones.
        """
        return self.supervisor.events

    def journal(self) -> list[JournalEntry]:
        """Return all journal entries so far, with each message, sorted by time."""
        return read_journals(self.supervisor.directory.journal_dir)

    @asynccontextmanager
    async def follow_journal(self) -> AsyncIterator[AsyncIterator[list[JournalEntry]]]:
        """Iterate over past and later journal entries, in batches sorted by time.

        They include the entries of single messages.
        """
        reader = self.journal_reader()

        async def batches() -> AsyncGenerator[list[JournalEntry], None]:
            while True:
                if new := reader.read_new():
                    yield new
                await reader.wait_changed()

        with contextlib.closing(reader):
            async with aclosing(batches()) as generator:
                yield generator

    def journal_reader(self) -> JournalReader:
        """Return a reader of past and later journal entries. It must be closed."""
        return JournalReader(JournalTail(self.supervisor.directory.journal_dir), self.events)

    async def act(self, action: NodeAction[R], target: str, *more: str) -> R:
        """Do an action of the table; return its result.

        Each is a method, too: `await cluster.kill("broker-a:*", "broker-b-s")`.
        """
        return await action.run(self.supervisor, join_targets((target, *more)))

    @property
    def faults(self) -> list[ActiveFault]:
        """The faults in force, oldest first."""
        return [*self.supervisor.faults.active.by_id.values()]

    async def fault(self, fault: Fault) -> ActiveFault:
        """Put a fault in force, and wait until all running nodes apply it.

        Kinds of faults: see `rmqlab.faults`. FaultError if this cluster cannot play it. A paused node applies it when
        it resumes, a node that starts later applies it from its start.
        """
        return await self.supervisor.faults.apply(fault)

    async def heal(self, fault: ActiveFault | str) -> None:
        """End a fault, given as an object or by its id."""
        await self.supervisor.faults.heal(fault if isinstance(fault, str) else fault.id)

    async def heal_all(self) -> list[ActiveFault]:
        """End all faults; return those that were in force."""
        return await self.supervisor.faults.heal(*self.supervisor.faults.active.by_id)

    async def mark(self, text: str) -> list[str]:
        """Write a line into all logs, and an event. Return the names of the processes."""
        return await mark_logs(self.supervisor, text)

    async def snapshot(self, target: str, seconds: float = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """Return the live facts of one node.

        None if it does not run, is paused, or does not reply in time.
        """
        (node,) = self.supervisor.find(target)
        return await self.supervisor.processes.snapshot(node.name, seconds)

    async def status(self) -> Document:
        """Return what `rmqlab status --json` prints."""
        return await live_status(self.supervisor)

    async def wait_until(self, condition: str | Callable[[Document], bool], seconds: float = WAIT_SECONDS) -> Document:
        """Wait for a condition or a predicate of the status; return that status.

        `seconds`: real time; 0 looks once. WaitTimeoutError. Conditions: see `rmqlab.cluster.conditions`.
        """
        if callable(condition):
            judged = Condition(getattr(condition, "__name__", "condition"), condition)
        else:
            judged = parse_condition(condition.split(), self.supervisor.nodes.values())
        deadline = trio.current_time() + real_seconds(seconds)
        while True:
            changed = self.events.changed
            document = await self.status()
            if judged.holds(document):
                return document
            if trio.current_time() >= deadline:
                raise WaitTimeoutError(judged.describe_timeout(document, seconds))
            with trio.move_on_at(deadline):
                await trio.sleep(real_seconds(_PAUSE_SECONDS))
                with trio.move_on_after(real_seconds(_PROBE_SECONDS)):
                    await changed.wait()

    async def run_workload(self, module: str, config: Mapping[str, Any], *, name: str | None = None) -> Workload:
        """Start a client process of the cluster.

        The module has `load_config(path)` and `async main(config, link)`. `config` goes to its settings file, with
        `namesrv_addr` and the address to connect from, `source_ip`. ValueError for a name that is taken or invalid.
        """
        number = 1 + sum(node.kind is NodeKind.WORKLOAD for node in self.supervisor.nodes.values())
        name = name or f"{module.rpartition('.')[2]}-{number}"
        node = self.supervisor.add_workload(name, module)
        self.supervisor.workload_settings[name] = {"namesrv_addr": self.namesrv_addr, "source_ip": node.host, **config}
        await self.supervisor.start(name)
        return Workload(name, self.supervisor)


@asynccontextmanager
async def open_cluster(
    spec: ClusterSpec,
    *,
    directory: ClusterDirectory | str | os.PathLike[str] | None = None,
    modules: Mapping[NodeKind, str] = MODULES,
    way: str | None = None,
    seed: str = "",
    started: Callable[[Cluster], object] = lambda _: None,
    host: Host = THIS_MACHINE,
) -> AsyncIterator[Cluster]:
    """Start a cluster, yield it when all nodes are ready, and stop it cleanly at exit.

    BadSettingsError for settings that a broker rejects, NodeFailedError for a node that does not start.
    The directory is `~/.rmqlab/<name>` unless given. `started` gets the cluster before its nodes start. `seed` fixes
    the random choices of the processes, not their timing. `host` is the machine on which it runs.
    """
    place = ClusterDirectory.named(spec.name) if directory is None else ClusterDirectory.at(directory)
    place.create()
    allow_many_files()  # a control channel for each node
    with place.locked():
        # First: it imports the nodes' modules while addresses are chosen.
        forks = host.start_forks(import_steps(modules.values()), place.path / "forkserver.log", way)
        try:
            if modules[NodeKind.BROKER] == BROKER_MODULE:  # other modules have other settings
                await scaling.check_settings(spec, host.try_settings)
            record = place.read_record()
            with host.placed(spec, place, record) as found:
                placement = found.placement
                clock = host.clock(spec.rate, _last_time(place, record))
                place.begin_journal()
                run = host.new_run(spec)
                fresh = Record(spec=spec, placement=placement, run=run, roles=_roles_kept(record, spec))
                place.write_record(fresh)
                nodes = fresh.nodes()
                for node in nodes:
                    settings = node_settings(spec, node, nodes, place.data_dir(node.name))
                    _write_settings(place, node.name, settings)
                supervisor = Supervisor(
                    spec, placement, place, clock, forks, {node.name: node for node in nodes}, EventLog(), modules, seed
                )
                supervisor.run = run
                supervisor.try_settings = host.try_settings
                async with _supervised(supervisor, host):
                    cluster = Cluster(supervisor)
                    started(cluster)
                    _record_start(supervisor)
                    _record_move(supervisor, found)
                    try:
                        for phase in start_phases(nodes):
                            await supervisor.start(*phase)
                    except NodeFailedError:
                        place.restore_record(record, run)
                        raise
                    supervisor.record("", "cluster_ready")
                    yield cluster
                roles = changes_of(supervisor.nodes.values())
                kept = attrs.evolve(fresh, spec=supervisor.spec, placement=supervisor.placement, roles=roles)
                place.write_record(attrs.evolve(kept, clock_millis=clock.wall_millis()))
        finally:
            forks.close()


@asynccontextmanager
async def _supervised(supervisor: Supervisor, host: Host) -> AsyncIterator[None]:
    """Serve the processes until all have ended, even while the body is cancelled."""
    place = supervisor.directory
    attending = trio.CancelScope(shield=True)

    async def attend(*, task_status: trio.TaskStatus[None]) -> None:
        with attending:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(supervisor.processes.attend_nodes, listener)
                task_status.started()
                await supervisor.processes.attend_forks(supervisor.forks)
                nursery.cancel_scope.cancel()
            raise NodeFailedError(f"the fork server ended, and all nodes with it; see {place.path}/forkserver.log")

    async with host.control_listener(place) as listener:
        supervisor.events.journal = JournalWriter(place.journal_path(SUPERVISOR))
        supervisor.events.journal.begin(opened(supervisor.clock.wall_millis(), "", supervisor.run))
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(attend)
                try:
                    yield
                finally:
                    with trio.CancelScope(shield=True):
                        await supervisor.stop_all()
                        supervisor.record("", "cluster_stopped")
                    attending.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:  # unwrap the group of our own nursery
                raise group.exceptions[0] from None
            raise
        finally:
            supervisor.events.journal.close()
            supervisor.events.journal = None


def _record_start(supervisor: Supervisor) -> None:
    """Record what the judges and the report of this run must know of it."""
    spec = supervisor.spec
    supervisor.record(
        "",
        "cluster_starting",
        rate=spec.rate,
        role=spec.role,
        profile=spec.profile,
        seed=supervisor.seed,
        version=rmqlab.__version__,
    )


def _record_move(supervisor: Supervisor, found: Place) -> None:
    """Record that the cluster is not at the addresses of its last start, if so."""
    if found.note:
        supervisor.moved = found.note
        now = addresses_of(found.placement)
        supervisor.record("", "cluster_moved", before=found.moved_from, now=now, reason=found.reason)


def _write_settings(place: ClusterDirectory, name: str, settings: Mapping[str, Any]) -> None:
    try:
        write_settings(place, name, settings)
    except OutsideError as exc:
        raise NodeFailedError(f"{name} is not started: {exc}") from None


def _roles_kept(record: Record | None, spec: ClusterSpec) -> dict[str, int]:
    """Return the changed roles of the last start, of brokers that still exist."""
    brokers = node_names(spec)[1]
    return {name: broker_id for name, broker_id in record.roles.items() if name in brokers} if record else {}


def _last_time(place: ClusterDirectory, record: Record | None) -> float:
    """Return the latest second of the cluster's clock.

    After a run faster than real time, the clock must not go back.
    """
    if record is None or (record.clock_millis == 0 and record.spec.rate == 1):
        return 0
    millis = record.clock_millis
    if millis == 0:  # it was killed: its journals have the time
        millis = max((event.at_millis for event in read_journals(place.journal_dir)), default=0)
    return millis / 1000
