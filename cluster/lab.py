"""A cluster as an object: start it, act on it, watch it, wait for what becomes true.

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
from typing import Any

import attrs
import trio

import rmqlab
from rmqlab.cluster.conditions import Condition, parse_condition
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.faults.rules import Fault, Isolation
from rmqlab.cluster.supervisor.check_settings import BadSettingsError, try_settings
from rmqlab.cluster.supervisor.children import ForkServer
from rmqlab.cluster.supervisor.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.forklaunch import BROKER_MODULE, WORKLOAD_MODULES
from rmqlab.cluster.supervisor.nodestore import OutsideError, write_settings
from rmqlab.cluster.supervisor.placing import addresses_of, placed
from rmqlab.cluster.supervisor.process_state import NodeFailedError, ProcessState
from rmqlab.cluster.supervisor.processes import SNAPSHOT_SECONDS
from rmqlab.cluster.supervisor.status import Document, masters_behind, status_document
from rmqlab.cluster.supervisor.supervisor import MODULES, Supervisor, start_phases
from rmqlab.cluster.supervisor.topology import ClusterSpec, NodeKind, check_spec, node_settings, nodes_of
from rmqlab.runtime.clock import ClockSettings, RatedClock, real_seconds
from rmqlab.runtime.journal import (
    SUPERVISOR,
    JournalEntry,
    JournalTail,
    JournalWriter,
    merge_entries,
    read_journal,
    read_journals,
)
from rmqlab.store.powerloss import Lost

log = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.01  # events of a busy workload must not make us ask all nodes each time
_PROBE_SECONDS = 0.05  # how often a condition on live facts is looked at, when nothing happens before
_TAIL_SECONDS = 0.1  # how often journals are looked at


class WaitTimeoutError(Exception):
    """What was waited for did not become true in time."""


@attrs.define(eq=False)
class Workload:
    """A workload process of a cluster."""

    name: str
    _supervisor: Supervisor

    @property
    def life(self) -> ProcessState:
        return self._supervisor.life(self.name)

    def events(self) -> list[JournalEntry]:
        """What it has told so far, each message included, and what the supervisor knows of it."""
        place = self._supervisor.directory
        own = place.journal_path(self.name)
        known = [event for event in read_journal(place.journal_path(SUPERVISOR)) if event.node == self.name]
        return merge_entries(read_journal(own) if own.exists() else (), known)

    async def wait_ended(self, seconds: float = WAIT_SECONDS) -> int:
        """Wait until it ends by itself; its exit status."""
        if not await self._supervisor.processes.wait_life(self.name, lambda life: not life.is_alive, seconds):
            raise WaitTimeoutError(f"{self.name} still runs after {seconds:g} s")
        await self._supervisor.processes.wait_told(self.name)
        return self.life.exit_status or 0

    async def stop(self) -> None:
        """Ask it to end, if it has not."""
        if self.life.is_alive:
            await self._supervisor.stop(self.name)


@attrs.define(eq=False)
class Cluster:
    """A running cluster. Targets are `broker-a`, `broker-a:master`, `broker-a:slave`, `broker-a-s`, `namesrv-1`."""

    supervisor: Supervisor

    @property
    def namesrv_addr(self) -> str:
        return self.supervisor.namesrv_addr

    @property
    def events(self) -> EventLog:
        """Iterate over what happened, single messages left out; `follow()` gives what happens."""
        return self.supervisor.events

    def journal(self) -> list[JournalEntry]:
        """All that was written down so far by all processes, each message included, by time."""
        return read_journals(self.supervisor.directory.journal_dir)

    @asynccontextmanager
    async def follow_journal(self) -> AsyncIterator[AsyncIterator[list[JournalEntry]]]:
        """All that is written down, each message included, from the beginning on: batches, each sorted by time."""
        tail = JournalTail(self.supervisor.directory.journal_dir)

        async def batches() -> AsyncGenerator[list[JournalEntry], None]:
            while True:
                if new := tail.read_new():
                    yield new
                with trio.move_on_after(real_seconds(_TAIL_SECONDS)):
                    await self.events.wait_changed()

        with contextlib.closing(tail):
            async with aclosing(batches()) as generator:
                yield generator

    async def start(self, target: str) -> None:
        """Start what does not run, and wait until it is ready."""
        await self.supervisor.start(*self._names(target))

    async def kill(self, target: str) -> None:
        """kill -9, and wait for the end."""
        await self.supervisor.kill(*self._names(target))

    async def stop(self, target: str) -> None:
        """Stop in order, and wait for the end."""
        await self.supervisor.stop(*self._names(target))

    async def pause(self, target: str) -> None:
        """Freeze (SIGSTOP): sockets stay open, nothing answers."""
        await self.supervisor.pause(*self._names(target))

    async def resume(self, target: str) -> None:
        """Let a frozen node go on (SIGCONT)."""
        await self.supervisor.resume(*self._names(target))

    async def restart(self, target: str) -> None:
        """Stop what runs, start, and wait until it is ready."""
        await self.supervisor.restart(*self._names(target))

    async def power_loss(self, target: str) -> dict[str, Lost]:
        """kill -9, then erase what was not synced to disk; what each node lost. `start` recovers what is left.

        Sockets close as at a kill: isolate the node before, if its peers shall not notice.
        """
        return await self.supervisor.power_loss(*self._names(target))

    async def wipe(self, target: str) -> dict[str, int]:
        """kill -9, then delete the node's store; how many files that were. The next `start` finds an empty disk."""
        return await self.supervisor.wipe(*self._names(target))

    @property
    def faults(self) -> list[ActiveFault]:
        """The faults in force, oldest first."""
        return [*self.supervisor.faults.board.active.values()]

    async def fault(self, fault: Fault) -> ActiveFault:
        """Put a fault in force (see `rmqlab.cluster.faults.rules`); in force at all running nodes on return.

        FaultError where this cluster cannot play it. A node that is paused plays it when it goes on, one that is
        started again plays it from its first moment on.
        """
        return await self.supervisor.faults.apply(fault)

    async def isolate(self, target: str) -> ActiveFault:
        """Cut a node off from all others: packets vanish both ways, nobody sees a close."""
        return await self.fault(Isolation(target=target))

    async def heal(self, fault: ActiveFault | str) -> None:
        """End a fault, by itself or by its id."""
        await self.supervisor.faults.heal(fault if isinstance(fault, str) else fault.id)

    async def heal_all(self) -> list[ActiveFault]:
        """End all faults; those that were in force."""
        return await self.supervisor.faults.heal(*self.supervisor.faults.board.active)

    async def snapshot(self, target: str, seconds: float = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """The live facts of one node; None when it does not run, is paused, or does not answer in time."""
        (name,) = self._names(target)
        return await self.supervisor.processes.snapshot(name, seconds)

    async def status(self) -> Document:
        """What `rmqlab status --json` prints."""
        supervisor = self.supervisor
        head = {
            "name": supervisor.spec.name,
            "namesrv_addr": supervisor.namesrv_addr,
            "profile": supervisor.spec.broker_settings.get("profile", supervisor.spec.profile),
            "broker_settings": dict(supervisor.spec.broker_settings),
            "rate": supervisor.spec.rate,
            "moved": supervisor.moved,
            "clock_millis": supervisor.clock.wall_millis(),
            "supervisor_pid": os.getpid(),
            "directory": str(supervisor.directory.path),
            "faults": [active.as_json() for active in self.faults],
            "internal_errors": dict(supervisor.processes.errors.counts),
        }
        facts = await supervisor.processes.snapshots()
        for master in masters_behind(supervisor.nodes.values(), facts):  # or it was only asked before its slave
            facts[master] = await supervisor.processes.snapshot(master)
        shown = [
            node
            for node in supervisor.nodes.values()
            if node.kind is not NodeKind.WORKLOAD or supervisor.life(node.name).is_alive
        ]
        return status_document(head, shown, supervisor.processes.lives, facts, str(supervisor.directory.path))

    async def wait_until(self, condition: str | Callable[[Document], bool], seconds: float = WAIT_SECONDS) -> Document:
        """Wait until a condition (see `rmqlab.cluster.conditions`), or a function of the status, holds; the status then."""
        if callable(condition):
            judged = Condition(getattr(condition, "__name__", "condition"), condition)
        else:
            judged = parse_condition(condition.split(), self.supervisor.nodes.values())
        with trio.move_on_after(real_seconds(seconds)):
            while True:
                changed = self.events.changed
                document = await self.status()
                if judged.holds(document):
                    return document
                await trio.sleep(real_seconds(_PAUSE_SECONDS))
                with trio.move_on_after(real_seconds(_PROBE_SECONDS)):
                    await changed.wait()
        raise WaitTimeoutError(f"{judged.text!r} is not so after {seconds:g} s")

    async def run_workload(self, module: str, config: Mapping[str, Any], *, name: str | None = None) -> Workload:
        """Start a process that works against the cluster. It is told the nameservers and an address to speak from.

        The module has `load_config(path)` and `async main(config, link)`; its config file gets `namesrv_addr` and
        `source_ip` besides what is given here. ValueError for a name that is taken, or no file name.
        """
        number = 1 + sum(node.kind is NodeKind.WORKLOAD for node in self.supervisor.nodes.values())
        name = name or f"{module.rpartition('.')[2]}-{number}"
        node = self.supervisor.add_workload(name, module)
        self.supervisor.workload_settings[name] = {"namesrv_addr": self.namesrv_addr, "source_ip": node.host, **config}
        await self.supervisor.start(name)
        return Workload(name, self.supervisor)

    def _names(self, target: str) -> list[str]:
        return [node.name for node in self.supervisor.find(target)]


@asynccontextmanager
async def open_cluster(
    spec: ClusterSpec,
    *,
    directory: ClusterDirectory | str | os.PathLike[str] | None = None,
    modules: Mapping[NodeKind, str] = MODULES,
    way: str | None = None,
    seed: str = "",
    started: Callable[[Cluster], object] = lambda _: None,
    forks: ForkServer | None = None,
) -> AsyncIterator[Cluster]:
    """Start a cluster, give it once every node is ready, and stop it in order in the end.

    BadSettingsError for broker settings that no broker takes, NodeFailedError for a node that does not start.
    The directory is `~/.rmqlab/<name>` unless given. `started` gets the cluster before its nodes start. With a
    `seed`, random choices of its processes are the same each time, though not what time makes of them. `forks` is a fork
    server that runs already; it is closed in the end.
    """
    place = ClusterDirectory.named(spec.name) if directory is None else ClusterDirectory.at(directory)
    place.create()
    with place.locked():
        # First of all: it imports while we look for a place.
        forks = forks or ForkServer.start([*modules.values(), *WORKLOAD_MODULES], place.path / "forkserver.log", way)
        try:
            if modules[NodeKind.BROKER] == BROKER_MODULE:  # others have their own settings
                await _check_settings(spec)
            record = place.read_record()
            with placed(spec, place, record) as found:
                placement = found.placement
                clock = RatedClock(ClockSettings.starting_now(spec.rate, not_before=_last_time(place, record)))
                place.begin_journal()
                place.write_record(Record(spec=spec, placement=placement))
                nodes = nodes_of(spec, placement)
                for node in nodes:
                    settings = node_settings(spec, node, nodes, place.data_dir(node.name))
                    _write_settings(place, node.name, settings)
                supervisor = Supervisor(
                    spec, placement, place, clock, forks, {node.name: node for node in nodes}, EventLog(), modules, seed
                )
                async with _supervised(supervisor):
                    cluster = Cluster(supervisor)
                    started(cluster)
                    supervisor.record(
                        "",
                        "cluster_starting",
                        rate=spec.rate,
                        role=spec.role,
                        profile=spec.profile,
                        seed=seed,
                        version=rmqlab.__version__,
                    )
                    if found.note:
                        supervisor.moved = found.note
                        supervisor.record(
                            "",
                            "cluster_moved",
                            before=found.moved_from,
                            now=addresses_of(placement),
                            reason=found.reason,
                        )
                    try:
                        for phase in start_phases(nodes):
                            await supervisor.start(*phase)
                    except NodeFailedError:
                        place.restore_record(record)
                        raise
                    supervisor.record("", "cluster_ready")
                    yield cluster
                place.write_record(Record(spec=spec, placement=placement, clock_millis=clock.wall_millis()))
        finally:
            forks.close()


@asynccontextmanager
async def _supervised(supervisor: Supervisor) -> AsyncIterator[None]:
    """Attend to the processes until all have ended, even while what is inside is being cancelled."""
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

    with trio.socket.socket(trio.socket.AF_UNIX) as listening:
        place.control_socket.unlink(missing_ok=True)
        await listening.bind(os.fspath(place.control_socket))
        place.control_socket.chmod(0o600)
        listening.listen(1024)
        listener = trio.SocketListener(listening)
        supervisor.events.journal = JournalWriter(place.journal_path(SUPERVISOR))
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
            if len(group.exceptions) == 1:  # the nursery is ours: its wrapping is none of the caller's business
                raise group.exceptions[0] from None
            raise
        finally:
            supervisor.events.journal.close()
            supervisor.events.journal = None
            place.control_socket.unlink(missing_ok=True)


def _write_settings(place: ClusterDirectory, name: str, settings: Mapping[str, Any]) -> None:
    try:
        write_settings(place, name, settings)
    except OutsideError as exc:
        raise NodeFailedError(f"{name} is not started: {exc}") from None


async def _check_settings(spec: ClusterSpec) -> None:
    """Let a broker read the settings for all of them. BadSettingsError names key, near miss and what was expected."""
    try:
        check_spec(spec)
        remarks = await trio.to_thread.run_sync(try_settings, spec.broker_settings)
    except ValueError as exc:
        raise BadSettingsError(f"broker_settings: {exc}") from None
    for remark in remarks:
        log.warning("broker_settings: %s", remark)


def _last_time(place: ClusterDirectory, record: Record | None) -> float:
    """The latest second that this cluster has lived: it must not live it again after having run fast."""
    if record is None or (record.clock_millis == 0 and record.spec.rate == 1):
        return 0
    millis = record.clock_millis
    if millis == 0:  # it was killed: its journals know
        millis = max((event.at_millis for event in read_journals(place.journal_dir)), default=0)
    return millis / 1000
