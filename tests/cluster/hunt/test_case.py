"""Cases of a hunt: drawn from seeds, and written as scenario files."""

import tomllib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.hunt.case import FIRST_MOVE, Case, draw_case, is_possible, scenario_of
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.moves import KINDS, Move
from rmqlab.cluster.hunt.tomlfile import scenario_text
from rmqlab.cluster.hunt.trial import bind_case, claims_for
from rmqlab.cluster.scenario.binding import bind_scenario
from rmqlab.cluster.scenario.review import review

seeds = st.integers(0, 2**32)


def scenario_values(case: Case) -> dict[str, object]:
    expectations = [claim.expectation_for(case) for claim in claims_for(case, CLAIMS)]
    return scenario_of(case, expectations, name="drawn", claim="a claim")


@given(seeds)
def test_a_drawn_case_can_be_played(seed: int) -> None:
    case = draw_case(seed, "4.9", KINDS)

    assert case.moves
    assert is_possible(case.moves)
    review(bind_case(case, claims_for(case, CLAIMS)), is_single=False)


@given(seeds)
def test_a_seed_draws_the_same_case_again(seed: int) -> None:
    assert draw_case(seed, "4.9", KINDS) == draw_case(seed, "4.9", [*reversed(list(KINDS))])


@given(seeds)
def test_a_case_is_the_same_as_a_file(seed: int) -> None:
    values = scenario_values(draw_case(seed, "hardened", KINDS))
    text = scenario_text(values, ("drawn", "by a test"))

    assert tomllib.loads(text) == values
    assert bind_scenario(tomllib.loads(text)) == bind_scenario(values)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_moves_can_be_played(kind: str) -> None:
    for target in KINDS[kind].targets:
        case = Case(seed=1, moves=(Move(kind, target, FIRST_MOVE, 5.0),))
        review(bind_case(case, claims_for(case, CLAIMS)), is_single=False)


def test_a_target_has_one_move_at_a_time() -> None:
    kill, pause = Move("kill", "broker-a", 20, 10), Move("pause", "broker-a", 25, 1)

    assert is_possible([kill, attrs.evolve(pause, target="broker-a-s")])
    assert not is_possible([kill, pause])
    assert is_possible([kill, attrs.evolve(pause, at=33)])


def test_a_link_has_one_move_at_a_time_beside_those_of_its_brokers() -> None:
    cut, slow = Move("replication-cut", "broker-a", 20, 10), Move("one-way", "broker-a-s", 25, 1)

    assert is_possible([cut, Move("kill", "broker-a-s", 25, 1)])
    assert not is_possible([cut, slow])


def test_only_one_disk_loses_something() -> None:
    moves = [Move("wipe", "broker-a-s", 20, 1), Move("power-loss", "broker-a", 60, 1)]

    assert not is_possible(moves)


def test_a_claim_that_asynchronous_flushes_do_not_make_is_not_judged() -> None:
    lossy = Case(seed=1, flush="ASYNC_FLUSH", moves=(Move("power-loss", "broker-a", 20, 1),))

    assert "nothing-lost" not in [claim.name for claim in claims_for(lossy, CLAIMS)]
    assert "nothing-lost" in [claim.name for claim in claims_for(attrs.evolve(lossy, flush="SYNC_FLUSH"), CLAIMS)]


@pytest.mark.parametrize(
    ("kind", "target", "is_promised"),
    [
        ("kill", "broker-a-s", True),
        ("slow-link", "broker-a", True),
        ("pause", "broker-a-s", False),
        ("one-way", "broker-a-s", False),
        ("kill", "broker-a", False),
    ],
)
def test_sends_are_expected_to_be_quick_where_the_master_knows(kind: str, target: str, is_promised: bool) -> None:  # noqa: FBT001
    moves = (Move("consumer", "shop", 20, 1.0), Move(kind, target, 30, 1.0))

    expectation = CLAIMS["quick-sends"].expectation_for(Case(seed=1, moves=moves))
    assert expectation.get("before") == (None if is_promised else f"2: {kind}")


def test_a_slave_is_expected_to_notice_a_silent_master_only_after_a_while() -> None:
    long = Case(seed=1, moves=(Move("isolate", "broker-a", 20, 50),))
    short = Case(seed=1, moves=(Move("isolate", "broker-a", 20, 30),))

    assert [claim.name for claim in claims_for(long, ["slave-notices"])] == ["slave-notices"]
    assert claims_for(short, ["slave-notices"]) == []
