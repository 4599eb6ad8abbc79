"""Dry runs of steps: impossible ones are rejected, possible ones accepted."""

from collections.abc import Iterator

import pytest

from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.dry_run import DryRun
from rmqlab.cluster.scenario.model import Action, Scenario, Step, Workload
from rmqlab.cluster.supervisor.plan.roles import with_first_members_leading
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, nodes_of, place
from rmqlab.faults import ClockStep, DropRequest

SPEC = ClusterSpec(groups=2, slaves=1)
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=9)))
LATE = Workload(name="late", kind="produce", is_early=False)


def complaints(*steps: str) -> list[str]:
    """Return the errors of steps such as `kill broker-a`, or `wait killed broker-a`."""

    def all_of(dry_run: DryRun) -> Iterator[str]:
        for step in steps:
            verb, _, argument = step.partition(" ")
            if verb == "wait":
                yield from dry_run.check_wait(Step(wait=argument))
            elif verb == "chance":
                yield from dry_run.check_action(Action("random-faults", RandomFaults(on=argument, count=1)))
            elif verb == "clock":
                yield from dry_run.check_action(Action("fault", ClockStep(target=argument, millis=1)))
            elif verb == "spent":
                yield from dry_run.check_action(Action("fault", DropRequest(target=argument, code="105", times=1)))
            elif verb == "add":
                yield from dry_run.check_action(Action(verb, (argument, "")))
            else:
                yield from dry_run.check_action(Action(verb, tuple(argument.split())))

    workloads = (Workload(name="early", kind="produce"), LATE, Workload(name="namesrv-2", kind="produce"))
    scenario = Scenario(name="x", claim="c", cluster=SPEC, workloads=workloads)
    return list(all_of(DryRun(scenario, NODES)))


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["kill broker-a", "kill broker-a:master"], "broker-a does not run: it was killed before"),
        (["stop broker-a", "pause broker-a"], "broker-a does not run: it was stopped before"),
        (["power-loss broker-a", "stop broker-a"], "broker-a does not run: it was without power before"),
        (["pause broker-a-s", "stop broker-a:slave"], "broker-a-s is paused: resume or kill it before"),
        (["pause broker-a-s", "restart broker-a:slave"], "broker-a-s is paused: resume or kill it before"),
        (["pause broker-a", "pause broker-a"], "broker-a is paused: resume or kill it before"),
        (["resume broker-b broker-a"], "broker-b is not paused"),
        (["wipe broker-a", "start broker-a", "start broker-a"], "broker-a already runs"),
        (["wait sent.SEND_OK late 5"], "late has not been started yet: it sends no events"),
        (
            ["stop-workload early", "wait sent early 1"],
            "early is ended by then: only what it does after the last action counts",
        ),
        (["stop broker-a,early", "wait delivered early 1"], "early is ended by then"),
        (["wait ended early", "kill broker-a", "wait sent.SEND_OK early 1"], "early is ended by then"),
        (["pause early", "wait sent early 1"], "early is paused by then"),
        (["pause early", "kill early", "resume early", "wait sent early 1"], "early is ended by then"),
        (["stop-workload early late"], "late has not been started yet"),
        (["kill late"], "late has not been started yet"),
        (["promote broker-a"], "broker-a is already a master of broker-a; its slaves: broker-a-s"),
        (["promote broker-a-s", "promote broker-a-s"], "broker-a-s is already a master of broker-a, and has no slave"),
        (["demote broker-a", "demote broker-a"], "broker-a is already a slave of broker-a"),
        (["isolate broker-a-s", "remove broker-a-s"], "a fault is in force at broker-a-s: heal it before"),
        (["clock broker-b:slave", "remove broker-b-s"], "a fault is in force at broker-b-s: heal it before"),
        (
            ["add nameserver"],
            "the new node would be named namesrv-2, as a workload is: expected another name of the workload",
        ),
        (["pause broker-a-s", "promote broker-a-s"], "broker-a-s is paused: resume or kill it before"),
    ],
)
def test_impossible_steps_are_found(steps: list[str], text: str) -> None:
    assert complaints(*steps)[0].startswith(text)


@pytest.mark.parametrize(
    "steps",
    [
        ["kill broker-a", "start broker-a", "kill broker-a", "wipe broker-a", "power-loss broker-a", "start broker-a"],
        ["pause broker-a", "kill broker-a", "start broker-a", "pause broker-a", "resume broker-a"],
        ["stop broker-a", "restart broker-a", "kill broker-b"],
        ["wait crashed broker-a", "start broker-a"],
        ["chance masters", "start broker-a", "resume broker-b"],
        ["wait sent early 5", "kill early", "stop-workload early"],
        ["stop-workload early", "wait sent early 0", "wait ended early", "start early", "wait sent early 5"],
        ["wait ended early", "wait sent early 5"],
        ["pause early", "resume early", "wait sent early 5", "pause early", "restart early", "wait sent early 5"],
        ["wait route-gone broker-a:master", "wait consumed-all late"],
        ["clock broker-a", "remove broker-b-s"],
        ["spent broker-b-s", "remove broker-b-s"],
    ],
)
def test_possible_steps_pass(steps: list[str]) -> None:
    assert complaints(*steps) == []


def test_which_member_of_a_group_leads_only_a_run_shows() -> None:
    """No step after `promote` of a DLedger member can be judged by roles."""
    spec = ClusterSpec(mode="dledger", slaves=2)
    nodes = with_first_members_leading(nodes_of(spec, place(spec, Placement(subnet=9))))
    dry_run = DryRun(Scenario(name="x", claim="c", cluster=spec), nodes)
    for target in ("broker-a-n1", "broker-a-n0", "broker-a-n1"):
        assert list(dry_run.check_action(Action("promote", (target,)))) == []
    (refused,) = dry_run.check_action(Action("demote", ("broker-a-n0",)))
    assert "`promote` another member" in refused


def test_a_role_that_names_two_slaves_of_a_group_is_not_promoted() -> None:
    spec = ClusterSpec(slaves=2)
    dry_run = DryRun(Scenario(name="x", claim="c", cluster=spec), nodes_of(spec, place(spec, Placement(subnet=9))))
    (refused, *_) = dry_run.check_action(Action("promote", ("broker-a:slave",)))
    assert refused == "broker-a-s and broker-a-s2 are slaves of broker-a: promote one of them"
