"""Sees to it that the nodes of a running cluster play the faults in force, all of them, and no others."""

import contextlib
import math
from collections.abc import Callable, Mapping

import attrs
import trio

from rmqlab.cluster.faults.active_faults import ActiveFault, FaultBoard
from rmqlab.cluster.faults.forged_report import REPORT_PERIOD, NoHaPortError, Stranger
from rmqlab.cluster.faults.rules import Fault, HaReportFault, describe_fault, fault_values
from rmqlab.cluster.supervisor.eventlog import EventLog
from rmqlab.cluster.supervisor.nodelink import NodeLink
from rmqlab.cluster.supervisor.process_state import NodeFailedError
from rmqlab.cluster.supervisor.topology import Node, find_targets
from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.fault_rules import NodeRules
from rmqlab.runtime.journal import JournalEntry

RULES_SECONDS = 20.0


@attrs.define(eq=False)
class FaultKeeper:
    """The board of faults, and whoever has to be told of it."""

    nodes: Mapping[str, Node]
    links: Mapping[str, NodeLink]
    """The control channels of the processes that run, by node."""
    clock: RatedClock
    events: EventLog
    is_attentive: Callable[[str], bool]
    """Whether a node runs and is not paused: then it answers."""
    board: FaultBoard = attrs.field(factory=FaultBoard, init=False)
    services: trio.Nursery | None = attrs.field(default=None, init=False)
    """Where strangers live; set while the cluster runs."""
    _rules: dict[str, NodeRules] = attrs.field(factory=dict, init=False)  # by node, until something changes
    _rules_changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _strangers: dict[str, trio.CancelScope] = attrs.field(factory=dict, init=False)

    async def apply(self, fault: Fault) -> ActiveFault:
        """Put a fault in force, and wait until all nodes that run play it. FaultError, UnknownTargetError.

        NodeFailedError where a node does not answer, or has no HA port to report to.
        """
        active = self.board.add(fault, [*self.nodes.values()], self.clock.wall_millis())
        self._record("fault_applied", id=active.id, **_event_fields(fault))
        if isinstance(fault, HaReportFault):
            await self._send_stranger(active.id, fault)
        await self._pass_rules_on()
        return active

    async def heal(self, *fault_ids: str) -> list[ActiveFault]:
        """End faults, and wait until no node that runs plays them. FaultError for an id that is none."""
        for fault_id in fault_ids:
            self.board.find(fault_id)  # all or none
        healed = [self._heal(fault_id) for fault_id in fault_ids]
        await self._pass_rules_on()
        return healed

    def end_all(self, reason: str) -> None:
        """End every fault without waiting for anybody."""
        for fault_id in [*self.board.active]:
            self._heal(fault_id, reason=reason)

    def spent(self, fault_id: str, name: str) -> None:
        """A node has done as often as it was told what a fault asks of it."""
        if self.board.spent(fault_id, name, [*self.nodes.values()]):
            self._heal(fault_id, reason="spent")
        self.change_rules()

    def rules_for(self, name: str) -> NodeRules:
        """The fault rules of a node."""
        if name not in self._rules:
            self._rules[name] = self.board.rules_for(self.nodes[name], [*self.nodes.values()])
        return self._rules[name]

    def change_rules(self) -> None:
        """Work the rules of all nodes out anew: a fault came or went, or a node that they have to know of."""
        self._rules.clear()
        self._rules_changed.set()
        self._rules_changed = trio.Event()

    def handicaps(self, name: str) -> str:
        """The faults in force that may be why a node does not get on, as the end of a sentence."""
        ids = self.rules_for(name).ids
        told = (f"{fault_id} ({describe_fault(fault_values(self.board.find(fault_id).fault))})" for fault_id in ids)
        return f", with {', '.join(told)} in force" if ids else ""

    async def keep_rules(self, link: NodeLink) -> None:
        """Tell a process its rules whenever they change, as long as its channel is open."""
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
        active = self.board.remove(fault_id)
        if scope := self._strangers.pop(fault_id, None):
            scope.cancel()
        self._record("fault_healed", id=fault_id, **_event_fields(active.fault), **fields)
        self.change_rules()
        return active

    async def _send_stranger(self, fault_id: str, fault: HaReportFault) -> None:
        strangers = []
        try:
            for node in find_targets(fault.target, self.nodes.values()):
                strangers.append(await Stranger.connect(node.host, node.ha_port or 0, fault.offset))  # noqa: PERF401 -- those before a failure must be closed
        except NoHaPortError as exc:
            for stranger in strangers:
                await stranger.stream.aclose()
            self._heal(fault_id, reason=str(exc))
            raise NodeFailedError(str(exc)) from None
        assert self.services is not None, "it runs"
        self._strangers[fault_id] = scope = trio.CancelScope()
        period = REPORT_PERIOD / self.clock.rate if fault.is_repeated else math.inf
        self.services.start_soon(self._attend_strangers, fault_id, strangers, period, scope)

    async def _attend_strangers(
        self, fault_id: str, strangers: list[Stranger], period: float, scope: trio.CancelScope
    ) -> None:
        """Stay connected until the fault is healed, or the last broker has closed: then it is over."""
        with scope:
            async with trio.open_nursery() as nursery:
                for stranger in strangers:
                    nursery.start_soon(stranger.stay, period)
            self._strangers.pop(fault_id)
            self._heal(fault_id, reason="the broker closed the connection")

    async def _pass_rules_on(self) -> None:
        """Wait until all processes live by the rules; those that stand still take them when they go on."""
        self.change_rules()
        with trio.move_on_after(real_seconds(RULES_SECONDS)):
            while self._behind():
                await self.events.wait_changed()
        if names := self._behind():
            raise NodeFailedError(f"{', '.join(names)}: no answer to a change of faults within {RULES_SECONDS:g} s")

    def _behind(self) -> list[str]:
        return [
            name for name, link in self.links.items() if link.rules != self.rules_for(name) and self.is_attentive(name)
        ]


def _event_fields(fault: Fault) -> dict[str, object]:
    """The fields of a fault; its type and kind under names that are not columns of an event."""
    values = fault_values(fault)
    kind = {"fault_kind": values.pop("kind")} if "kind" in values else {}
    return {"fault": values.pop("type"), **kind, **values}
