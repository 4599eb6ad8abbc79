"""Route beliefs against the truth: planted ones are measured, spans are compared.

The comparison counts instant by instant.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.beliefs import Span, merged, overlap, without
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun

TWO = ("namesrv-1", "namesrv-2", "broker-a", "broker-a-s")


def test_a_clean_run_believes_the_truth() -> None:
    run = MadeUpRun(nodes=TWO)
    run.wait(60)
    run.send(1)
    findings = run.judge()
    for nameserver in ("namesrv-1", "namesrv-2"):
        assert findings[f"stale_route {nameserver}"].value == 0
        assert findings[f"missing_route {nameserver}"].value == 0
    assert findings["route_disagreement"].value == pytest.approx(0.01)  # one registers before the other


def test_a_dead_broker_that_is_still_named_makes_a_stale_route() -> None:
    run = MadeUpRun()
    killed = run.end("broker-a")
    run.wait(4)
    dropped = run.drop("namesrv-1", "broker-a")
    finding = run.judge()["stale_route namesrv-1"]
    assert finding.value == (dropped - killed) / 1000
    assert finding.evidence[0].text.startswith("namesrv-1 named broker-a, which was away, for 4.0")


def test_a_broker_that_has_registered_and_is_not_ready_yet_makes_no_stale_route() -> None:
    run = MadeUpRun()
    killed = run.end("broker-a")
    dropped = run.drop("namesrv-1", "broker-a")
    run.wait(1)
    run.add("namesrv-1", "broker_registered", **run._named("broker-a"))
    run.wait(60)
    run.add("broker-a", "node_ready", address=ADDRESSES["broker-a"], broker_name="broker-a", broker_id=0)
    assert run.judge()["stale_route namesrv-1"].value == (dropped - killed) / 1000


def test_a_broker_that_crashes_before_it_is_ready_leaves_a_stale_route() -> None:
    run = MadeUpRun()
    run.end("broker-a")
    run.drop("namesrv-1", "broker-a")
    run.add("namesrv-1", "broker_registered", **run._named("broker-a"))
    crashed = run.add("broker-a", "node_crashed").at_millis
    run.wait(60)
    dropped = run.drop("namesrv-1", "broker-a")
    assert run.judge()["stale_route namesrv-1"].value == (dropped - crashed) / 1000


def test_an_undetected_freeze_counts_for_its_own_duration() -> None:
    run = MadeUpRun()
    paused = run.end("broker-a", "pause", "node_paused")
    run.wait(30)
    resumed = run.add("broker-a", "node_resumed").at_millis
    findings = run.judge()
    assert findings["stale_route namesrv-1"].value == (resumed - paused) / 1000
    assert findings["detection namesrv-1"].value is None


@pytest.mark.parametrize("target", ["broker-a", "broker-a:master"])
def test_an_isolated_broker_is_away_until_the_fault_is_healed(target: str) -> None:
    run = MadeUpRun()
    applied = run.add("", "fault_applied", id="f1", fault="isolate", target=target).at_millis
    run.wait(30)
    healed = run.add("", "fault_healed", id="f1", fault="isolate", target=target).at_millis
    assert run.judge()["stale_route namesrv-1"].value == (healed - applied) / 1000


def test_a_client_that_names_a_dead_broker_has_a_stale_route() -> None:
    run = MadeUpRun()
    both = {"0": ADDRESSES["broker-a"], "1": ADDRESSES["broker-a-s"]}
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": both})
    killed = run.end("broker-a")
    run.wait(29)
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": {"1": ADDRESSES["broker-a-s"]}})
    finding = run.judge()["stale_route produce-1"]
    assert finding.value == (run.now - killed) / 1000
    assert not finding.is_at_least


def test_a_lie_that_the_run_ends_in_is_at_least_so_long() -> None:
    run = MadeUpRun()
    killed = run.end("broker-a")
    run.wait(7)
    run.send(1)
    finding = run.judge()["stale_route namesrv-1"]
    assert finding.is_at_least
    assert finding.value == (run.now - killed) / 1000


def test_a_ready_broker_that_is_not_named_is_missing() -> None:
    run = MadeUpRun()
    dropped = run.drop("namesrv-1", "broker-a", "broker_expired")
    run.wait(12)
    run.ready("broker-a")
    finding = run.judge()["missing_route namesrv-1"]
    assert finding.value == pytest.approx((run.now - 10 - dropped) / 1000)


def test_two_nameservers_with_different_views_disagree() -> None:
    run = MadeUpRun(nodes=TWO)
    dropped = run.drop("namesrv-1", "broker-a")
    run.wait(9)
    agreed = run.drop("namesrv-2", "broker-a")
    finding = run.judge()["route_disagreement"]
    assert finding.value == (agreed - dropped) / 1000
    assert "namesrv-2 named 127.77.1.20:10911, and namesrv-1 did not" in finding.evidence[0].text


def test_a_stopped_nameserver_has_no_stale_routes() -> None:
    run = MadeUpRun(nodes=TWO)
    run.end("namesrv-2")
    run.end("broker-a")
    run.wait(50)
    run.drop("namesrv-1", "broker-a")
    run.wait(50)
    findings = run.judge()
    assert findings["stale_route namesrv-2"].value == 0
    assert findings["missing_route namesrv-2"].value == 0
    assert findings["route_disagreement"].value == pytest.approx(0.01)


def test_one_nameserver_alone_cannot_disagree() -> None:
    assert MadeUpRun().judge()["route_disagreement"].missing == "needs two nameservers; there is 1"


END = 30
spans = st.builds(
    lambda at, length: Span(at, None if at + length > END else at + length), st.integers(0, END), st.integers(1, END)
)


def instants(*known: Span) -> set[int]:
    return {
        now
        for now in range(END + 10)
        if any(span.at <= now and (span.until is None or now < span.until) for span in known)
    }


@given(st.lists(spans, max_size=6))
def test_merged_spans_cover_the_same_instants_and_are_disjoint(known: list[Span]) -> None:
    whole = merged(known)
    assert instants(*whole) == instants(*known)
    for one, other in itertools.pairwise(whole):
        assert one.until is not None
        assert one.until < other.at


@given(spans, spans)
def test_overlaps_are_those_of_counting_instants(one: Span, other: Span) -> None:
    shared = overlap(one, other)
    assert instants(*([shared] if shared else [])) == instants(one) & instants(other)


@given(spans, st.lists(spans, max_size=5))
def test_remaining_spans_are_those_of_counting_instants(span: Span, taken: list[Span]) -> None:
    assert instants(*without(span, taken)) == instants(span) - instants(*taken)
