"""The Python API: starts a cluster, acts on it, reads events, awaits conditions.

    async with open_cluster(ClusterSpec(name="demo", role="SYNC_MASTER")) as cluster:
        await cluster.kill("broker-a:master")
        await cluster.wait_until("route-gone broker-a:master")

Timeouts are in real seconds at any rate of the cluster's clock.
"""

import contextlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import NodeActions
from rmqlab.cluster.apimethods import ClusterClosedError as ClusterClosedError  # noqa: PLC0414 -- its users import it
from rmqlab.cluster.apimethods import api_methods, is_in_trio
from rmqlab.cluster.changes import ClusterChanges
from rmqlab.cluster.conditions import Condition, Predicate, parse_condition, predicate_condition
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.fork.forklaunch import BROKER_MODULE, import_steps
from rmqlab.cluster.supervisor.fork.nodemodules import MODULES
from rmqlab.cluster.supervisor.host import THIS_MACHINE, Forks, Host
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.marks import mark_logs
from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.targets import join_targets
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, NodeKind, UnknownTargetError
from rmqlab.cluster.supervisor.processes import SNAPSHOT_SECONDS
from rmqlab.cluster.supervisor.starting import (
    beginning,
    last_time,
    record_move,
    record_start,
    record_to_keep,
    roles_kept,
    start_in_phases,
    supervised,
    write_all_settings,
)
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.faults import Fault
from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.config.valuetypes import Seconds, checked, checked_methods
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.journals.journalreader import merge_entries, read_journal, read_journals
from rmqlab.runtime.journals.journaltail import JournalTail
from rmqlab.runtime.node.process import allow_many_files

R = TypeVar("R")

log = logging.getLogger(__name__)

PRODUCE = "rmqlab.cluster.workload.produce"
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


@checked_methods
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

    async def wait_ended(self, seconds: Seconds = WAIT_SECONDS) -> int:
        """Wait until it ends by itself; return its exit status. WaitTimeoutError."""
        if not await self._supervisor.processes.wait_state(self.name, lambda process: not process.is_alive, seconds):
            raise WaitTimeoutError(f"{self.name} still runs after {seconds:g} s")
        await self._supervisor.processes.wait_ends_recorded(self.name)
        return self.process_state.exit_status or 0

    async def stop(self) -> None:
        """Stop it unless it has ended."""
        if self.process_state.is_alive:
            await self._supervisor.stop(self.name)


@api_methods
@attrs.define(eq=False)
class Cluster(NodeActions, ClusterChanges):
    """A running cluster.

    Its actions (`kill`, `start`, ...) are the entries of `rmqlab.cluster.actions.table`; `rmqlab.cluster.changes` has
    the methods that add and remove nodes.

    All methods raise TypeError for an argument of a wrong type, and ValueError for a time that is negative, infinite
    or NaN. Coroutine functions raise ClusterClosedError once the cluster stops.
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

    async def snapshot(self, target: str, seconds: Seconds = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """Return the live facts of one node.

        None if it does not run, is paused, or does not reply in time. UnknownTargetError for several nodes.
        """
        node, *others = self.supervisor.find(target)
        if others:
            names = ", ".join(one.name for one in (node, *others))
            raise UnknownTargetError(f"{target}: expected one node, got {names}")
        return await self.supervisor.processes.snapshot(node.name, seconds)

    async def status(self) -> Document:
        """Return what `rmqlab status --json` prints."""
        return await live_status(self.supervisor)

    async def wait_until(self, condition: str | Predicate, seconds: Seconds = WAIT_SECONDS) -> Document:
        """Wait for a condition or a predicate of the status; return that status.

        `seconds`: real time; 0 looks once. WaitTimeoutError. Conditions: see `rmqlab.cluster.conditions`.
        """
        if callable(condition):
            judged = predicate_condition(condition)
        else:
            judged = parse_condition(condition.split(), self.supervisor.nodes.values())
        document = await status_when(self, judged, seconds)
        if not judged.holds(document):
            raise WaitTimeoutError(judged.describe_timeout(document, seconds))
        return document

    async def run_workload(self, module: str, config: Mapping[str, Any], *, name: str | None = None) -> Workload:
        """Start a client process of the cluster.

        The module has `load_config(path)` and `async main(config, link)`. `config` goes to its settings file, with
        `namesrv_addr` and the address to connect from, `source_ip`. ValueError for a name that is taken or invalid, and
        for what is no module's name; NodeFailedError if the process ends with an error before it is ready.
        """
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"module = {shown(module)}: expected the name of a Python module, such as {PRODUCE}")
        number = 1 + sum(node.kind is NodeKind.WORKLOAD for node in self.supervisor.nodes.values())
        name = name or f"{module.rpartition('.')[2]}-{number}"
        node = self.supervisor.add_workload(name, module)
        self.supervisor.workload_settings[name] = {"namesrv_addr": self.namesrv_addr, "source_ip": node.host, **config}
        await self.supervisor.start(name)
        return Workload(name, self.supervisor)


def _prepared(
    place: ClusterDirectory, record: Record, clock: RatedClock, forks: Forks, modules: Mapping[NodeKind, str], seed: str
) -> Supervisor:
    """Write the record and all settings of a start; return its supervisor.

    NodeFailedError as `write_all_settings`.
    """
    place.write_record(record)
    nodes = record.nodes()
    write_all_settings(place, record.spec, nodes)
    by_name = {node.name: node for node in nodes}
    supervisor = Supervisor(record.spec, record.placement, place, clock, forks, by_name, EventLog(), modules, seed)
    supervisor.run = record.run
    return supervisor


@asynccontextmanager
@checked
async def open_cluster(
    spec: ClusterSpec,
    *,
    directory: ClusterDirectory | str | os.PathLike[str] | None = None,
    modules: Mapping[NodeKind, str] = MODULES,
    spawn_method: str | None = None,
    seed: str = "",
    started: Callable[[Cluster], object] = lambda _: None,
    host: Host = THIS_MACHINE,
) -> AsyncIterator[Cluster]:
    """Start a cluster, yield it when all nodes are ready, and stop it cleanly at exit.

    BadSettingsError for settings that a broker rejects, NodeFailedError for a node that does not start.
    The directory is `~/.rmqlab/<name>` unless given. `started` gets the cluster before its nodes start. `seed` fixes
    the random choices of the processes, not their timing. `host` is the machine on which it runs. RuntimeError outside
    of trio, such as in asyncio: `rmqlab.cluster.blocking` works there.
    """
    if not is_in_trio():
        raise RuntimeError("open_cluster needs trio, as `trio.run` starts it; other programs use BlockingCluster")
    place = ClusterDirectory.named(spec.name) if directory is None else ClusterDirectory.at(directory)
    place.create()
    allow_many_files()  # a control channel for each node
    with place.locked():
        # First: it imports the nodes' modules while addresses are chosen.
        forks = host.start_forks(import_steps(modules.values()), place.path / "forkserver.log", spawn_method)
        try:
            if modules[NodeKind.BROKER] == BROKER_MODULE:  # other modules have other settings
                await scaling.check_settings(spec, host.try_settings)
            record = place.read_record()
            with host.allocate_addresses(spec, place, record) as found:
                clock = host.clock(spec.rate, last_time(place, record))
                fresh = Record(
                    spec=spec, placement=found.placement, run=host.new_run(spec), roles=roles_kept(record, spec)
                )
                with beginning(place, record) as start:
                    supervisor = _prepared(place, fresh, clock, forks, modules, seed)
                    supervisor.try_settings = host.try_settings
                    try:
                        async with supervised(supervisor, host):
                            cluster = Cluster(supervisor)
                            started(cluster)
                            record_start(supervisor)
                            record_move(supervisor, found)
                            await start_in_phases(supervisor, list(supervisor.nodes.values()))
                            start.complete()
                            yield cluster
                    finally:
                        # Also after an exception of the body: nodes were added, time has passed.
                        if start.is_complete and not place.is_lost():
                            place.write_record(record_to_keep(fresh, supervisor))
        finally:
            forks.close()


async def status_when(cluster: Cluster, condition: Condition, seconds: float) -> Document:
    """Return the first status that fulfils a condition.

    Return the last one if none does within these real seconds.
    """
    deadline = trio.current_time() + real_seconds(seconds)
    while True:
        changed = cluster.events.changed
        document = await cluster.status()
        if condition.holds(document) or trio.current_time() >= deadline:
            return document
        with trio.move_on_at(deadline):
            await trio.sleep(real_seconds(_PAUSE_SECONDS))
            with trio.move_on_after(real_seconds(_PROBE_SECONDS)):
                await changed.wait()
