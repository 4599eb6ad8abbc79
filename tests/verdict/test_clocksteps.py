"""Steps of one clock, found in one journal."""

from rmqlab.verdict.clocksteps import TOLERANCE, with_clock_steps
from rmqlab.verdict.findings import Finding


def disagreement(node: str, seconds: float | None) -> Finding:
    return Finding(metric=f"clock_disagreement {node}", unit="s", value=seconds)


def values(*findings: Finding, **went_back: int) -> dict[str, float | None]:
    return {one.metric: one.value for one in with_clock_steps(findings, went_back)}


def test_a_step_becomes_the_disagreement_of_its_node() -> None:
    found = values(disagreement("a", 0.0), disagreement("b", 0.0), a=20_000)
    assert found == {"clock_disagreement a": 20.0, "clock_disagreement b": 0.0}


def test_a_node_that_could_not_be_compared_has_a_finding_all_the_same() -> None:
    assert values(disagreement("a", None), a=20_000, b=3_000) == {
        "clock_disagreement a": 20.0,
        "clock_disagreement b": 3.0,
    }


def test_a_larger_difference_to_others_remains() -> None:
    assert values(disagreement("a", 60.0), a=20_000) == {"clock_disagreement a": 60.0}


def test_small_clock_steps_count_as_zero() -> None:
    assert values(disagreement("a", 0.0), a=TOLERANCE, b=TOLERANCE) == {"clock_disagreement a": 0.0}
