"""Random faults in a scenario: drawn from the run's seed, played beside the steps.

The same seed draws the same faults: the seed of each step is derived from that of the run and from its position. The
effects depend on the machine's timing, too.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.cluster.faults.random_player import play_random_faults
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.scenario.model import Scenario, Step

_SEED_BITS = 32


class RandomFaultError(Exception):
    """A random fault could not be applied or undone."""


def seed_faults(scenario: Scenario, seed: int) -> Scenario:
    """Return the scenario with a seed for each of its random faults. Pure."""

    def seeded(number: int, step: Step) -> Step:
        action = step.action
        if action is None or not isinstance(action.argument, RandomFaults):
            return step
        rng = random.Random(f"{seed}/{number}")  # noqa: S311 -- reproducible, not secret
        faults = attrs.evolve(action.argument, seed=rng.getrandbits(_SEED_BITS))
        return attrs.evolve(step, action=attrs.evolve(action, argument=faults))

    return attrs.evolve(scenario, steps=tuple(seeded(number, step) for number, step in enumerate(scenario.steps)))


@attrs.define(eq=False)
class RandomFaultsRun:
    """One running schedule of random faults."""

    cluster: Cluster
    faults: RandomFaults
    label: str
    on_line: Callable[[str], object]
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def play(self) -> None:
        """Apply and undo all faults. RandomFaultError if one fails."""
        try:
            with self._scope:
                await play_random_faults(self.cluster, self.faults, self._journal_action, self.label)
        finally:
            self._over.set()

    async def end(self) -> None:
        """Undo faults in force, and apply no more."""
        self._scope.cancel()
        await self._over.wait()

    async def _journal_action(self, strike: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        what = f"{strike['action'].replace('_', '-')} {strike['target']}"
        if strike["error"] is not None:
            raise RandomFaultError(f"random faults{self.label and f' {self.label!r}'}: {what}: {strike['error']}")
        self.on_line(what)
