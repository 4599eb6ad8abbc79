"""Acknowledgements and deliveries that name another place than the record's."""

from typing import Any

import attrs
import pytest

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun

METRIC = "place_disagreement"


def delivered_run() -> MadeUpRun:
    """Three messages, sent and delivered once."""
    run = MadeUpRun()
    for number in range(3):
        run.send(number)
        run.deliver(number, number)
    return run


def change(run: MadeUpRun, kind: str, nth: int = 1, **fields: Any) -> None:
    """Change fields of the nth event of a kind."""
    index = [place for place, entry in enumerate(run.entries) if entry.kind == kind][nth]
    entry = run.entries[index]
    run.entries[index] = attrs.evolve(entry, fields={**entry.fields, **fields})


def test_a_clean_run_has_no_violations() -> None:
    assert delivered_run().judge()[METRIC].value == 0


@pytest.mark.parametrize("kind", ["sent", "delivered"])
@pytest.mark.parametrize("fields", [{"queue": 7}, {"offset": 900}, {"broker": "broker-z"}, {"topic": "payments"}])
def test_an_entry_that_names_another_place_is_found(kind: str, fields: dict[str, Any]) -> None:
    run = delivered_run()
    change(run, kind, **fields)
    finding = run.judge()[METRIC]
    assert (finding.value, finding.message_ids) == (1, ("ID000001",))
    assert "orders@broker-a:0 offset 1" in finding.evidence[0].text


def test_a_message_with_a_failed_attempt_may_be_stored_elsewhere() -> None:
    run = delivered_run()
    change(run, "sent", offset=900)
    run.add("produce-1", "attempt_failed", message_id="ID000001", topic="orders", broker="broker-a", attempt=1, took=1)
    assert run.judge()[METRIC].value == 0


def test_a_message_that_was_sent_back_has_another_place() -> None:
    run = delivered_run()
    run.store("ID000001", Queue("%RETRY%shop", "broker-a", 0), run.members("broker-a"))
    run.deliver(1, offset=0, queue_id=5, times=1)
    assert run.judge()[METRIC].value == 0


def test_a_lost_message_has_no_place() -> None:
    run = delivered_run()
    for log in run.logs.values():
        log[:] = [copy for copy in log if copy.message_id != "ID000001"]
    assert run.judge()[METRIC].value == 0


def forget(run: MadeUpRun, message_id: str, queue: Queue) -> None:
    """Remove a record from all logs."""
    for log in run.logs.values():
        log[:] = [copy for copy in log if (copy.message_id, copy.queue) != (message_id, queue)]


def test_a_message_sent_back_may_outlive_its_first_record() -> None:
    run = delivered_run()
    run.store("ID000001", Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), run.members("broker-a"))
    forget(run, "ID000001", Queue("orders", "broker-a", 0))
    assert run.judge()[METRIC].value == 0


@pytest.mark.parametrize("kind", ["power_lost", "log_truncated", "file_deleted", "store_wiped"])
def test_a_broker_that_lost_a_delayed_message_may_store_it_again(kind: str) -> None:
    run, queue = delivered_run(), Queue("orders", "broker-a", 0)
    held = run.store("ID000009", Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), run.members("broker-a"))
    common = {"message_id": "ID000009", "topic": "orders", "outcome": "SEND_OK", "broker": "broker-a", "queue": 0}
    run.add("produce-1", "sent", **common, offset=held, held_in="SCHEDULE_TOPIC_XXXX:2", began_at=run.now)
    first = run.store("ID000009", queue, run.members("broker-a"))
    run.deliver(9, first)
    forget(run, "ID000009", queue)
    run.send(8)
    run.store("ID000009", queue, run.members("broker-a"))
    assert run.judge()[METRIC].value == 1
    run.add("broker-a", kind)
    assert run.judge()[METRIC].value == 0


def test_a_broker_that_was_renamed_has_records_of_its_former_name() -> None:
    run = delivered_run()
    for node, broker_id in (("broker-a", 0), ("broker-a-s", 1)):
        run.end(node, "stop", "node_stopped")
        run.add(node, "node_ready", broker_name="broker-z", broker_id=broker_id, address="127.77.1.20:10911")
        run.logs[node] = [attrs.evolve(one, queue=attrs.evolve(one.queue, broker="broker-z")) for one in run.logs[node]]
    assert run.judge()[METRIC].value == 0
