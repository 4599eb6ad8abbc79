"""The table of verdicts: violations, warnings, and missing evidence."""

import pytest

from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.decision import agreed, decide
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.rules import ASYNC_MASTER, SYNC_MASTER, VERDICT_RULES, Effect
from rmqlab.verdict.verdict import Verdict


def of(metric: str, value: float | None, *, is_at_least: bool = False) -> Finding:
    missing = "why" if value is None else ""
    return Finding(metric=metric, unit="messages", value=value, is_at_least=is_at_least, missing=missing)


def test_rows_name_metrics_that_exist_and_no_case_twice() -> None:
    assert {row.metric for row in VERDICT_RULES} <= {metric.name for metric in METRICS}
    cases = [
        (row.metric, role, profile, row.groups)
        for row in VERDICT_RULES
        for role in row.roles
        for profile in row.profiles
    ]
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize(
    ("finding", "verdict", "warned"),
    [
        (of("lost", 0), Verdict.HOLDS, 0),
        (of("lost", 1), Verdict.VIOLATED, 0),
        (of("lost", None), Verdict.UNKNOWN, 0),
        (of("lost", 0, is_at_least=True), Verdict.UNKNOWN, 0),
        (of("divergence broker-a-s", 7), Verdict.VIOLATED, 0),
        (of("order.stored", 1), Verdict.VIOLATED, 0),
        (of("order.stored", None), Verdict.HOLDS, 0),
        (of("order.delivered shop", 1), Verdict.HOLDS, 1),
        (of("order.delivered orderly", 1), Verdict.VIOLATED, 0),
        (of("offset_rollbacks", 1), Verdict.HOLDS, 1),
        (of("stored_twice", 1), Verdict.HOLDS, 1),
        (of("unreplicated broker-a", 1), Verdict.HOLDS, 0),
        (of("lost.SEND_OK", 1), Verdict.HOLDS, 0),
    ],
)
def test_a_finding_alone(finding: Finding, verdict: Verdict, warned: int) -> None:
    decision = decide([finding], orderly={"orderly"})
    assert (decision.verdict, len(decision.warnings)) == (verdict, warned)
    assert decision.violating == ((finding.metric,) if verdict is Verdict.VIOLATED else ())
    assert all(finding.metric in line for line in (*decision.why, *decision.warnings) if verdict is not Verdict.HOLDS)


def test_rows_apply_by_role_and_profile() -> None:
    assert decide([of("unreplicated broker-a", 1)], role=SYNC_MASTER).verdict is Verdict.VIOLATED
    assert decide([of("unreplicated broker-a", None)], role=SYNC_MASTER).verdict is Verdict.UNKNOWN
    (warning,) = decide([of("offset_rollbacks shop", 1)], profile="hardened").warnings
    assert "arrives late" in warning


def test_a_proven_violation_outweighs_missing_evidence_which_is_warned_of() -> None:
    decision = decide([of("lost", 2, is_at_least=True)], gaps=["a journal is cut"])
    assert decision.verdict is Verdict.VIOLATED
    assert decision.why == ("lost: at least 2 messages. An acknowledged message must be in some store.",)
    assert decision.warnings == ("a journal is cut",)


def test_a_verdict_that_all_roles_have_in_common_has_the_reasons_of_each() -> None:
    findings = [of("lost", 1), of("unreplicated broker-a", 1)]
    decision = agreed({(role, "4.9"): decide(findings, role=role) for role in (ASYNC_MASTER, SYNC_MASTER)})
    assert decision.verdict is Verdict.VIOLATED
    assert decision.violating == ("lost", "unreplicated broker-a")
    assert [why.partition(":")[0] for why in decision.why] == ["lost", "unreplicated broker-a"]


def test_a_gap_is_said_once() -> None:
    unknown = Finding(metric="lost", unit="messages", value=None, missing="a journal is cut")
    decision = decide([unknown], gaps=["a journal is cut"])
    assert (decision.verdict, decision.why) == (Verdict.UNKNOWN, ("a journal is cut",))


@pytest.mark.parametrize("expected", ["lost", "lost.SEND_OK"])
def test_a_row_gives_way_to_an_expectation_on_its_metric_or_a_class_of_it(expected: str) -> None:
    findings = [of("lost", 1), of("divergence broker-a-s", 0)]
    assert decide(findings, expected=[expected]).verdict is Verdict.HOLDS
    assert decide(findings, expected=["divergence broker-a-s"]).verdict is Verdict.VIOLATED


def test_every_row_that_violates_does_so_somewhere() -> None:
    for row in VERDICT_RULES:
        decision = decide(
            [of(f"{row.metric} target", 1)],
            role=row.roles[0],
            profile=row.profiles[0],
            orderly={"target"} if row.groups == "orderly" else (),
        )
        assert (decision.verdict is Verdict.VIOLATED) is (row.effect is Effect.VIOLATES)
        assert bool(decision.warnings) is (row.effect is Effect.WARNS)


def test_a_total_is_no_second_warning_beside_its_groups() -> None:
    groups = [of("offset_rollbacks late", 2), of("offset_rollbacks shop", 3)]
    assert len(decide([of("offset_rollbacks", 5), *groups]).warnings) == 2
    assert len(decide([of("offset_rollbacks", 6), *groups]).warnings) == 3, "one is of a group that is not judged"


def test_a_large_number_is_written_in_full() -> None:
    (why,) = decide([of("lost", 1_234_567)]).why
    assert why.startswith("lost: 1234567 messages. ")


def test_reasons_have_the_order_of_the_table_in_both_judges() -> None:
    findings = [of("divergence broker-a-s", 7), of("content_disagreement", 1), of("lost", 1)]
    reasons = decide(findings).why
    assert reasons == decide(findings[::-1]).why
    assert [reason.partition(":")[0] for reason in reasons] == ["lost", "divergence broker-a-s", "content_disagreement"]
