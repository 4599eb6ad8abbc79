"""Messages in no store, some of which a broker without its stores may have."""

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun


def run_of_two_brokers() -> MadeUpRun:
    """Return a run in which the stores of the second broker name were not given."""
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.unread = {"broker-b"}
    return run


def test_a_message_is_not_lost_while_the_broker_of_a_failed_attempt_may_have_it() -> None:
    run = run_of_two_brokers()
    run.fail(1, broker="broker-b")
    run.send(1, at=())
    finding = run.judge()["lost"]
    assert (finding.value, finding.missing) == (
        None,
        "broker-b: its store was not given; in none of the others: 1",
    )


def test_a_refused_attempt_stored_nothing() -> None:
    run = run_of_two_brokers()
    run.fail(1, broker="broker-b", outcome="refused")
    run.send(1, at=())
    assert run.judge()["lost"].message_ids == ("ID000001",)


@pytest.mark.parametrize("times", [0, 1])
def test_a_message_is_not_lost_while_the_broker_of_a_delivery_may_have_it(times: int) -> None:
    run = run_of_two_brokers()
    run.send(1, at=())
    run.deliver(1, 0, broker="broker-b", times=times)
    findings = run.judge()
    assert (findings["lost"].value, findings["delivered_unstored"].value) == (None, None)


def test_a_message_is_not_lost_while_the_broker_of_an_earlier_acknowledgement_may_have_it() -> None:
    run = run_of_two_brokers()
    run.send(1, broker="broker-b", at=())
    run.send(1, at=())
    assert run.judge()["lost"].value is None


def test_messages_of_read_brokers_are_lost_beside_one_that_another_may_have() -> None:
    run = run_of_two_brokers()
    run.fail(1, broker="broker-b")
    run.send(1, at=())
    run.send(2, at=())
    finding = run.judge()["lost"]
    assert (finding.value, finding.is_at_least, finding.message_ids) == (1, True, ("ID000002",))


def test_any_broker_may_have_a_message_that_an_unknown_one_acknowledged() -> None:
    run = run_of_two_brokers()
    run.send(1, at=())
    run.change_last(broker=None)
    finding = run.judge()["lost"]
    assert (finding.value, finding.missing[:8]) == (None, "broker-b")


def test_reasons_name_each_store_once_and_in_order() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b", "broker-b-s"))
    run.unread = {"broker-b-s", "broker-b"}
    run.fail(1, broker="broker-b")
    run.send(1, at=())
    run.send(2, broker="broker-b", at=())
    reasons = run.judge()["lost"].missing.split("; ")
    assert [reason.partition(":")[0] for reason in reasons] == ["broker-b", "broker-b-s", "in none of the others"]
