"""Whether a scenario can be played: everything that can be known before anything starts. Pure."""

from collections.abc import Iterator, Sequence

from rmqlab.cluster.conditions import UnknownConditionError
from rmqlab.cluster.faults.active_faults import check_playable
from rmqlab.cluster.faults.rules import FaultError
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.actions import VERBS, names_of
from rmqlab.cluster.scenario.binding import BindingError, Path, near
from rmqlab.cluster.scenario.bounds import review_expectation
from rmqlab.cluster.scenario.dry_run import Rehearsal
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.scenario.targets import Cast, CastError
from rmqlab.cluster.scenario.waits import parse_wait
from rmqlab.cluster.supervisor.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    check_spec,
    find_targets,
    nodes_of,
    place,
    workload_host,
)

BEGIN, END = "begin", "end"
"""Labels that every scenario has."""


def review(scenario: Scenario, *, is_single: bool = False) -> None:
    """BindingError for the first thing that cannot be: a target, a time, a label, a metric, a unit.

    `is_single` tells that this machine has 127.0.0.1 only, where some faults cannot be played.
    """
    try:
        ClusterSpec(name=scenario.name)  # it names a directory
    except ValueError as exc:
        raise BindingError(("name",), str(exc)) from None
    try:
        check_spec(scenario.cluster)
        nodes = nodes_of(scenario.cluster, _placement(scenario, is_single=is_single))
    except ValueError as exc:
        raise BindingError(("cluster",), str(exc)) from None
    names = [workload.name for workload in scenario.workloads]
    for index, workload in enumerate(scenario.workloads):
        _review_workload(scenario, nodes, names, index, ("workload", index), workload.nameservers)
    latest, rehearsal = 0.0, Rehearsal(scenario, nodes)
    for index, step in enumerate(scenario.steps):
        latest = _review_step(scenario, step, ("step", index), nodes, latest)
        _rehearse(rehearsal, step, ("step", index))
    cast = Cast(scenario, nodes)
    labels = {BEGIN, END, *(step.label for step in scenario.steps if step.label)}
    for index, expectation in enumerate(scenario.expectations):
        review_expectation(expectation, ("expect", index), labels, cast)
    variant = scenario.hardened
    for index, expectation in enumerate(variant.expectations if variant else ()):
        review_expectation(expectation, ("hardened", "expect", index), labels, cast)
    titles = {expectation.title for expectation in scenario.expectations}
    for title in variant.dropped if variant else ():
        if title not in titles:
            raise BindingError(("hardened", "drop"), f"no expectation {title!r}{near(title, titles)}")


def _placement(scenario: Scenario, *, is_single: bool) -> Placement:
    return place(scenario.cluster, Placement(subnet=None if is_single or scenario.cluster.single_address else 1))


def _review_workload(
    scenario: Scenario, nodes: Sequence[Node], names: Sequence[str], index: int, path: Path, nameservers: Sequence[str]
) -> None:
    name = names[index]
    if name in names[:index] or any(node.name == name for node in nodes):
        raise BindingError((*path, "name"), f"there are two called {name!r}")
    known = [node.name for node in nodes if node.kind is NodeKind.NAMESERVER]
    for nameserver in nameservers:
        if nameserver not in known:
            raise BindingError((*path, "nameservers"), f"no nameserver {nameserver!r}{near(nameserver, known)}")
    starts = [step for step in scenario.steps if step.action in (Action("produce", name), Action("consume", name))]
    if not scenario.workloads[index].is_early and not starts:
        kind = scenario.workloads[index].kind
        raise BindingError(path, f'{name} is never started: expected a step with {kind} = "{name}"')


def _review_step(scenario: Scenario, step: Step, path: Path, nodes: Sequence[Node], latest: float) -> float:
    """Look at one step; the time that the next one cannot be before."""
    if step.at is not None and step.at < latest:
        raise BindingError(
            (*path, "at"), f"{step.at:g} s is before the step above it, which is not before {latest:g} s"
        )
    begins = max(latest + step.after, step.at or 0.0)
    if scenario.end is not None and begins > scenario.end:
        key = "at" if step.at == begins else "after"
        raise BindingError((*path, key), f"{begins:g} s is after the scenario's end ({scenario.end:g} s)")
    if step.label in (BEGIN, END):
        raise BindingError((*path, "label"), f"{step.label!r} is the label of the scenario's own {step.label}")
    names = [workload.name for workload in scenario.workloads]
    if step.wait is not None:
        try:
            parse_wait(step.wait, nodes, names, chances_of(scenario))
            Cast(scenario, nodes).check_wait(step.wait)
        except (UnknownConditionError, UnknownTargetError, CastError) as exc:
            raise BindingError((*path, "wait"), str(exc)) from None
    if step.action is not None and step.action.verb not in VERBS:
        raise BindingError(path, f"no action {step.action.verb!r}{near(step.action.verb, VERBS)}")
    if step.action is not None:
        for fault in _faults_of_action(scenario, step.action, nodes):
            raise BindingError((*path, step.action.verb), fault)
        if isinstance(step.action.argument, RandomFaults) and scenario.end is not None:
            over = begins + step.action.argument.seconds
            if over > scenario.end:
                text = f"the last fault would end at {over:g} s, after the scenario's end ({scenario.end:g} s)"
                raise BindingError((*path, step.action.verb), text)
    return begins


def _rehearse(rehearsal: Rehearsal, step: Step, path: Path) -> None:
    """BindingError where nothing could come of a step, after those before it."""
    for text in rehearsal.waits(step):
        raise BindingError((*path, "wait"), text)
    if step.action is not None:
        for text in rehearsal.acts(step.action):
            raise BindingError((*path, step.action.verb), text)


def chances_of(scenario: Scenario) -> list[str]:
    """Labels of the steps that begin random faults."""
    return [step.label for step in scenario.steps if step.label and step.action and step.action.verb == "random-faults"]


def _faults_of_action(scenario: Scenario, action: Action, nodes: Sequence[Node]) -> Iterator[str]:
    """What is wrong with an action: its targets, its labels."""
    workloads = {workload.name: workload.kind for workload in scenario.workloads}
    placement = Placement(subnet=None if nodes[0].host == "127.0.0.1" else 1)
    hosts = [workload_host(placement, index) for index in range(len(workloads))]
    placed = zip(workloads, hosts, strict=True)
    everybody = [*nodes, *(Node(name=name, kind=NodeKind.WORKLOAD, host=host) for name, host in placed)]
    cast = Cast(scenario, nodes)
    try:
        match VERBS[action.verb].takes:
            case "targets":
                for target in names_of(action.argument):
                    find_targets(target, everybody)
                    cast.check_target(action.verb, VERBS[action.verb].targets, target)
            case "measure":
                find_targets(action.argument[0], everybody)
                cast.check_target(action.verb, VERBS[action.verb].targets, action.argument[0])
            case "fault":
                check_playable(action.argument, everybody)
            case "chance":
                action.argument.targets(nodes)
            case "workload":
                if workloads.get(action.argument) != action.verb:
                    known = [name for name, kind in workloads.items() if kind == action.verb]
                    yield f"no workload {action.argument!r} of kind {action.verb}{near(action.argument, known)}"
            case "workloads":
                for name in names_of(action.argument):
                    if name not in workloads:
                        yield f"no workload {name!r}{near(name, workloads)}"
            case "label":
                labels = [step.label for step in scenario.steps if step.action and VERBS[step.action.verb].leaves_fault]
                if action.argument not in (*labels, "all"):
                    yield f"no fault of the label {action.argument!r}{near(action.argument, ['all', *filter(None, labels)])}"
    except (UnknownTargetError, FaultError, CastError) as exc:
        yield str(exc)
