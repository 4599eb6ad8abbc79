"""Actions of scenario steps on a recording cluster, and the end of a scenario."""

from typing import TYPE_CHECKING, Any, cast

import attrs
import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.scenario.actions import VERBS, StepContext
from rmqlab.cluster.scenario.load import parse_scenario
from rmqlab.cluster.scenario.player import heal_and_resume_all
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.faults import fault_of

if TYPE_CHECKING:
    from rmqlab.cluster.lab import Cluster

SCENARIO = parse_scenario('name = "some"\nclaim = "faults are healed"\n[[step]]\nmark = "done"\n')
ISOLATION = fault_of({"type": "isolate", "target": "broker-a"})


@attrs.frozen
class Process:
    """The state of one process."""

    state: NodeState


@attrs.define(eq=False)
class RecordingCluster:
    """Replaces a cluster, its supervisor and its table of processes."""

    states: dict[str, Process] = attrs.field(factory=dict)
    calls: list[str] = attrs.field(factory=list)
    in_force: list[ActiveFault] = attrs.field(factory=list)

    @property
    def supervisor(self) -> "RecordingCluster":
        return self

    @property
    def processes(self) -> "RecordingCluster":
        return self

    @property
    def faults(self) -> list[ActiveFault]:
        return self.in_force

    async def act(self, action: NodeAction[Any], target: str) -> ActiveFault | None:
        self.calls.append(f"{action.name} {target}")
        return ActiveFault("f1", ISOLATION, 0, {}) if action.name == "isolate" else None

    async def heal(self, fault: ActiveFault) -> None:
        self.calls.append(f"heal {fault.id}")

    async def heal_all(self) -> None:
        self.calls.append("heal all")

    async def resume(self, name: str) -> None:
        self.calls.append(f"resume {name}")


async def done(verb: str, *targets: str) -> tuple[list[str], list[str]]:
    """Return the calls of an action, and the labels under which it left faults."""
    cluster = RecordingCluster()
    async with trio.open_nursery() as nursery:
        context = StepContext(cast("Cluster", cluster), SCENARIO, nursery, lambda _: None)
        await VERBS[verb].run(context, targets, "label")
    return cluster.calls, [*context.faults]


async def test_the_nodes_of_one_isolation_are_isolated_together() -> None:
    assert await done("isolate", "broker-a", "broker-a-s") == (["isolate broker-a,broker-a-s"], ["label"])


async def test_other_actions_are_done_in_the_order_of_their_targets() -> None:
    assert await done("kill", "broker-a-s", "broker-a") == (["kill broker-a-s", "kill broker-a"], [])


async def healed(label: str, *spent: str) -> tuple[list[str], list[str]]:
    """Heal a label while two faults are in force under `cut` and one under `slow`.

    Those that are `spent` have ended. Returns the calls to the cluster, and the labels under which faults are left.
    """
    cluster = RecordingCluster()
    async with trio.open_nursery() as nursery:
        context = StepContext(cast("Cluster", cluster), SCENARIO, nursery, lambda _: None)
        for number, name in enumerate(["cut", "cut", "slow"], 1):
            fault = ActiveFault(f"f{number}", ISOLATION, 0, {})
            context.faults.setdefault(name, []).append(fault)
            cluster.in_force += [fault] if fault.id not in spent else []
        await VERBS["heal"].run(context, label, "")
    return cluster.calls, [*context.faults]


async def test_heal_with_a_label_heals_every_fault_of_that_step() -> None:
    assert await healed("cut") == (["heal f1", "heal f2"], ["slow"])
    assert await healed("slow") == (["heal f3"], ["cut"])


async def test_heal_leaves_out_faults_that_have_ended_by_themselves() -> None:
    assert await healed("cut", "f1") == (["heal f2"], ["slow"])
    assert await healed("cut", "f1", "f2") == ([], ["slow"])


async def test_heal_all_heals_the_whole_cluster() -> None:
    assert await healed("all") == (["heal all"], [])


async def test_a_scenario_ends_with_all_faults_healed_and_paused_nodes_resumed() -> None:
    states = {"broker-a": NodeState.PAUSED, "broker-b": NodeState.READY, "nameserver-1": NodeState.PAUSED}
    cluster = RecordingCluster({name: Process(state) for name, state in states.items()})
    await heal_and_resume_all(cast("Cluster", cluster))
    assert cluster.calls == ["heal all", "resume broker-a", "resume nameserver-1"]
