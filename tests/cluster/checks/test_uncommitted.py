"""`stored_uncommitted`: half messages in their topic without a commit."""

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.remoting.names import HALF_TOPIC
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict

HALVES = Queue(HALF_TOPIC, "broker-a", 0)
ORDERS = Queue("orders", "broker-a", 0)


def half_message(run: MadeUpRun, number: int, state: str = "rollback") -> str:
    """Send a half message that its producer does not commit."""
    message_id = f"ID{number:06}"
    offset = run.store(message_id, HALVES, run.logs)
    fields = {"message_id": message_id, "topic": "orders"}
    run.add("produce-1", "transaction_not_committed", **fields, state=state)
    run.send(number, at=(), held_in=f"{HALF_TOPIC}:0", took=30)
    run.change_last(offset=offset)
    return message_id


def found(run: MadeUpRun) -> Finding:
    return run.judge()["stored_uncommitted"]


def test_a_message_that_was_rolled_back_and_stays_half_is_right() -> None:
    run = MadeUpRun()
    half_message(run, 1)
    assert found(run).value == 0


def test_a_message_that_was_not_committed_must_not_be_in_its_own_topic() -> None:
    run = MadeUpRun()
    rolled_back, undecided = half_message(run, 1), half_message(run, 2, "unknown")
    for message_id in (undecided, rolled_back):
        run.store(message_id, ORDERS, run.logs)
    assert found(run).message_ids == (rolled_back, undecided)
    assert "broker-a at commit log offset" in found(run).evidence[0].text
    assert run.judge().verdict is Verdict.VIOLATED


def test_one_copy_is_enough() -> None:
    run = MadeUpRun()
    run.store(half_message(run, 1), ORDERS, ["broker-a-s"])
    assert found(run).value == 1


def test_a_check_of_the_broker_commits_a_message() -> None:
    run = MadeUpRun()
    message_id = half_message(run, 1)
    run.add("produce-1", "transaction_asked", message_id=message_id, topic="orders")
    run.store(message_id, ORDERS, run.logs)
    assert found(run).value == 0


def test_a_check_while_the_cluster_stops_counts() -> None:
    run = MadeUpRun()
    message_id = half_message(run, 1)
    run.add("", "cluster_stopping")
    run.add("produce-1", "transaction_asked", message_id=message_id, topic="orders")
    run.store(message_id, ORDERS, run.logs)
    assert found(run).value == 0


def test_a_store_that_was_not_read_makes_it_a_lower_bound() -> None:
    run = MadeUpRun()
    run.store(half_message(run, 1), ORDERS, run.logs)
    run.unread.add("broker-a-s")
    assert (found(run).value, found(run).is_at_least) == (1, True)


def test_it_is_unknown_without_sends_or_stores() -> None:
    run = MadeUpRun()
    assert found(run).value is None
    half_message(run, 1)
    run.unread.update(run.logs)
    assert found(run).missing == "no store was given"


def checked(run: MadeUpRun, message_id: str, client_id: str, *, asked: bool = True) -> None:
    """Check a half message with a producer, and store it under its own topic."""
    for number, node in enumerate(("produce-1", "produce-2"), 100):
        run.add(node, "node_spawned", pid=number)
    run.add("broker-a", "producer_joined", group="bank", client_id=client_id)
    offset = run.store(message_id, HALVES, run.logs)
    run.add("broker-a", "transaction_checked", group="bank", times=1, queue_offset=offset, asked=asked)
    run.store(message_id, ORDERS, run.logs)


def test_a_producer_of_the_group_without_a_journal_may_have_committed() -> None:
    run = MadeUpRun()
    other = half_message(run, 1)
    checked(run, half_message(run, 2), "10.0.0.9@7#1")
    run.store(other, ORDERS, run.logs)
    assert found(run).message_ids == (other,)


def test_a_killed_producer_may_have_committed() -> None:
    run = MadeUpRun()
    checked(run, half_message(run, 1), "127.77.1.240@101#1")
    run.end("produce-2")
    assert found(run).value == 0


def test_a_check_without_a_producer_or_with_one_of_a_journal_commits_nothing() -> None:
    for client_id, asked in (("10.0.0.9@7#1", False), ("127.77.1.240@101#1", True)):
        run = MadeUpRun()
        checked(run, half_message(run, 1), client_id, asked=asked)
        assert found(run).value == 1
