"""Random faults from a seed."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from rmqlab.cluster.faults.schedule import UNDOS, PlannedAction, RandomFaults, describe_random, plan_actions
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, UnknownTargetError, nodes_of, place
from rmqlab.faults import FaultError

SPEC = ClusterSpec(groups=3, slaves=1)
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=9)))
MASTERS = ["broker-a", "broker-b", "broker-c"]


def test_the_same_seed_does_the_same_and_another_does_not() -> None:
    def first(seed: int) -> list[PlannedAction]:
        return list(itertools.islice(plan_actions(RandomFaults(seed=seed), MASTERS), 40))

    assert first(7) == first(7)
    assert first(7) != first(8)


def test_each_strike_is_undone_by_what_undoes_it() -> None:
    done = list(plan_actions(RandomFaults(every=30, heal_after=20, count=50), MASTERS))
    assert len(done) == 100
    for struck, undone in zip(done[::2], done[1::2], strict=True):
        assert not struck.undoes
        assert undone == PlannedAction(struck.at + 20, UNDOS[struck.action], struck.target, undoes=True)
    assert {strike.action for strike in done} == {"kill", "pause", "isolate", "start", "resume", "heal"}
    assert {strike.target for strike in done} == set(MASTERS)


@hypothesis.given(
    every=st.floats(0.1, 50), heal_after=st.floats(0.1, 200), seed=st.integers(), targets=st.integers(1, 4)
)
def test_time_never_goes_back_and_no_target_gets_two_faults_at_once(
    every: float, heal_after: float, seed: int, targets: int
) -> None:
    faults = RandomFaults(every=every, heal_after=heal_after, seed=seed, count=30)
    struck, now = set[str](), 0.0
    for strike in plan_actions(faults, [f"node-{number}" for number in range(targets)]):
        assert strike.at >= now
        now = strike.at
        assert (strike.target in struck) is strike.undoes
        struck ^= {strike.target}
    assert not struck


@hypothesis.given(every=st.floats(0.1, 50), heal_after=st.floats(0.1, 200), count=st.integers(1, 9))
def test_its_last_moment_is_known_before(every: float, heal_after: float, count: int) -> None:
    faults = RandomFaults(every=every, heal_after=heal_after, count=count, seed=3)
    assert max(strike.at for strike in plan_actions(faults, MASTERS)) <= faults.seconds


def test_a_schedule_and_its_actions_are_described_in_words() -> None:
    faults = RandomFaults(of=("power-loss",), on="broker-a", count=1, seed=9)
    assert describe_random(faults) == "1 of power-loss on broker-a, one every 30 s, for 20 s each, seed 9"
    assert [str(strike) for strike in plan_actions(faults, ["broker-a"])] == [
        "30 s power-loss broker-a",
        "50 s start broker-a",
    ]


def test_where_it_may_strike() -> None:
    assert RandomFaults().targets(NODES) == MASTERS
    assert RandomFaults(on="slaves").targets(NODES) == ["broker-a-s", "broker-b-s", "broker-c-s"]
    assert RandomFaults(on="nameservers").targets(NODES) == ["namesrv-1"]
    assert RandomFaults(on="broker-b:slave").targets(NODES) == ["broker-b-s"]
    with pytest.raises(UnknownTargetError, match=r"did you mean masters\?"):
        RandomFaults(on="master").targets(NODES)
    alone = nodes_of(ClusterSpec(slaves=0), place(ClusterSpec(slaves=0), Placement(subnet=9)))
    with pytest.raises(FaultError, match="no slaves"):
        RandomFaults(on="slaves").targets(alone)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"of": ["kil"]}, "no action 'kil'.*did you mean kill?"),
        ({"of": []}, "no action: expected some of kill"),
        ({"every": 0.0}, "every = 0: expected more than 0"),
    ],
)
def test_invalid_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        RandomFaults(**values)  # type: ignore[arg-type]
