"""Runs the steps of a scenario without a cluster. Pure.

It tracks which nodes run and which workloads were started. A step that cannot work at its time (a kill of a node that
an earlier step has killed, a wait for messages of a workload that a later step starts) would end the scenario early. It
is rejected before anything starts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from rmqlab.cluster.actions.action import Liveness, NodeAction
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.actions import VERBS, SettingsChange, names_of
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.scenario.operations import Operation, problems_of
from rmqlab.cluster.scenario.targets import ScenarioTargets, topic_of
from rmqlab.cluster.supervisor.plan.membership import addition, removal, without
from rmqlab.cluster.supervisor.plan.nodesettings import set_for
from rmqlab.cluster.supervisor.plan.process_state import NodeState, WrongStateError
from rmqlab.cluster.supervisor.plan.roles import check_one_each, demoted, promoted, with_first_members_leading
from rmqlab.cluster.supervisor.plan.specs import check_spec
from rmqlab.cluster.supervisor.plan.targets import find_targets, target_words
from rmqlab.cluster.supervisor.plan.topology import (
    ClusterSpec,
    Node,
    Placement,
    UnknownTargetError,
    nodes_of,
    place,
)
from rmqlab.faults import Fault
from rmqlab.runtime.text.digits import number_of

_ENDS = {NodeState.STOPPED, NodeState.KILLED, NodeState.CRASHED, NodeState.POWER_LOST}
UNUSED = Placement(subnet=1, more_subnets=(2, 3, 4, 5))
"""Addresses of a cluster that is never started."""
_OF_WORKLOADS = ("sent", "delivered", "ended")
_SILENCING = {"stop-workload": "ended", "kill": "ended", "stop": "ended", "pause": "paused"}
"""Actions after which a workload neither sends nor receives, and what it is then."""
_REVIVING = {"start": ("ended",), "restart": ("ended", "paused"), "resume": ("paused",)}
"""Actions after which it works again, and what it was before."""


@attrs.define
class DryRun:
    """The state of nodes and workloads after the steps so far."""

    scenario: Scenario
    nodes: Sequence[Node]
    placement: Placement = UNUSED
    spec: ClusterSpec = attrs.field(init=False)
    ever: dict[str, Node] = attrs.field(init=False)
    """All nodes that the cluster has at any time, by name."""
    _liveness: dict[str, Liveness] = attrs.field(factory=dict, init=False)
    """States of nodes that steps have changed; the others run."""
    _ended_as: dict[str, str] = attrs.field(factory=dict, init=False)
    """By ended node: the action that ended it."""
    _unsure: set[str] = attrs.field(factory=set, init=False)
    """Nodes that random faults may have changed: their state is unknown."""
    _faults: dict[str, set[str]] = attrs.field(factory=dict, init=False)
    """By label of the steps whose faults are in force, or were until they ended by themselves: nodes that the faults
    name, except those of faults that may have ended."""
    _started: set[str] = attrs.field(init=False)
    _silent: dict[str, str] = attrs.field(factory=dict, init=False)
    """Workloads that neither send nor receive, and what they are: ended or paused."""
    _awaited_ends: set[str] = attrs.field(factory=set, init=False)
    """Workloads whose end a step has awaited since the last action: what they did since that action still counts."""
    _topics: set[str] = attrs.field(init=False)
    """Topics that exist or may exist: those of started workloads, and those that steps have created."""
    slaves: set[str] = attrs.field(init=False)
    """Names of the nodes that are a slave at any time, or a master that is not the last one of its group."""

    def __attrs_post_init__(self) -> None:
        self._started = {workload.name for workload in self.scenario.workloads if workload.is_early}
        self._topics = {topic_of(workload) for workload in self.scenario.workloads if workload.is_early}
        self.slaves = {node.name for node in self.nodes if node.is_slave or node.member_id}
        self.spec, self.placement = self.scenario.cluster, place(self.scenario.cluster, self.placement)
        self.ever = {node.name: node for node in self.nodes}

    def check_wait(self, step: Step) -> Iterator[str]:
        """Yield the errors of a step's condition."""
        name, *words = (step.wait or "").split() or [""]
        verb = name.partition(".")[0]
        workload = words[0] if words and verb in _OF_WORKLOADS else None
        if workload is not None and not self._is_started(workload):
            yield f"{workload} has not been started yet: it sends no events"
        if workload is not None and verb == "sent":
            yield from self._too_many(workload, words[-1])
        if workload in self._silent and verb != "ended" and number_of(words[-1]):
            yield f"{workload} is {self._silent[workload]} by then: only what it does after the last action counts"
        if workload is not None and verb == "ended":
            self._awaited_ends.add(workload)
        if name in _ENDS and len(words) == 1:
            for node in self._names((words[0],)):
                self._liveness[node], self._ended_as[node] = Liveness.ENDED, name

    def check_action(self, action: Action, label: str = "") -> Iterator[str]:
        """Yield the errors of an action; afterwards assume that it was done.

        `label` is that of its step.
        """
        verb, argument = action.verb, action.argument
        self._note_silence(verb, argument)
        if VERBS[verb].leaves_fault:
            self._faults.setdefault(label, set()).update(self._struck(argument))
        if verb == "heal":
            yield from self._heal(argument)
        elif isinstance(argument, RandomFaults):
            self._unsure |= set(argument.targets(self.nodes))
        elif verb in ("produce", "consume"):
            yield from self._start_workload(argument)
        elif verb == "stop-workload":
            yield from self._not_started(argument)
        elif isinstance(argument, Operation):
            yield from self._operate(argument)
        elif verb == "add":
            yield from self._add(*argument)
        elif verb == "remove":
            for target in names_of(argument):
                yield from self._remove(target)
        elif verb == "change-settings":
            yield from self._change_settings(argument)
        elif verb in ACTIONS:
            yield from self._act(ACTIONS[verb], (argument,) if isinstance(argument, str) else argument)

    def _note_silence(self, verb: str, argument: Any) -> None:
        """Note which workloads an action ends, pauses or starts again."""
        self._silent |= dict.fromkeys(self._awaited_ends, "ended")
        self._awaited_ends.clear()
        if verb not in _SILENCING and verb not in _REVIVING:
            return
        for name in (word for target in names_of(argument) for word in target_words(target)):
            if not any(workload.name == name for workload in self.scenario.workloads):
                continue
            if verb in _SILENCING:
                self._silent[name] = _SILENCING[verb]
            elif self._silent.get(name) in _REVIVING[verb]:
                del self._silent[name]

    def _too_many(self, workload: str, number: str) -> Iterator[str]:
        configs = [one.config for one in self.scenario.workloads if one.name == workload]
        most = int(configs[0].get("count", 0)) if configs else 0
        is_repeated = any(
            step.action and step.action.verb in ("start", "restart") and workload in step.action.argument
            for step in self.scenario.steps
        )
        if most and (number_of(number) or 0) > most and not is_repeated:
            yield f"{workload} ends after {most} sends: expected at most {most}"

    def _heal(self, label: str) -> Iterator[str]:
        if label == "all":
            self._faults.clear()
        elif label not in self._faults:
            yield f"the fault of {label!r} is not in force here: a later step begins it, or an earlier one has healed it"
        self._faults.pop(label, None)

    def _struck(self, argument: Any) -> Iterator[str]:
        """Yield the nodes that a fault names as long as it is in force."""
        if isinstance(argument, Fault):
            if not argument.ends_by_itself:
                yield from self._names(argument.targets)
        elif not isinstance(argument, RandomFaults):
            yield from self._names(names_of(argument))

    def _act(self, action: NodeAction[Any], targets: Sequence[str]) -> Iterator[str]:
        yield from self._not_started(targets)
        self._unsure |= self._elected(targets)
        if action.sets_role == "master":
            yield from self._two_of_a_group(targets)
        for node in list(self._names(targets)):
            if node not in self._unsure:
                yield from self._wrong_state(action, node)
            if action.sets_role is not None:
                yield from self._change_role(action.sets_role, node)
            if action.leaves is not None:
                self._liveness[node], self._ended_as[node] = action.leaves, action.ended_as

    def _add(self, kind: str, name: str) -> Iterator[str]:
        try:
            grown = addition(self.spec, self.placement, kind, name)
        except (UnknownTargetError, WrongStateError) as exc:
            yield str(exc)
            return
        if taken := {workload.name for workload in self.scenario.workloads}.intersection(grown.names):
            yield f"the new node would be named {min(taken)}, as a workload is: expected another name of the workload"
            return
        self.spec, self.placement = grown.spec, grown.placement
        added = [
            node for node in with_first_members_leading(nodes_of(self.spec, self.placement)) if node.name in grown.names
        ]
        self.nodes = [*self.nodes, *added]
        self.ever |= {node.name: node for node in added}
        self.slaves |= {node.name for node in added if node.is_slave or node.member_id}

    def _remove(self, target: str) -> Iterator[str]:
        try:
            names = {node.name for node in removal(target, self.nodes)}
        except (UnknownTargetError, WrongStateError) as exc:
            yield str(exc)
            return
        for name in sorted(names - self._unsure):
            if self._liveness.get(name) is Liveness.PAUSED:
                yield f"{name} is paused: resume or kill it before"
            if any(name in struck for struck in self._faults.values()):
                yield f"a fault is in force at {name}: heal it before"
            self._liveness.pop(name, None)
        self.spec = without(self.spec, names)
        self.nodes = [node for node in self.nodes if node.name not in names]

    def _change_settings(self, change: SettingsChange) -> Iterator[str]:
        names = [node.name for node in find_targets(change.target, self.nodes)]
        changed = attrs.evolve(self.spec, node_settings=set_for(self.spec, names, change.settings))
        try:
            check_spec(changed)
        except ValueError as exc:
            yield str(exc)

    def _elected(self, targets: Sequence[str]) -> set[str]:
        """Return the members of the targets' DLedger groups.

        Only a run shows which of them lead.
        """
        named = set(self._names(targets))
        groups = {node.group for node in self.nodes if node.name in named and node.member_id}
        return {node.name for node in self.nodes if node.group in groups}

    def _two_of_a_group(self, targets: Sequence[str]) -> Iterator[str]:
        named = set(self._names(targets))
        try:
            check_one_each(node for node in self.nodes if node.name in named)
        except WrongStateError as exc:
            yield str(exc)

    def _change_role(self, role: str, name: str) -> Iterator[str]:
        before = next(node for node in self.nodes if node.name == name)
        try:
            if role == "master" and before.member_id is not None:
                now = before  # only a run shows whether its group elects it
            elif role == "master":
                now = promoted(before, self.nodes, self.scenario.cluster.role)
                self.slaves |= {node.name for node in self.nodes if node.group == now.group and node.is_master}
            else:
                now = demoted(before, self.nodes)
                self.slaves.add(name)
        except WrongStateError as exc:
            yield str(exc)
        else:
            self.nodes = [now if node.name == name else node for node in self.nodes]

    def _operate(self, operation: Operation) -> Iterator[str]:
        brokers = sorted({node.group for node in self.nodes if node.group})
        consumers = ScenarioTargets(self.scenario, self.nodes).groups()
        yield from problems_of(operation, brokers, self._topics, consumers)
        self._topics |= {operation.makes_topic} - {""}
        self._topics -= {operation.deletes_topic}

    def _wrong_state(self, action: NodeAction[Any], node: str) -> Iterator[str]:
        liveness = self._liveness.get(node, Liveness.RUNNING)
        if liveness in action.needs:
            return
        if liveness is Liveness.ENDED:
            yield f"{node} does not run: it was {self._ended_as[node]} before"
        elif Liveness.RUNNING in action.needs:
            yield f"{node} is paused: resume or kill it before"
        elif Liveness.PAUSED in action.needs:
            yield f"{node} is not paused"
        else:
            yield f"{node} already runs"

    def _start_workload(self, name: str) -> Iterator[str]:
        if name in self._started:
            yield f"{name} was started before"
        self._started.add(name)
        self._topics |= {topic_of(one) for one in self.scenario.workloads if one.name == name}

    def _not_started(self, names: str | Sequence[str]) -> Iterator[str]:
        for name in (names,) if isinstance(names, str) else names:
            if not self._is_started(name):
                yield f"{name} has not been started yet"

    def _is_started(self, name: str) -> bool:
        is_workload = any(workload.name == name for workload in self.scenario.workloads)
        return name in self._started or not is_workload

    def _names(self, targets: Sequence[str]) -> Iterator[str]:
        """Yield the nodes of the targets.

        Workloads are left out: they end by themselves, so their state is unknown.
        """
        for target in targets:
            try:
                yield from (node.name for node in find_targets(target, self.nodes))
            except UnknownTargetError:
                continue
