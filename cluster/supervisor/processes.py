"""The state of all processes, by reports of the fork server and the processes.

The fork server reports starts, pauses and ends; each process reports over its control channel its name, that it is
ready, and its events. All waits are for such facts, with timeouts in real seconds at any rate of the cluster's clock.
"""

import functools
import signal
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.cluster.faults.controller import FaultController
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.fork.forkserver import Continued, Exited, NotSpawned, Report, Spawned, Stopped
from rmqlab.cluster.supervisor.host import Forks
from rmqlab.cluster.supervisor.nodelink import NodeLink, serve_node_connection
from rmqlab.cluster.supervisor.plan.process_state import NodeState, ProcessState, describe_end
from rmqlab.cluster.supervisor.plan.roles import as_follower, elected
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.faults.rules import NodeRules
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.bounds import EVENT, bounded_fields, cut_text
from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.exceptiongroups import leaves
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.node.controlmessages import Event, Ready, Stopping
from rmqlab.runtime.node.mapcodec import ControlError
from rmqlab.store.offline.powerloss import Lost

FINAL_MESSAGES_SECONDS = 5.0
SNAPSHOT_SECONDS = 1.0
ASKED_AT_ONCE = 100
"""A limit, because the last of a thousand nodes that wake at once could miss the timeout."""


@attrs.define(eq=False)
class Processes:
    """The states of all processes, and their open control channels."""

    nodes: dict[str, Node]
    clock: RatedClock
    events: EventLog
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """The internal errors of the supervisor."""
    states: dict[str, ProcessState] = attrs.field(factory=dict, init=False)
    faults: FaultController = attrs.field(init=False)
    links: dict[str, NodeLink] = attrs.field(factory=dict, init=False)
    _initial_rules: dict[str, NodeRules] = attrs.field(factory=dict, init=False)
    _progress: dict[str, object] = attrs.field(factory=dict, init=False)
    """The last reported progress of nodes that start or stop."""
    _ends: dict[NodeLink, JournalEntry] = attrs.field(factory=dict, init=False)
    _requests: dict[int, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.faults = FaultController(self.nodes, self.links, self.clock, self.events, self._is_attentive, self.errors)

    def state_of(self, name: str) -> ProcessState:
        """Return the state of a node's process."""
        return self.states.get(name, ProcessState())

    def record(self, node: str, kind: str, **fields: object) -> None:
        """Add an event about a node, observed by the supervisor, at the cluster's time."""
        self.events.record(JournalEntry(self.clock.wall_millis(), node, kind, fields))

    def expect(self, name: str, request_id: int) -> NodeRules:
        """Register a process before its start is ordered. Return its initial fault rules."""
        self._requests[request_id] = name
        self.states[name] = ProcessState(is_alive=True)
        self._progress.pop(name, None)
        self._initial_rules[name] = rules = self.faults.rules_for(name)
        return rules

    def expect_no_more(self, name: str, request_id: int, before: ProcessState) -> None:
        """Undo `expect` for a start that could not be ordered."""
        del self._requests[request_id]
        self.states[name] = before
        self.events.pulse()

    def expect_end(self, name: str) -> bool:
        """Record that a node is asked to stop. Return False if it stops already."""
        before = self.states[name]
        self.states[name] = attrs.evolve(before, is_asked_to_stop=True)
        self._progress.pop(name, None)
        return before.state is not NodeState.STOPPING

    def lost_power(self, name: str, lost: Lost) -> None:
        """Record that the unsynced data of a node were erased."""
        self.states[name] = attrs.evolve(self.state_of(name), has_lost_power=True)
        self.record(name, "power_lost", **attrs.asdict(lost))

    # Reports

    async def attend_forks(self, forks: Forks) -> None:
        """Handle the fork server's reports.

        Returns only when it has ended, and all processes with it. A report that fails does not affect later ones.
        """
        await forks.attend(functools.partial(self.errors.call, "report of the fork server", self._changed))
        for name, process in self.states.items():
            if process.is_alive:
                self.states[name] = process.ended(-signal.SIGKILL)
        self.record("", "fork_server_lost")

    async def attend_nodes(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        """Serve the control channels of all processes."""
        async with trio.open_nursery() as nursery:
            self.faults.services = nursery
            await trio.serve_listeners(self._attend_node, [listener], handler_nursery=nursery)

    async def _attend_node(self, stream: trio.abc.Stream) -> None:
        admitted: list[NodeLink] = []

        def admit(link: NodeLink) -> bool:
            process = self.state_of(link.hello.name)
            is_unreported = process.is_alive and process.pid is None  # the fork server's report has not arrived yet
            if not is_unreported and process.pid != link.hello.pid:
                return False  # a process that connected and then ended is admitted: its events still count
            link.rules = self._initial_rules[link.hello.name]
            self.links[link.hello.name] = link
            admitted.append(link)
            nursery.start_soon(self.faults.keep_rules, link)
            return True

        try:
            async with stream, trio.open_nursery() as nursery:
                await serve_node_connection(stream, admit, self._on_message)
                nursery.cancel_scope.cancel()
        except* Exception as group:  # noqa: BLE001 - a boundary: it ends only this connection
            for exc in leaves(group):
                self._record_error(admitted[0].hello.name if admitted else "", exc)
        finally:
            for link in admitted:
                if self.links.get(link.hello.name) is link:
                    del self.links[link.hello.name]
                if end := self._ends.pop(link, None):
                    self.events.record(end)
            self.events.pulse()

    def _record_error(self, name: str, exc: Exception) -> None:
        """Record that a control message was invalid, or that handling it failed."""
        is_ours = not isinstance(exc, ControlError)
        if is_ours:
            self.errors.caught("control message", exc, f"of {name or 'an unknown process'}")
        self.record(name, "control_error", reason=repr(exc) if is_ours else str(exc))

    def _on_message(self, link: NodeLink, message: Ready | Event | Stopping) -> None:
        """Handle a report of a process.

        A failure is recorded, and does not affect later messages.
        """
        name = link.hello.name
        try:
            match message:
                case Ready():
                    self._ready(name, message)
                case Event():
                    self._event(name, message)
                case Stopping():
                    self.states[name] = attrs.evolve(self.state_of(name), is_ending=True)
                    self.events.pulse()
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._record_error(name, exc)

    def _ready(self, name: str, ready: Ready) -> None:
        facts = bounded_fields(ready.facts)
        self.states[name] = attrs.evolve(self.states[name], ready=facts)
        self.events.record(JournalEntry(self.clock.wall_millis(), name, "node_ready", facts))

    def _event(self, name: str, event: Event) -> None:
        kind, fields = cut_text(event.kind, EVENT.text), bounded_fields(event.fields)
        self.events.append(JournalEntry(event.at_millis, name, kind, fields))
        if kind in {"recovering", "indexing"}:
            self._progress[name] = (fields["offset"], fields.get("queues"))
        if kind == "member_role_changed":
            self._member_role_changed(name, str(fields["role"]), int(fields["broker_id"]))
        if kind == "fault_spent":
            self.faults.mark_spent(str(fields["id"]), name)

    def _member_role_changed(self, name: str, role: str, broker_id: int) -> None:
        """Note the role that a DLedger group gave a member.

        A leader that has ended keeps its role until another one is elected.
        """
        node = self.nodes[name] = elected(self.nodes[name], [*self.nodes.values()], role, broker_id)
        if node.is_master:
            for other in [*self.nodes.values()]:
                was_leader = other.group == node.group and other.name != name and other.is_master
                if was_leader and not self.state_of(other.name).is_alive:
                    self.nodes[other.name] = as_follower(other)

    def _changed(self, request_id: int, report: Report) -> None:
        if (name := self._requests.get(request_id)) is None:
            return
        process = self.states[name]
        match report:
            case Spawned(pid=pid):
                self.states[name] = attrs.evolve(process, pid=pid)
                self.record(name, "node_spawned", pid=pid)
            case NotSpawned(reason=reason):
                del self._requests[request_id]
                self.states[name] = process.ended(1)
                self.record(name, "node_not_spawned", reason=reason)
            case Stopped():
                self.states[name] = attrs.evolve(process, is_paused=True)
                self.record(name, "node_paused")
            case Continued():
                self.states[name] = attrs.evolve(process, is_paused=False)
                self.record(name, "node_resumed")
            case Exited(status=status):
                del self._requests[request_id]
                self.states[name] = process = process.ended(status)
                fields = {"pid": process.pid, "end": describe_end(status)}
                end = JournalEntry(self.clock.wall_millis(), name, f"node_{process.state}", fields)
                if link := self.links.get(name):
                    self._ends[link] = end  # recorded after the last message of its channel
                    self.events.pulse()
                else:
                    self.events.record(end)

    # Waits and requests

    async def wait_state(self, name: str, holds: Callable[[ProcessState], bool], seconds: float) -> bool:
        """Wait until a node's process fulfils a condition.

        Return False after a timeout in real seconds.
        """
        with trio.move_on_after(real_seconds(seconds)):
            while not holds(self.state_of(name)):
                await self.events.wait_changed()
        return holds(self.state_of(name))

    async def wait_spawned(self, name: str, seconds: float) -> None:
        """Wait until a process that was ordered has a process id, or has failed to start."""
        await self.wait_state(name, lambda process: process.pid is not None or not process.is_alive, seconds)

    async def wait_ends_recorded(self, *names: str) -> None:
        """Wait until the ends of processes are recorded and their last messages handled.

        The fork server's report of an end can arrive before the last messages on the control channel.
        """
        with trio.move_on_after(real_seconds(FINAL_MESSAGES_SECONDS)):
            while any(self.links.get(name) for name in names if not self.state_of(name).is_alive):
                await self.events.wait_changed()

    async def snapshot(self, name: str, seconds: float = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """Return the live facts of a node.

        None if it is not running, paused, or does not respond.
        """
        link = self.links.get(name)
        if link is None or self.state_of(name).is_paused:
            return None
        facts = None
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await self.wait_state(name, lambda process: process.is_paused or not process.is_alive, seconds)
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            facts = await link.snapshot(seconds)
            nursery.cancel_scope.cancel()
        return facts

    async def snapshots(self) -> dict[str, Mapping[str, Any] | None]:
        """Return the live facts of all nodes, requested ASKED_AT_ONCE at a time."""
        facts: dict[str, Mapping[str, Any] | None] = dict.fromkeys(self.nodes)
        limit = trio.CapacityLimiter(ASKED_AT_ONCE)

        async def ask(name: str) -> None:
            async with limit:
                facts[name] = await self.snapshot(name)

        async with trio.open_nursery() as nursery:
            for name in self.nodes:
                nursery.start_soon(ask, name)
        return facts

    async def wait_progress(self, name: str, holds: Callable[[ProcessState], bool], seconds: float) -> bool:
        """Wait as `wait_state`, but restart the timeout at each progress report."""
        reported = None
        while not await self.wait_state(name, holds, seconds):
            if self._progress.get(name) == reported:
                return False
            reported = self._progress.get(name)  # none, if another command has started or stopped it meanwhile
        return True

    def _is_attentive(self, name: str) -> bool:
        process = self.state_of(name)
        return process.is_alive and not process.is_paused
