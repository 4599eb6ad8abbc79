"""Random faults from a seed: action, node and time of each.

Pure: the same seed and nodes give the same schedule.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind, UnknownTargetError
from rmqlab.faults import FaultError
from rmqlab.runtime.config.valuetypes import typed_fields
from rmqlab.runtime.text.nearmiss import near_miss

UNDOS: Mapping[str, str] = {action.method: action.undo for action in ACTIONS.values() if action.undo is not None}
"""An action on a node, and the action that undoes it."""
MOST_FAULTS = 100_000
_GROUPS = ("masters", "slaves", "brokers", "nameservers")


def _are_actions(_instance: object, _field: object, value: tuple[str, ...]) -> None:
    known = [action.replace("_", "-") for action in UNDOS]
    for action in value:
        if action not in UNDOS:
            name = action.replace("_", "-")
            raise FaultError(f"random: no action {name!r}: expected some of {', '.join(known)}{near_miss(name, known)}")
    if not value:
        raise FaultError(f"random: no action: expected some of {', '.join(known)}")


def _action_names(given: Any) -> Any:
    if not isinstance(given, list | tuple) or not all(isinstance(action, str) for action in given):
        return given  # rejected by the type of the field
    return tuple(action.strip().replace("-", "_") for action in given)


def _is_positive(_instance: object, field: "attrs.Attribute[float]", value: float) -> None:
    if not 0 < value < math.inf:
        raise FaultError(f"random: {field.name} = {value:g}: expected more than 0 seconds")


def _is_count(_instance: object, _field: object, value: int) -> None:
    if not 0 <= value <= MOST_FAULTS:
        raise FaultError(f"count = {value}: expected 0 to {MOST_FAULTS}")


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class RandomFaults:
    """One fault on one random node every `every` seconds, for `heal_after` seconds.

    Both are seconds of the cluster's clock.
    """

    every: float = attrs.field(default=30.0, validator=_is_positive)
    of: tuple[str, ...] = attrs.field(
        default=("kill", "pause", "isolate"),
        converter=_action_names,
        validator=_are_actions,
    )
    on: str = "masters"
    """masters, slaves, brokers, nameservers, or a target."""
    heal_after: float = attrs.field(default=20.0, validator=_is_positive)
    seed: int = 0
    count: int = attrs.field(default=0, validator=_is_count)
    """Number of faults; 0 means no limit."""

    @property
    def seconds(self) -> float:
        """Seconds until the last fault is undone; infinite without a count."""
        return self.count * self.every + self.heal_after if self.count else math.inf

    def targets(self, nodes: Sequence[Node]) -> list[str]:
        """Return the names of possible targets. FaultError if there are none."""
        groups = {
            "masters": [node for node in nodes if node.is_master],
            "slaves": [node for node in nodes if node.is_slave],
            "brokers": [node for node in nodes if node.kind is NodeKind.BROKER],
            "nameservers": [node for node in nodes if node.kind is NodeKind.NAMESERVER],
        }
        if self.on not in groups:
            try:
                return [node.name for node in find_targets(self.on, nodes)]
            except UnknownTargetError as exc:
                raise UnknownTargetError(
                    f"{exc}; or one of {', '.join(_GROUPS)}{near_miss(self.on, _GROUPS)}"
                ) from None
        if not groups[self.on]:
            raise FaultError(f"random: this cluster has no {self.on}")
        return [node.name for node in groups[self.on]]


@attrs.frozen
class PlannedAction:
    """An action on one node, which begins or undoes a fault.

    `at`: seconds since the start.
    """

    at: float
    action: str
    target: str
    undoes: bool = False

    def __str__(self) -> str:
        return f"{self.at:g} s {self.action.replace('_', '-')} {self.target}"


def plan_actions(faults: RandomFaults, targets: Sequence[str]) -> Iterator[PlannedAction]:
    """Yield the actions in order of time.

    A node with a fault gets no second one before the first is undone.
    """
    rng = random.Random(faults.seed)  # noqa: S311 -- to be repeated, not to be secret
    ends: list[PlannedAction] = []
    for number in itertools.count(1):
        at = number * faults.every
        while ends and ends[0].at <= at:
            yield ends.pop(0)
        if faults.count and number > faults.count:
            break
        action = rng.choice(faults.of)
        occupied = {end.target for end in ends}
        free = [target for target in targets if target not in occupied]
        if free:
            target = rng.choice(free)
            yield PlannedAction(at, action, target)
            ends.append(PlannedAction(at + faults.heal_after, UNDOS[action], target, undoes=True))
    yield from ends


def describe_random(faults: RandomFaults) -> str:
    """`6 of kill, pause, isolate on masters, one every 30 s, for 20 s each, seed 7`."""
    number = f"{faults.count} of " if faults.count else ""
    actions = ", ".join(action.replace("_", "-") for action in faults.of)
    times = f"one every {faults.every:g} s, for {faults.heal_after:g} s each"
    return f"{number}{actions} on {faults.on}, {times}, seed {faults.seed}"
