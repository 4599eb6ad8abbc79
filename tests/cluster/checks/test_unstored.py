"""Messages that were delivered and are in no store."""

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
