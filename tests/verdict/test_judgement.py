"""Conditions of a run, and what follows from all findings and gaps."""

from typing import Any

import pytest

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.conditions import Conditions, read_conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement, conclude
from rmqlab.verdict.rules import PROFILES, VERDICT_RULES
from rmqlab.verdict.verdict import Verdict

KNOWN = Conditions(role="ASYNC_MASTER", profile="4.9")


def event(kind: str, node: str = "", **fields: Any) -> JournalEntry:
    return JournalEntry(1, node, kind, fields)


STARTING = event("cluster_starting", rate=5.0, role="SYNC_MASTER", profile="hardened", seed="7", version="1.2")


def judged(conditions: Conditions, **values: float) -> Judgement:
    findings = [Finding(metric=name, unit="messages", value=value) for name, value in values.items()]
    return conclude(findings, METRICS, conditions)


def test_the_run_is_described_by_its_first_event() -> None:
    conditions = read_conditions([STARTING], None)
    assert conditions.as_json() == {
        "role": "SYNC_MASTER",
        "profile": "hardened",
        "rate": 5.0,
        "seed": "7",
        "version": "1.2",
    }


def test_a_run_without_role_and_profile_is_judged_by_all_of_them_and_says_so() -> None:
    judgement = judged(Conditions(), lost=0, offset_rollbacks=1)
    assert judgement.verdict is Verdict.HOLDS
    *warnings, remark = judgement.decision.warnings
    assert [line.partition(". ")[2] for line in warnings] == [
        row.because
        for profile in PROFILES
        for row in VERDICT_RULES
        if row.metric == "offset_rollbacks" and profile in row.profiles
    ]
    assert "judged by all roles and profiles, with the warnings of each" in remark
    assert judged(KNOWN, lost=0).decision.warnings == ()


@pytest.mark.parametrize(
    ("metric", "known", "old"),
    [
        ("unreplicated broker-a", Conditions(role="SYNC_MASTER", profile="4.9"), Conditions(profile="4.9")),
        (
            "own_offsets_overwritten broker-a-s",
            Conditions(role="ASYNC_MASTER", profile="hardened"),
            Conditions(role="ASYNC_MASTER"),
        ),
    ],
)
def test_a_violation_of_a_role_or_profile_that_is_not_recorded_is_unknown(
    metric: str, known: Conditions, old: Conditions
) -> None:
    assert judged(known, **{metric: 3}).verdict is Verdict.VIOLATED
    judgement = judged(old, **{metric: 3})
    assert judgement.verdict is Verdict.UNKNOWN
    assert "the journal does not name the run's role and profile: holds, but " in judgement.decision.why[0]
    assert judgement.decision.violating == ()
    assert judged(old, **{metric: 0}).verdict is Verdict.HOLDS
    assert judged(old, lost=1, **{metric: 3}).verdict is Verdict.VIOLATED


def test_what_only_a_synchronous_master_must_replicate_is_no_finding_without_a_role() -> None:
    finding = judged(Conditions(), **{"unreplicated broker-a": 3})["unreplicated broker-a"]
    assert finding.missing == "the journal does not name the run's role, and no slave's store has 3 messages"


def test_orderly_groups_are_those_whose_workload_says_so() -> None:
    ready = [event("node_ready", "c1", group="a", orderly=True), event("node_ready", "c2", group="b", orderly=False)]
    assert read_conditions(ready, None).orderly == {"a"}


@pytest.mark.parametrize(
    ("client_id", "outside"),
    [("127.0.0.1@77#123", ()), ("127.0.0.1@78#123", ("127.0.0.1@78#123 of group g",)), ("odd", ("odd of group g",))],
)
def test_a_producer_whose_id_names_no_process_of_the_cluster_is_outside(
    client_id: str, outside: tuple[str, ...]
) -> None:
    entries = [
        event("node_spawned", "produce-1", pid=77),
        event("producer_joined", "b", group="g", client_id=client_id),
    ]
    assert read_conditions(entries, None).outside_clients == outside


def test_a_producer_that_joined_several_brokers_is_named_once() -> None:
    joined = [event("producer_joined", node, group="g", client_id="10.0.0.9@7#1") for node in ("b", "b-s")]
    assert read_conditions(joined, None).outside_clients == ("10.0.0.9@7#1 of group g",)


def test_a_probe_that_was_stored_is_outside() -> None:
    entries = [event("probed", "broker-a", code=0), event("probed", "broker-b", code=1)]
    assert read_conditions(entries, None).outside_clients == ("the probe of broker-a",)


def test_killed_workloads_are_no_killed_nodes() -> None:
    entries = [event("node_ready", "broker-a", address="1:2"), event("node_killed", "broker-a")]
    assert read_conditions([*entries, event("node_crashed", "produce-1")], None).killed_workloads == ("produce-1",)


def test_messages_without_a_producer_make_the_verdict_unknown() -> None:
    judgement = judged(KNOWN, lost=0, sent=5, stored_unsent=3)
    assert judgement.verdict is Verdict.UNKNOWN
    (why,) = judgement.decision.why
    assert why.startswith("3 messages in the stores were sent by no process of the journal: a journal is missing")
    assert judgement["lost"].value is None
    assert (judgement["sent"].value, judgement["sent"].is_at_least) == (5, True)


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        (Conditions(role="ASYNC_MASTER", outside_clients=("x of group g",)), "of clients that keep no journal"),
        (Conditions(role="ASYNC_MASTER", killed_workloads=("produce-1",)), "produce-1 was killed"),
    ],
)
def test_messages_without_a_producer_that_the_journal_explains_cause_a_warning(
    conditions: Conditions, text: str
) -> None:
    judgement = judged(conditions, lost=0, stored_unsent=3)
    assert judgement.verdict is Verdict.HOLDS
    assert text in judgement.decision.warnings[0]
    assert judgement["lost"].value == 0


def test_a_scenario_is_shown_what_it_does_not_expect() -> None:
    judgement = judged(KNOWN, lost=2, offset_rollbacks=1)
    assert [line.partition(":")[0] for line in judgement.other_warnings([])] == ["lost", "offset_rollbacks"]
    assert [line.partition(":")[0] for line in judgement.other_warnings(["lost"])] == ["offset_rollbacks"]
    assert judgement.other_warnings(["lost", "offset_rollbacks"]) == ()


def test_the_summary_has_verdict_reasons_and_findings() -> None:
    document = judged(KNOWN, lost=2).summary()
    assert document["verdict"] == "violated"
    assert document["findings"]["lost"]["value"] == 2
    assert document["role"] == "ASYNC_MASTER"
