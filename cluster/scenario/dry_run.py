"""The steps of a scenario gone through in thought: who runs at each, and who was started. Pure.

A step that asks for what cannot be then (a kill of a node that an earlier step has killed, messages of a workload that a
later step starts) would end the scenario half-way: it is found before anything starts.
"""

from collections.abc import Iterator, Sequence

import attrs

from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.supervisor.process_state import NodeState
from rmqlab.cluster.supervisor.topology import Node, UnknownTargetError, find_targets

_DEAD = {"kill": "killed", "stop": "stopped", "power-loss": "without power", "wipe": "wiped"}
_ENDS = {NodeState.STOPPED, NodeState.KILLED, NodeState.CRASHED, NodeState.POWERLESS}
_ASKING = ("sent", "delivered", "ended")


@attrs.define
class Rehearsal:
    """What is known of nodes and workloads, step after step."""

    scenario: Scenario
    nodes: Sequence[Node]
    _paused: set[str] = attrs.field(factory=set, init=False)
    _dead: dict[str, str] = attrs.field(factory=dict, init=False)
    """How each came to its end."""
    _unsure: set[str] = attrs.field(factory=set, init=False)
    """Those whom chance may strike: nothing is known of them any more."""
    _started: set[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._started = {workload.name for workload in self.scenario.workloads if workload.is_early}

    def waits(self, step: Step) -> Iterator[str]:
        """What is wrong with what a step waits for."""
        name, *words = (step.wait or "").split() or [""]
        workload = words[0] if words and name.partition(".")[0] in _ASKING else None
        if workload is not None and not self._is_started(workload):
            yield f"{workload} has not been started yet: nothing will come"
        if name in _ENDS and len(words) == 1:
            self._dead |= dict.fromkeys(self._names((words[0],)), name)

    def acts(self, action: Action) -> Iterator[str]:
        """What is wrong with an action; afterwards it is taken as done."""
        verb, argument = action.verb, action.argument
        if isinstance(argument, RandomFaults):
            self._unsure |= set(argument.targets(self.nodes))
        elif verb in ("produce", "consume"):
            yield from self._start_workload(argument)
        elif verb == "stop-workload":
            yield from self._not_started(argument)
        elif verb in (*_DEAD, "start", "pause", "resume", "restart"):
            targets = (argument,) if isinstance(argument, str) else argument
            yield from self._not_started(targets)
            for node in self._names(targets):
                if node not in self._unsure:
                    yield from self._wrong_state(verb, node)
                self._take_as_done(verb, node)

    def _wrong_state(self, verb: str, node: str) -> Iterator[str]:
        dead = self._dead.get(node)
        if verb in ("kill", "stop", "pause", "resume") and dead is not None:
            yield f"{node} does not run: it was {dead} before"
        elif verb in ("stop", "restart", "pause") and node in self._paused:
            yield f"{node} is paused: resume or kill it before"
        elif verb == "resume" and node not in self._paused:
            yield f"{node} is not paused"
        elif verb == "start" and dead is None:
            yield f"{node} runs already"

    def _take_as_done(self, verb: str, node: str) -> None:
        if verb in _DEAD:
            self._dead[node] = _DEAD[verb]
            self._paused.discard(node)
        elif verb == "pause":
            self._paused.add(node)
        else:
            self._dead.pop(node, None)
            self._paused.discard(node)

    def _start_workload(self, name: str) -> Iterator[str]:
        if name in self._started:
            yield f"{name} was started before"
        self._started.add(name)

    def _not_started(self, names: str | Sequence[str]) -> Iterator[str]:
        for name in (names,) if isinstance(names, str) else names:
            if not self._is_started(name):
                yield f"{name} has not been started yet"

    def _is_started(self, name: str) -> bool:
        is_workload = any(workload.name == name for workload in self.scenario.workloads)
        return name in self._started or not is_workload

    def _names(self, targets: Sequence[str]) -> Iterator[str]:
        """Nodes of the cluster; workloads end by themselves, so that nothing is known of them."""
        for target in targets:
            try:
                yield from (node.name for node in find_targets(target, self.nodes))
            except UnknownTargetError:
                continue
