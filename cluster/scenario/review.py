"""Reviews a scenario before its start: targets, times, labels, metrics, units."""

from collections.abc import Iterator, Sequence

from rmqlab.cluster.actions.action import Targets
from rmqlab.cluster.conditions import UnknownConditionError
from rmqlab.cluster.faults.active_faults import check_playable
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.actions import VERBS, names_of
from rmqlab.cluster.scenario.binding import BindingError, Path, near
from rmqlab.cluster.scenario.bounds import review_expectation
from rmqlab.cluster.scenario.dry_run import UNUSED, DryRun
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.scenario.targets import ScenarioTargets, WrongTargetError
from rmqlab.cluster.scenario.waits import parse_wait
from rmqlab.cluster.supervisor.plan.roles import with_first_members_leading
from rmqlab.cluster.supervisor.plan.specs import check_spec
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    check_workload_name,
    nodes_of,
    place,
    workload_host,
)
from rmqlab.faults import FaultError

BEGIN, END = "begin", "end"
"""Labels that every scenario has without a step."""


def review(scenario: Scenario, *, is_single: bool = False) -> None:
    """Raise BindingError for the first invalid target, time, label, metric or unit.

    With `is_single` the machine has only 127.0.0.1, where some faults cannot be played.
    """
    try:
        ClusterSpec(name=scenario.name)  # it names a directory
    except ValueError as exc:
        raise BindingError(("name",), str(exc)) from None
    try:
        check_spec(scenario.cluster)
        nodes = with_first_members_leading(nodes_of(scenario.cluster, _placement(scenario, is_single=is_single)))
    except ValueError as exc:
        raise BindingError(("cluster",), str(exc)) from None
    names = [workload.name for workload in scenario.workloads]
    for index, workload in enumerate(scenario.workloads):
        _review_workload(scenario, nodes, names, index, ("workload", index), workload.nameservers)
    latest, dry_run = 0.0, DryRun(scenario, nodes, _placement(scenario, is_single=is_single))
    for index, step in enumerate(scenario.steps):
        latest = _review_step(scenario, step, ("step", index), dry_run.nodes, latest)
        _review_label(scenario, step.label, index)
        _try_step(dry_run, step, ("step", index))
    known = ScenarioTargets(scenario, [*dry_run.ever.values()], frozenset(dry_run.slaves))
    labels = [BEGIN, *(step.label for step in scenario.steps if step.label), END]
    for index, expectation in enumerate(scenario.expectations):
        review_expectation(expectation, ("expect", index), labels, known)
    variant = scenario.hardened
    for index, expectation in enumerate(variant.expectations if variant else ()):
        review_expectation(expectation, ("hardened", "expect", index), labels, known)
    titles = {expectation.title for expectation in scenario.expectations}
    for title in variant.dropped if variant else ():
        if title not in titles:
            raise BindingError(("hardened", "drop"), f"no expectation {title!r}{near(title, titles)}")


def _placement(scenario: Scenario, *, is_single: bool) -> Placement:
    return place(scenario.cluster, UNUSED if not (is_single or scenario.cluster.single_address) else Placement())


def _review_workload(
    scenario: Scenario, nodes: Sequence[Node], names: Sequence[str], index: int, path: Path, nameservers: Sequence[str]
) -> None:
    name = names[index]
    if name in names[:index]:
        raise BindingError((*path, "name"), f"there are two called {name!r}")
    if any(node.name == name for node in nodes):
        raise BindingError((*path, "name"), f"{name!r} is a node of the cluster: expected another name")
    try:
        check_workload_name(name, {})
    except ValueError as exc:
        raise BindingError((*path, "name"), str(exc)) from None
    known = [node.name for node in nodes if node.kind is NodeKind.NAMESERVER]
    for nameserver in nameservers:
        if nameserver not in known:
            raise BindingError((*path, "nameservers"), f"no nameserver {nameserver!r}{near(nameserver, known)}")
    starts = [step for step in scenario.steps if step.action in (Action("produce", name), Action("consume", name))]
    if not scenario.workloads[index].is_early and not starts:
        kind = scenario.workloads[index].kind
        raise BindingError(path, f'{name} is never started: expected a step with {kind} = "{name}"')


def _review_step(scenario: Scenario, step: Step, path: Path, nodes: Sequence[Node], latest: float) -> float:
    """Review one step; return the earliest time of the next one, in seconds."""
    begins = _review_time(scenario, step, path, latest)
    if step.label in (BEGIN, END):
        raise BindingError((*path, _label_key(step)), f"{step.label!r} is the label of the scenario's own {step.label}")
    if step.wait is not None:
        _review_wait(scenario, step.wait, path, nodes)
    if step.action is not None:
        _review_action(scenario, step.action, path, nodes, begins)
    return begins


def _review_label(scenario: Scenario, label: str, index: int) -> None:
    if label and label in (earlier.label for earlier in scenario.steps[:index]):
        text = f"{label!r} is the label of an earlier step, too: expected a label of its own"
        raise BindingError(("step", index, _label_key(scenario.steps[index])), text)


def _label_key(step: Step) -> str:
    """Return the key that has the label of a step."""
    return "mark" if step.action and step.action.verb == "mark" and step.action.argument == step.label else "label"


def _review_time(scenario: Scenario, step: Step, path: Path, latest: float) -> float:
    if step.at is not None and step.at < latest:
        raise BindingError(
            (*path, "at"), f"{step.at:g} s is before the step above it, which is not before {latest:g} s"
        )
    begins = max(latest + step.after, step.at or 0.0)
    if scenario.end is not None and begins > scenario.end:
        key = "at" if step.at == begins else "after"
        raise BindingError((*path, key), f"{begins:g} s is after the scenario's end ({scenario.end:g} s)")
    return begins


def _review_wait(scenario: Scenario, wait: str, path: Path, nodes: Sequence[Node]) -> None:
    names = [workload.name for workload in scenario.workloads]
    try:
        parse_wait(wait, nodes, names, random_labels(scenario))
        ScenarioTargets(scenario, nodes).check_wait(wait)
    except (UnknownConditionError, UnknownTargetError, WrongTargetError) as exc:
        raise BindingError((*path, "wait"), str(exc)) from None


def _review_action(scenario: Scenario, action: Action, path: Path, nodes: Sequence[Node], begins: float) -> None:
    if action.verb not in VERBS:
        raise BindingError(path, f"no action {action.verb!r}{near(action.verb, VERBS)}")
    try:
        for problem in _problems_of(scenario, action, nodes):
            raise BindingError((*path, action.verb), problem)
    except (UnknownTargetError, FaultError, WrongTargetError) as exc:
        raise BindingError((*path, action.verb), str(exc)) from None
    if isinstance(action.argument, RandomFaults) and scenario.end is not None:
        over = begins + action.argument.seconds
        if over > scenario.end:
            text = f"the last fault would end at {over:g} s, after the scenario's end ({scenario.end:g} s)"
            raise BindingError((*path, action.verb), text)


def _try_step(dry_run: DryRun, step: Step, path: Path) -> None:
    """Raise BindingError for a step that cannot work after those before it."""
    for text in dry_run.check_wait(step):
        raise BindingError((*path, "wait"), text)
    if step.action is not None:
        for text in dry_run.check_action(step.action, step.label):
            raise BindingError((*path, step.action.verb), text)


def random_labels(scenario: Scenario) -> list[str]:
    """Return the labels of the steps that begin random faults."""
    return [step.label for step in scenario.steps if step.label and step.action and step.action.verb == "random-faults"]


def _problems_of(scenario: Scenario, action: Action, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the errors of an action's targets and labels.

    UnknownTargetError, WrongTargetError, FaultError.
    """
    verb, argument = VERBS[action.verb], action.argument
    kinds = {workload.name: workload.kind for workload in scenario.workloads}
    known = ScenarioTargets(scenario, nodes)
    match verb.takes:
        case "targets" | "measure":
            for target in argument[:1] if verb.takes == "measure" else names_of(argument):
                find_targets(target, _processes(scenario, nodes))
                known.check_target(action.verb, verb.targets, target)
        case "operation" if argument.target:
            find_targets(argument.target, nodes)
            known.check_target(action.verb, Targets.BROKERS, argument.target)
        case "settings":
            find_targets(argument.target, nodes)
            known.check_target(action.verb, verb.targets, argument.target)
        case "fault":
            check_playable(argument, _processes(scenario, nodes))
        case "random-faults":
            argument.targets(nodes)
        case "workload" if kinds.get(argument) != action.verb:
            of_kind = known.workloads(action.verb)
            yield f"no workload {argument!r} of kind {action.verb}{near(argument, of_kind)}"
        case "workloads":
            yield from (f"no workload {name!r}{near(name, kinds)}" for name in names_of(argument) if name not in kinds)
        case "label":
            labels = ["all", *_fault_labels(scenario)]
            if argument not in labels:
                yield f"no fault of the label {argument!r}{near(argument, filter(None, labels))}"


def _fault_labels(scenario: Scenario) -> list[str]:
    """Return the labels of the steps that begin a fault; a label may be empty."""
    return [step.label for step in scenario.steps if step.action and VERBS[step.action.verb].leaves_fault]


def _processes(scenario: Scenario, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of the cluster and those of the workloads."""
    placement = Placement(subnet=None if nodes[0].host == "127.0.0.1" else 1)
    return [
        *nodes,
        *(
            Node(name=workload.name, kind=NodeKind.WORKLOAD, host=workload_host(placement, index))
            for index, workload in enumerate(scenario.workloads)
        ),
    ]
