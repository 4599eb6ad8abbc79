"""Simulates an operator who promotes a slave of an absent master.

Operation without DLedger (issue 16): after an alert, the operator restarts the slave as master. The simulated operator
detects a master that has ended or is paused, but not an isolated one.
"""

from collections.abc import Callable
from typing import NoReturn

import attrs
import trio

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, NodeState, WrongStateError
from rmqlab.cluster.supervisor.plan.roles import acting_master
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.runtime.clock import real_seconds


@attrs.define(eq=False)
class Operator:
    """Watches the masters of a cluster."""

    cluster: Cluster
    patience: float
    """Seconds of the cluster's clock that a master may be away."""
    on_line: Callable[[str], object] = lambda _: None
    """Called with a line for each promotion."""
    _away_since: dict[str, int] = attrs.field(factory=dict, init=False)
    """By broker name: when its master was first seen away, in milliseconds of the cluster's clock."""

    async def watch_forever(self) -> NoReturn:
        """Promote a ready slave of each group whose master was away for `patience`."""
        events = self.cluster.supervisor.events
        while True:
            self._check_masters()
            with trio.move_on_after(self._seconds_left()):
                await events.wait_changed()
            await self._promote_due()

    def _check_masters(self) -> None:
        nodes = self.cluster.supervisor.nodes.values()
        for group in {node.group for node in nodes if node.group}:
            master = acting_master(group, nodes)
            if master is None or self._is_served(master):
                self._away_since.pop(group, None)
            else:
                self._away_since.setdefault(group, self._now())

    def _is_served(self, master: Node) -> bool:
        process = self.cluster.supervisor.process_state(master.name)
        return process.is_alive and not process.is_paused

    def _now(self) -> int:
        return self.cluster.supervisor.clock.wall_millis()

    def _due_at(self, group: str) -> float:
        return self._away_since[group] + self.patience * 1000

    def _seconds_left(self) -> float:
        """Return real seconds until the next promotion is due; infinite without one."""
        due = min(map(self._due_at, self._away_since), default=None)
        if due is None:
            return float("inf")
        return real_seconds(max(due - self._now(), 0.0) / 1000 / self.cluster.supervisor.spec.rate)

    async def _promote_due(self) -> None:
        self._check_masters()
        for group in [group for group in self._away_since if self._due_at(group) <= self._now()]:
            slave = self._ready_slave(group)
            if slave is None:
                self._away_since[group] = self._now()  # checks again after the same time
                continue
            self.on_line(f"promote {slave.name}, by the operator")
            try:
                await self.cluster.promote(slave.name)
            except (NodeFailedError, WrongStateError) as exc:
                self.on_line(f"{slave.name} was not promoted: {exc}")
            self._away_since.pop(group, None)

    def _ready_slave(self, group: str) -> Node | None:
        supervisor = self.cluster.supervisor
        slaves = (node for node in supervisor.nodes.values() if node.group == group and node.is_slave)
        return next((node for node in slaves if supervisor.process_state(node.name).state is NodeState.READY), None)
