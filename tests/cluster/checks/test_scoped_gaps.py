"""A gap at one group of brokers says nothing about messages of another one."""

import attrs
import pytest

from rmqlab.cluster.checks import judge
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.verdict.conditions import read_conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.logcover import weaken_by_stores
from rmqlab.verdict.metrics import Source
from tests.cluster.checks.twogroups import OF_BROKERS, PLANTED, two_groups

OF_A = Gap(process="broker-a-s", sources=frozenset({Source.BROKERS}), text="cut", brokers=frozenset({"broker-a"}))


def with_gap(run: MadeUpRun, gap: Gap) -> Judgement:
    return judge(run.history(), run.stores(), attrs.evolve(read_conditions(run.entries, None), gaps=(gap,)))


def test_everything_is_found_without_a_gap() -> None:
    judged = two_groups(["broker-b"]).judge()
    assert {metric: judged[metric].value for metric in PLANTED} == PLANTED


@pytest.mark.parametrize("metric", PLANTED)
def test_a_gap_of_another_group_excuses_nothing(metric: str) -> None:
    assert with_gap(two_groups(["broker-b"]), OF_A)[metric].value == PLANTED[metric]


@pytest.mark.parametrize("metric", OF_BROKERS)
def test_a_gap_of_the_group_may_explain_its_violations(metric: str) -> None:
    gap = attrs.evolve(OF_A, process="broker-b", brokers=frozenset({"broker-b"}), may_exceed=True)
    finding = with_gap(two_groups(["broker-b"]), gap)[metric]
    assert finding.value is None
    assert "cut" in finding.missing


@pytest.mark.parametrize("metric", OF_BROKERS)
def test_of_two_violated_groups_the_one_without_a_gap_is_counted(metric: str) -> None:
    whole = two_groups(["broker-b"]).judge()[metric]
    finding = with_gap(two_groups(["broker-a", "broker-b"]), attrs.evolve(OF_A, may_exceed=True))[metric]
    assert (finding.value, finding.is_at_least) == (PLANTED[metric], True)
    assert len(finding.message_ids) == len(whole.message_ids)
    assert all(number.startswith("ID002") for number in finding.message_ids)
    assert len(finding.evidence) == len(whole.evidence)


def test_a_gap_of_a_nameless_process_concerns_all() -> None:
    nameless = attrs.evolve(OF_A, brokers=frozenset())
    assert with_gap(two_groups(["broker-b"]), nameless)["order.stored"].value is None


def test_messages_of_a_store_that_was_read_are_lost_whatever_another_one_has() -> None:
    run = two_groups(["broker-a", "broker-b"])
    run.unread.update(("broker-a", "broker-a-s"))
    lost = run.judge()["lost"]
    assert (lost.value, lost.is_at_least, lost.message_ids) == (2, True, ("ID002000", "ID002001"))
    run.unread.update(("broker-b", "broker-b-s"))
    assert run.judge()["lost"].value is None


def test_files_of_another_run_in_one_store_do_not_hide_what_another_one_shows() -> None:
    run = two_groups(["broker-a", "broker-b"])
    stores = attrs.evolve(run.stores(), incomplete={"broker-a": "foreign"}, misplaced=frozenset({"broker-a"}))
    judged = judge(run.history(), stores, read_conditions(run.entries, None))
    assert {metric: judged[metric].value for metric in ("stored_twice", "order.stored")} == {
        "stored_twice": PLANTED["stored_twice"],
        "order.stored": PLANTED["order.stored"],
    }
    assert judged["stored_unsent"].value is None


def test_tables_and_headers_beside_files_of_another_run_prove_nothing() -> None:
    run = two_groups(["broker-a", "broker-b"])
    metrics = ("header_disagreement", "delivered_early", "store_time_disagreement", "offset_file_behind broker-a")
    findings = [Finding(metric=metric, unit="messages", value=3) for metric in metrics]
    names = read_conditions(run.entries, None).broker_names
    foreign = [*weaken_by_stores(findings, {"broker-a": "foreign"}, {"broker-a"}, names)]
    assert [(one.value, one.missing) for one in foreign] == [(None, "broker-a: foreign")] * 3 + [(None, "foreign")]
    assert [one.value for one in weaken_by_stores(findings, {"broker-a": "cut"}, (), names)] == [3] * 4
