"""Plays random faults on a running cluster, and undoes those in force at the end."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from rmqlab.cluster.actions.action import HEAL
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.faults.schedule import UNDOS, PlannedAction, RandomFaults, plan_actions
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.faults import FaultError
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.config.valuetypes import checked

UNDO_SECONDS = 60.0
_FAILURES = (WrongStateError, NodeFailedError, FaultError, ForkServerGoneError)
OnAction = Callable[[dict[str, Any]], Awaitable[None]]


@checked
async def play_random_faults(cluster: Cluster, faults: RandomFaults, on_action: OnAction, label: str = "") -> None:
    """Play until the count is reached or cancellation, then undo the faults in force.

    `on_action` receives each action as {at, action, target, error}: seconds of the cluster's clock since the start, and
    why it failed, for example because the node was already killed. The journal records them under the label; if their
    number is known, it records all that were drawn before the first is played.
    """
    player = _Player(cluster)
    supervisor = cluster.supervisor
    targets = faults.targets([*supervisor.nodes.values()])
    drawn = [str(action) for action in plan_actions(faults, targets)] if faults.count else None
    supervisor.record("", "random_faults_drawn", label=label, seed=faults.seed, drawn=drawn)
    began, rate = trio.current_time(), supervisor.clock.rate
    try:
        for action in plan_actions(faults, targets):
            await trio.sleep_until(began + real_seconds(action.at / rate))
            error = await player.do(action)
            done = {"action": action.action, "target": action.target, "error": error}
            planned = round(action.at * 1000)
            supervisor.record("", "random_fault", label=label, planned=planned, undoes=action.undoes, **done)
            await on_action({"at": action.at, **done})
    finally:
        with trio.move_on_after(real_seconds(UNDO_SECONDS)) as undoing:
            undoing.shield = True
            await player.undo_all()
        supervisor.record("", "random_faults_over", label=label)


class _Player:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._in_force: dict[str, str] = {}  # the action that undoes it, by target
        self._faults: dict[str, ActiveFault] = {}  # by target

    async def do(self, action: PlannedAction) -> str | None:
        """Play one action. Return why it failed, or None."""
        try:
            if action.undoes:
                self._in_force.pop(action.target, None)
                await self._undo(action.target, action.action)
            else:
                await self._apply(action.target, action.action)
        except _FAILURES as exc:
            return str(exc)
        return None

    async def undo_all(self) -> None:
        """Undo the faults in force, unless the cluster stops anyway."""
        for target, action in self._in_force.items():
            if not self._cluster.supervisor.is_stopping:
                with contextlib.suppress(*_FAILURES):
                    await self._undo(target, action)

    async def _apply(self, target: str, action: str) -> None:
        self._in_force[target] = UNDOS[action]
        result = await getattr(self._cluster, action)(target)
        if isinstance(result, ActiveFault):
            self._faults[target] = result

    async def _undo(self, target: str, action: str) -> None:
        if action != HEAL:
            await getattr(self._cluster, action)(target)
        elif (fault := self._faults.pop(target, None)) is not None:
            await self._cluster.heal(fault)
