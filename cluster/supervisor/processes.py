"""What is known about the processes of a cluster, from the two who tell of them.

The fork server reports births, pauses and ends; each process says over its control channel what it is, that it is
ready, and what happens in it. Waiting is always for such a fact, and bounded in real seconds whatever the cluster's
rate.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import trio

from rmqlab.cluster.faults.controller import FaultController
from rmqlab.cluster.supervisor.children import ForkServer
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.forkserver import Continued, Exited, NotSpawned, Report, Spawned, Stopped
from rmqlab.cluster.supervisor.nodelink import NodeLink, attend_connection
from rmqlab.cluster.supervisor.process_state import ProcessState, describe_end
from rmqlab.cluster.supervisor.topology import Node
from rmqlab.faults.rules import NodeRules
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.bounds import EVENT, bounded_fields, cut_text
from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.control import Event, Ready, Stopping
from rmqlab.runtime.journal import JournalEntry
from rmqlab.runtime.mapcodec import ControlError
from rmqlab.store.powerloss import Lost

LAST_WORDS_SECONDS = 5.0
SNAPSHOT_SECONDS = 1.0


@attrs.define(eq=False)
class Processes:
    """The lives of all processes, and the control channels of those that have one."""

    nodes: Mapping[str, Node]
    clock: RatedClock
    events: EventLog
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """The supervisor's own internal errors."""
    lives: dict[str, ProcessState] = attrs.field(factory=dict, init=False)
    faults: FaultController = attrs.field(init=False)
    links: dict[str, NodeLink] = attrs.field(factory=dict, init=False)
    _born_with: dict[str, NodeRules] = attrs.field(factory=dict, init=False)
    _progress: dict[str, object] = attrs.field(factory=dict, init=False)
    """How far the nodes have come that start or stop, as they told last."""
    _ends: dict[NodeLink, JournalEntry] = attrs.field(factory=dict, init=False)
    _births: dict[int, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.faults = FaultController(self.nodes, self.links, self.clock, self.events, self._is_attentive)

    def life(self, name: str) -> ProcessState:
        """What is known about a node's process."""
        return self.lives.get(name, ProcessState())

    def record(self, node: str, kind: str, **fields: object) -> None:
        """Add an event to the log that no process tells of itself, at the cluster's time."""
        self.events.record(JournalEntry(self.clock.wall_millis(), node, kind, fields))

    def expect(self, name: str, birth: int) -> NodeRules:
        """The birth of a node's process is about to be ordered; answer the fault rules it is to be born with."""
        self._births[birth] = name
        self.lives[name] = ProcessState(is_alive=True)
        self._progress.pop(name, None)
        self._born_with[name] = rules = self.faults.rules_for(name)
        return rules

    def expect_end(self, name: str) -> None:
        """A node is about to be asked to stop."""
        self.lives[name] = attrs.evolve(self.lives[name], is_asked_to_stop=True)
        self._progress.pop(name, None)

    def lost_power(self, name: str, lost: Lost) -> None:
        """What a node had not synced to disk was erased."""
        self.lives[name] = attrs.evolve(self.life(name), is_powerless=True)
        self.record(name, "power_lost", **attrs.asdict(lost))

    # What is reported

    async def attend_forks(self, forks: ForkServer) -> None:
        """Follow what becomes of the processes. Ends only with the fork server, and then the cluster is no more."""
        await forks.attend(self._changed)
        for name, life in self.lives.items():
            if life.is_alive:
                self.lives[name] = life.ended(-signal.SIGKILL)
        self.record("", "fork_server_lost")

    async def attend_nodes(self, listener: trio.SocketListener) -> None:
        """Serve the control channel of every process."""
        async with trio.open_nursery() as nursery:
            self.faults.services = nursery
            await trio.serve_listeners(self._attend_node, [listener], handler_nursery=nursery)

    async def _attend_node(self, stream: trio.abc.Stream) -> None:
        admitted: list[NodeLink] = []

        def admit(link: NodeLink) -> bool:
            life = self.life(link.hello.name)
            is_unborn = life.is_alive and life.pid is None  # the fork server's report is still on its way
            if not is_unborn and life.pid != link.hello.pid:
                return False  # a process that connected and then ended is admitted: its events still count
            link.rules = self._born_with[link.hello.name]
            self.links[link.hello.name] = link
            admitted.append(link)
            nursery.start_soon(self.faults.keep_rules, link)
            return True

        try:
            async with stream, trio.open_nursery() as nursery:
                await attend_connection(stream, admit, self._heard)
                nursery.cancel_scope.cancel()
        except* Exception as group:  # noqa: BLE001 - a boundary: it ends this connection, and nothing else
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
        """Record that a control message was not understood, or could not be handled."""
        is_ours = not isinstance(exc, ControlError)
        if is_ours:
            self.errors.caught("control message", exc, f"of {name or 'a stranger'}")
        self.record(name, "control_error", reason=repr(exc) if is_ours else str(exc))

    def _heard(self, link: NodeLink, message: Ready | Event | Stopping) -> None:
        """Handle what a process reports of itself. What cannot be handled is recorded, and the next message is."""
        name = link.hello.name
        try:
            match message:
                case Ready():
                    self._ready(name, message)
                case Event():
                    self._event(name, message)
                case Stopping():
                    self.lives[name] = attrs.evolve(self.life(name), is_ending=True)
                    self.events.pulse()
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._record_error(name, exc)

    def _ready(self, name: str, ready: Ready) -> None:
        facts = bounded_fields(ready.facts)
        self.lives[name] = attrs.evolve(self.lives[name], ready=facts)
        self.events.record(JournalEntry(self.clock.wall_millis(), name, "node_ready", facts))

    def _event(self, name: str, event: Event) -> None:
        kind, fields = cut_text(event.kind, EVENT.text), bounded_fields(event.fields)
        self.events.heard(JournalEntry(event.at_millis, name, kind, fields))
        if kind in {"recovering", "indexing"}:
            self._progress[name] = (fields["offset"], fields.get("queues"))
        if kind == "fault_spent":
            self.faults.mark_spent(str(fields["id"]), name)

    def _changed(self, birth: int, report: Report) -> None:
        if (name := self._births.get(birth)) is None:
            return
        life = self.lives[name]
        match report:
            case Spawned(pid=pid):
                self.lives[name] = attrs.evolve(life, pid=pid)
                self.record(name, "node_spawned", pid=pid)
            case NotSpawned(reason=reason):
                del self._births[birth]
                self.lives[name] = life.ended(1)
                self.record(name, "node_not_spawned", reason=reason)
            case Stopped():
                self.lives[name] = attrs.evolve(life, is_paused=True)
                self.record(name, "node_paused")
            case Continued():
                self.lives[name] = attrs.evolve(life, is_paused=False)
                self.record(name, "node_resumed")
            case Exited(status=status):
                del self._births[birth]
                self.lives[name] = life = life.ended(status)
                fields = {"pid": life.pid, "end": describe_end(status)}
                end = JournalEntry(self.clock.wall_millis(), name, f"node_{life.state}", fields)
                if link := self.links.get(name):
                    self._ends[link] = end  # recorded once all that it said before has been heard
                    self.events.pulse()
                else:
                    self.events.record(end)

    # What is waited and asked for

    async def wait_life(self, name: str, holds: Callable[[ProcessState], bool], seconds: float) -> bool:
        """Wait for something to become true of a node's process. False when it takes longer than that."""
        with trio.move_on_after(real_seconds(seconds)):
            while not holds(self.life(name)):
                await self.events.wait_changed()
        return holds(self.life(name))

    async def wait_told(self, *names: str) -> None:
        """Wait until all that ended processes said has been heard, and their ends are recorded after it.

        Reports of a process come two ways: that it has ended may be known before its last words.
        """
        with trio.move_on_after(real_seconds(LAST_WORDS_SECONDS)):
            while any(self.links.get(name) for name in names if not self.life(name).is_alive):
                await self.events.wait_changed()

    async def snapshot(self, name: str, seconds: float = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """The live facts of a node. None when it does not run, stands still, or does not answer."""
        link = self.links.get(name)
        if link is None or self.life(name).is_paused:
            return None
        facts = None
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await self.wait_life(name, lambda life: life.is_paused or not life.is_alive, seconds)
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            facts = await link.snapshot(seconds)
            nursery.cancel_scope.cancel()
        return facts

    async def snapshots(self) -> dict[str, Mapping[str, Any] | None]:
        """The live facts of all nodes, asked for at the same time."""
        facts: dict[str, Mapping[str, Any] | None] = dict.fromkeys(self.nodes)

        async def ask(name: str) -> None:
            facts[name] = await self.snapshot(name)

        async with trio.open_nursery() as nursery:
            for name in self.nodes:
                nursery.start_soon(ask, name)
        return facts

    async def wait_progress(self, name: str, holds: Callable[[ProcessState], bool], seconds: float) -> bool:
        """As `wait_life`. A node that starts or stops has as much time again after each report of how far it has come."""
        told = None
        while not await self.wait_life(name, holds, seconds):
            if self._progress.get(name) == told:
                return False
            told = self._progress[name]
        return True

    def _is_attentive(self, name: str) -> bool:
        life = self.life(name)
        return life.is_alive and not life.is_paused


def leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """The exceptions of a group and of the groups inside it."""
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from leaves(exc)
        else:
            yield exc
