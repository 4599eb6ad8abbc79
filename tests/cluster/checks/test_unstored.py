"""Messages that were delivered and are in no store."""

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun

METRIC = "delivered_unstored"


def test_a_message_that_no_store_has_is_named_once() -> None:
    run = MadeUpRun()
    run.send(1)
    run.deliver(1, 0)
    assert run.judge()[METRIC].value == 0
    run.deliver(9, 1)
    run.deliver(9, 1)
    finding = run.judge()[METRIC]
    assert (finding.value, finding.message_ids) == (1, ("ID000009",))


def test_a_message_that_was_deleted_for_its_age_is_not_missed() -> None:
    run = MadeUpRun()
    for number in range(3):
        run.send(number)
        run.deliver(number, number)
    del run.logs["broker-a"][:2], run.logs["broker-a-s"][:2]
    assert run.judge()[METRIC].value == 2
    run.add("broker-a", "file_deleted")
    assert run.judge()[METRIC].value == 0


@pytest.mark.parametrize(("fault", "expected"), [("", 1), ("clock", 0)])
def test_a_message_that_is_younger_than_the_first_record_was_not_deleted_for_its_age(fault: str, expected: int) -> None:
    assert young_run(fault).judge()[METRIC].value == expected


def young_run(fault: str = "") -> MadeUpRun:
    """A message younger than the first record of its log was received, and is gone."""
    run = MadeUpRun()
    run.send(1)
    run.wait(5)
    run.send(2, queue_id=1, at=())
    run.deliver(2, 0, queue_id=1)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    if fault:
        run.add("", "fault_applied", fault=fault, target="broker-a", id="f1")
    return run


def test_a_store_that_was_not_read_may_have_it() -> None:
    run = MadeUpRun()
    run.send(1)
    run.deliver(9, 1)
    run.unread.add("broker-a-s")
    finding = run.judge()[METRIC]
    assert (finding.value, finding.missing) == (None, "broker-a-s: its store was not given")


def test_without_a_delivery_it_is_unknown() -> None:
    run = MadeUpRun()
    run.send(1)
    assert run.judge()[METRIC].missing == "nothing was delivered to a workload of the journal"
