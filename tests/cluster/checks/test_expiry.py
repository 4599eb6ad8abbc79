"""Messages that a broker deleted for their age are not lost, and no others."""

import attrs
import pytest

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun


def test_a_message_deleted_by_retention_is_expired_and_not_lost() -> None:
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    for log in run.logs.values():
        del log[:2]
    assert run.judge()["lost"].value is not None
    findings = run.judge()
    assert findings["expired"].message_ids == ("ID000000", "ID000001")
    assert findings["lost"].value == 0
    del run.entries[-1]
    assert run.judge()["lost"].value == 2


def test_a_half_message_is_deleted_for_its_age_with_the_queue_that_it_waits_in() -> None:
    """Its acknowledged offset counts in the half topic."""
    run = MadeUpRun()
    run.send(0, at=(), held_in="RMQ_SYS_TRANS_HALF_TOPIC:0")
    run.send(1)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    for log in run.logs.values():
        log[:] = [attrs.evolve(copy, offset=0) for copy in log]
    findings = run.judge()
    assert (findings["expired"].value, findings["lost"].value) == (1, 0)
    run.store("ID000000", Queue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0), ["broker-a"])
    assert run.judge()["expired"].value == 0


def test_a_queue_that_was_deleted_wholly_for_its_age_is_expired() -> None:
    run = MadeUpRun()
    run.send(0, queue_id=1)
    run.send(1)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    for log in run.logs.values():
        del log[:1]
    findings = run.judge()
    assert findings["expired"].message_ids == ("ID000000",)
    assert findings["lost"].value == 0


@pytest.mark.parametrize(("fault", "expected"), [("", (0, 1)), ("clock", (1, 0))])
def test_a_message_that_is_younger_than_the_first_record_was_not_deleted_for_its_age(
    fault: str, expected: tuple[int, int]
) -> None:
    """It was the only one of its queue; times prove nothing if clocks are wrong."""
    run = MadeUpRun()
    run.send(1)
    run.wait(5)
    run.send(2, queue_id=1, at=())
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    if fault:
        run.add("", "fault_applied", fault=fault, target="broker-a")
    findings = run.judge()
    assert (findings["expired"].value, findings["lost"].value) == expected


def test_a_message_that_any_member_of_its_broker_deleted_for_its_age_is_expired() -> None:
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
    for node in ("broker-a", "broker-a-s"):
        run.add(node, "file_deleted", file="commitlog/00000000000000000000")
    del run.logs["broker-a"][:2], run.logs["broker-a-s"][1]
    assert run.judge()["expired"].message_ids == ("ID000001",)


def test_the_first_message_that_is_left_was_overwritten_and_not_deleted_for_its_age() -> None:
    run = MadeUpRun()
    run.send(0)
    run.send(1)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    run.logs = {node: [attrs.evolve(log[0], message_id="OTHER"), *log[1:]] for node, log in run.logs.items()}
    findings = run.judge()
    assert findings["lost"].message_ids == ("ID000000",)
    assert findings["expired"].message_ids == ()


def test_a_message_is_lost_if_only_one_of_its_acknowledged_places_was_deleted_for_its_age() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1, broker="broker-b", at=())
    run.send(1, at=())
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    findings = run.judge()
    assert (findings["lost"].value, findings["expired"].value) == (1, 0)
    run.add("broker-b", "file_deleted", file="commitlog/00000000000000000000")
    findings = run.judge()
    assert (findings["lost"].value, findings["expired"].value) == (0, 1)
