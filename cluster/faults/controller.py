"""Sends fault rules to the nodes of a running cluster, and waits until they apply."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from rmqlab.cluster.faults.active_faults import ActiveFault, ActiveFaults
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.nodelink import NodeLink
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.faults import Fault, describe_fault, fault_values
from rmqlab.faults.rules import NodeRules
from rmqlab.faults.specification import CannotPlayError, SupervisorFault
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.journals.journalentry import JournalEntry

RULES_SECONDS = 20.0


@attrs.define(eq=False)
class FaultController:
    """Applies and heals the faults of a cluster."""

    nodes: Mapping[str, Node]
    links: Mapping[str, NodeLink]
    """The control channels of the running processes, by node."""
    clock: RatedClock
    events: EventLog
    is_attentive: Callable[[str], bool]
    """Whether a node runs and is not paused: then it replies."""
    errors: InternalErrors
    """The internal errors of the supervisor."""
    active: ActiveFaults = attrs.field(factory=ActiveFaults, init=False)
    services: trio.Nursery | None = attrs.field(default=None, init=False)
    """Runs the faults that the supervisor plays; set while the cluster runs."""
    _rules: dict[str, NodeRules] = attrs.field(factory=dict, init=False)  # by node, until something changes
    _rules_changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _playing: dict[str, trio.CancelScope] = attrs.field(factory=dict, init=False)

    async def apply(self, fault: Fault) -> ActiveFault:
        """Put a fault in force, and wait until all running nodes play it.

        FaultError, UnknownTargetError.

        NodeFailedError if a node does not reply, or the supervisor cannot play the fault at it. After an error, or if
        it is cancelled, the fault is not in force.
        """
        active = self.active.add(fault, [*self.nodes.values()], self.clock.wall_millis())
        self._record("fault_applied", id=active.id, **_event_fields(fault))
        try:
            if isinstance(fault, SupervisorFault):
                await self._start(active.id, fault)
            await self._send_rules()
        except BaseException as exc:  # also trio.Cancelled: the caller gets no id to heal it by
            if active.id in self.active.by_id:
                self._heal(active.id, reason="cancelled" if isinstance(exc, trio.Cancelled) else str(exc))
            raise
        return active

    async def heal(self, *fault_ids: str) -> list[ActiveFault]:
        """End faults, and wait until no running node plays them.

        FaultError for an unknown id.
        """
        for fault_id in fault_ids:
            self.active.find(fault_id)  # all or none
        healed = [self._heal(fault_id) for fault_id in fault_ids]
        await self._send_rules()
        return healed

    def end_all(self, reason: str) -> None:
        """End every fault without waiting for the nodes."""
        for fault_id in [*self.active.by_id]:
            self._heal(fault_id, reason=reason)

    def mark_spent(self, fault_id: str, name: str) -> None:
        """Note that a node has played a fault as often as it should.

        Heal it after the last of its nodes.
        """
        if self.active.mark_spent(fault_id, name):
            self._heal(fault_id, reason="spent")
        self.change_rules()

    def rules_for(self, name: str) -> NodeRules:
        """The fault rules of a node."""
        if name not in self._rules:
            self._rules[name] = self.active.rules_for(self.nodes[name], [*self.nodes.values()])
        return self._rules[name]

    def change_rules(self) -> None:
        """Compute the rules of all nodes again: a fault or a node was added or removed."""
        self._rules.clear()
        self._rules_changed.set()
        self._rules_changed = trio.Event()

    def suffix_for(self, name: str) -> str:
        """Name the faults in force at a node, as the end of an error message.

        Empty if there are none.
        """
        ids = self.rules_for(name).ids
        shown = (f"{fault_id} ({describe_fault(fault_values(self.active.find(fault_id).fault))})" for fault_id in ids)
        return f", with {', '.join(shown)} in force" if ids else ""

    async def keep_rules(self, link: NodeLink) -> None:
        """Send a process its rules whenever they change, as long as its channel is open."""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                rules = self.rules_for(link.hello.name)
                if rules == link.rules:
                    await self._rules_changed.wait()
                else:
                    await link.set_rules(rules)
                    self.events.pulse()

    def _record(self, kind: str, **fields: object) -> None:
        self.events.record(JournalEntry(self.clock.wall_millis(), "", kind, fields))

    def _heal(self, fault_id: str, **fields: object) -> ActiveFault:
        active = self.active.remove(fault_id)
        if scope := self._playing.pop(fault_id, None):
            scope.cancel()
        self._record("fault_healed", id=fault_id, **_event_fields(active.fault), **fields)
        self.change_rules()
        return active

    async def _start(self, fault_id: str, fault: SupervisorFault) -> None:
        try:
            play = await fault.start(find_targets(fault.target, self.nodes.values()), self.clock.rate)
        except CannotPlayError as exc:
            raise NodeFailedError(str(exc)) from None
        assert self.services is not None, "it runs"
        self._playing[fault_id] = scope = trio.CancelScope()
        self.services.start_soon(self._play, fault_id, play, scope)

    async def _play(self, fault_id: str, play: Callable[[], Awaitable[str]], scope: trio.CancelScope) -> None:
        """Play until the fault is healed; heal it if it ends by itself."""
        with scope:
            try:
                reason = await play()
            except Exception as exc:  # noqa: BLE001 - a boundary: a fault must not end the cluster
                self.errors.caught("fault", exc, fault_id)
                reason = f"internal error: {type(exc).__name__}"
            if fault_id in self._playing:  # else it was healed in the turn in which it ended
                self._heal(fault_id, reason=reason)

    async def _send_rules(self) -> None:
        """Send the rules, and wait until all processes follow them.

        Paused ones do so when they are resumed.
        """
        self.change_rules()
        with trio.move_on_after(real_seconds(RULES_SECONDS)):
            while self._behind():
                await self.events.wait_changed()
        if names := self._behind():
            raise NodeFailedError(f"{', '.join(names)}: no response to a change of faults within {RULES_SECONDS:g} s")

    def _behind(self) -> list[str]:
        return [
            name
            for name, link in self.links.items()
            if self.is_attentive(name) and link.rules != self.rules_for(name)  # in this order: one may be removed
        ]


def _event_fields(fault: Fault) -> dict[str, object]:
    """The values of a fault.

    `type` and `kind` are renamed, for they are columns of an event.
    """
    values = fault_values(fault)
    kind = {"fault_kind": values.pop("kind")} if "kind" in values else {}
    return {"fault": values.pop("type"), **kind, **values}
