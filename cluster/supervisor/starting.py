"""Steps of a cluster's start and end: settings files, records, phases."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import attrs
import trio

import rmqlab
from rmqlab.cluster.supervisor.address_allocation import AddressAllocation, addresses_of
from rmqlab.cluster.supervisor.files.directory import LATEST_MILLIS, ClusterDirectory, Record
from rmqlab.cluster.supervisor.files.nodestore import OutsideError, write_settings
from rmqlab.cluster.supervisor.host import Host
from rmqlab.cluster.supervisor.plan.nodesettings import node_settings
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.roles import changes_of
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, node_names, start_phases
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.journals.journalentry import opened
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.runtime.journals.journalwriter import JournalWriter


@attrs.define(eq=False)
class Start:
    """A start that may succeed or fail."""

    place: ClusterDirectory
    is_complete: bool = attrs.field(default=False, init=False)

    def complete(self) -> None:
        """Note that all nodes are ready."""
        self.place.complete_journal()
        self.is_complete = True


@contextmanager
def beginning(place: ClusterDirectory, record: Record | None) -> Iterator[Start]:
    """Begin the journals of a start.

    If it fails, journals and record of the last run are put back: a failed start must not affect the next one, nor hide
    from the judges what happened before.
    """
    place.begin_journal()
    start = Start(place)
    try:
        yield start
    finally:
        if not start.is_complete and not place.is_lost():
            place.restore_journal()
            place.restore_record(record)


def write_all_settings(directory: ClusterDirectory, spec: ClusterSpec, nodes: Sequence[Node]) -> None:
    """Write the settings file of each node.

    NodeFailedError for paths outside of the node's directory.
    """
    for node in nodes:
        _write_settings(directory, node.name, node_settings(spec, node, nodes, directory.data_dir(node.name)))


async def start_in_phases(supervisor: Supervisor, nodes: Sequence[Node]) -> None:
    """Start all nodes, nameservers first.

    NodeFailedError for a node that does not start.
    """
    for phase in start_phases(nodes):
        await supervisor.start(*phase)
    supervisor.record("", "cluster_ready")


def record_to_keep(record: Record, supervisor: Supervisor) -> Record:
    """Return the record for the next start: nodes, roles and time as they are now."""
    return attrs.evolve(
        record,
        spec=supervisor.spec,
        placement=supervisor.placement,
        roles=changes_of(supervisor.nodes.values()),
        clock_millis=supervisor.clock.wall_millis(),
    )


@asynccontextmanager
async def supervised(supervisor: Supervisor, host: Host) -> AsyncIterator[None]:
    """Serve the processes until all have ended, even while the body is cancelled."""
    directory = supervisor.directory
    attending = trio.CancelScope(shield=True)

    async def attend(*, task_status: trio.TaskStatus[None]) -> None:
        with attending:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(supervisor.processes.attend_nodes, listener)
                task_status.started()
                await supervisor.processes.attend_forks(supervisor.forks)
                nursery.cancel_scope.cancel()
            raise NodeFailedError(f"the fork server ended, and all nodes with it; see {directory.path}/forkserver.log")

    async with host.control_listener(directory) as listener:
        supervisor.events.journal = JournalWriter(directory.journal_path(SUPERVISOR))
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


def record_start(supervisor: Supervisor) -> None:
    """Record what the judges and the report of this run need."""
    spec = supervisor.spec
    supervisor.record(
        "",
        "cluster_starting",
        rate=spec.rate,
        role=spec.role,
        profile=spec.common_profile,
        seed=supervisor.seed,
        version=rmqlab.__version__,
    )


def record_move(supervisor: Supervisor, found: AddressAllocation) -> None:
    """Record that the cluster is not at the addresses of its last start, if so."""
    if found.note:
        supervisor.moved = found.note
        now = addresses_of(found.placement)
        supervisor.record("", "cluster_moved", before=found.moved_from, now=now, reason=found.reason)


def _write_settings(directory: ClusterDirectory, name: str, settings: Mapping[str, Any]) -> None:
    try:
        write_settings(directory, name, settings)
    except OutsideError as exc:
        raise NodeFailedError(f"{name} is not started: {exc}") from None


def roles_kept(record: Record | None, spec: ClusterSpec) -> dict[str, int]:
    """Return the changed roles of the last start, of brokers that still exist."""
    brokers = node_names(spec)[1]
    return {name: broker_id for name, broker_id in record.roles.items() if name in brokers} if record else {}


def last_time(directory: ClusterDirectory, record: Record | None) -> float:
    """Return the latest second of the cluster's clock.

    After a run faster than real time, the clock must not go back.
    """
    if record is None or (record.clock_millis == 0 and record.spec.rate == 1):
        return 0
    millis = record.clock_millis
    if millis == 0:  # it was killed: its journals have the time
        times = (event.at_millis for event in read_journals(directory.journal_dir))
        millis = max((time for time in times if time <= LATEST_MILLIS), default=0)  # later ones are damaged
    return millis / 1000
