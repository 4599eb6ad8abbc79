"""Reducing what breaks a claim, without a cluster."""

from collections.abc import Callable, Iterator, Sequence

import attrs
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.hunt.case import FIRST_FAULT, Case, draw_case
from rmqlab.cluster.hunt.faults import KINDS, Fault
from rmqlab.cluster.hunt.possible import is_possible
from rmqlab.cluster.hunt.shrink import fixing_switches, shrink


def breaking(is_broken: Callable[[Case], bool]) -> Callable[[Sequence[Case]], Iterator[bool]]:
    return lambda cases: map(is_broken, cases)


def test_irrelevant_parts_of_a_case_are_removed() -> None:
    case = Case(
        seed=1,
        faults=(
            Fault("restart", "broker-a", 22.3, 0.0),
            Fault("pause", "namesrv-1", 25.7, 3.0),
            Fault("kill", "broker-a-s", 31.4, 17.5),
            Fault("consumer", "shop", 44.2, 8.0),
            Fault("kill", "broker-a", 70.0, 5.5),
        ),
    )

    smallest = shrink(case, breaking(lambda one: one.touches("broker-a-s")))

    assert smallest.faults == (Fault("kill", "broker-a-s", FIRST_FAULT, 1.0),)


def test_two_faults_that_need_each_other_stay() -> None:
    case = Case(seed=1, faults=(Fault("kill", "broker-a-s", 30.0, 9.0), Fault("kill", "broker-a", 50.0, 33.0)))

    def is_broken(one: Case) -> bool:
        return one.touches("broker-a") and one.touches("broker-a-s") and one.faults[-1].seconds >= 8

    smallest = shrink(case, breaking(is_broken))

    assert [(fault.target, fault.at, fault.seconds) for fault in smallest.faults] == [
        ("broker-a-s", 20.0, 1.0),
        ("broker-a", 40.0, 8.0),
    ]


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_the_smallest_case_is_possible_and_breaks_the_claim(seed: int, least: int) -> None:
    drawn = draw_case(seed, "4.9", KINDS)

    def is_broken(one: Case) -> bool:
        return len(one.faults) >= min(least, len(drawn.faults))

    smallest = shrink(drawn, breaking(is_broken))

    assert is_possible(smallest.faults)
    assert len(smallest.faults) == min(least, len(drawn.faults))


def test_switches_that_mend_are_found_one_by_one() -> None:
    case = Case(seed=1, faults=(Fault("kill", "broker-a-s", 20.0, 1.0),))

    fixes = fixing_switches(case, case, ["one", "two", "three"], breaking(lambda one: one.switches == ("two",)))

    assert fixes == ["one", "three"]
    assert case == attrs.evolve(case, switches=())


def test_a_switch_that_mends_similar_cases_is_first() -> None:
    case = Case(seed=1, faults=(Fault("kill", "broker-a-s", 20.0, 1.0),))
    drawn = attrs.evolve(case, faults=(Fault("kill", "broker-a-s", 25.0, 30.0),))

    def is_broken(one: Case) -> bool:
        return one.switches == () or (
            one.switches == ("by chance",) and one != attrs.evolve(case, switches=one.switches)
        )

    assert fixing_switches(case, drawn, ["by chance", "cause"], breaking(is_broken)) == ["cause", "by chance"]


def test_a_case_that_need_not_be_cut_is_undone() -> None:
    faults = (Fault("kill", "broker-a", 31.4, 20.0),)
    case = Case(seed=1, faults=faults, cut_at=40.2, work=1.0)

    whole = shrink(case, breaking(lambda case: case.uses("kill")))
    assert (whole.cut_at, whole.work) == (None, 0.0)
    cut = shrink(case, breaking(lambda case: case.cut_at is not None and case.in_force_at_end() != []))
    assert (cut.faults[0].at, cut.cut_at) == (FIRST_FAULT, 29.0)


def test_no_case_is_played_twice_or_after_the_first_failure() -> None:
    asked: list[Case] = []

    def is_broken(one: Case) -> bool:
        asked.append(one)
        return one.touches("broker-a-s")

    case = Case(seed=1, faults=(Fault("kill", "broker-a-s", 20.0, 1.0), Fault("kill", "broker-a", 40.0, 1.0)))
    smallest = shrink(case, breaking(is_broken))

    assert smallest.faults == case.faults[:1]
    assert len(asked) == len(set(asked)) == 2


def test_switches_of_a_case_stay_on() -> None:
    case = Case(seed=1, switches=("a",))

    assert fixing_switches(case, case, ["a", "b", "c"], breaking(lambda case: case.switches != ("a", "c"))) == ["c"]
