"""Records whose born time or born host contradict their send."""

from typing import Any

import attrs
import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.findings import Finding

METRIC = "origin_disagreement"
HOST = "127.77.1.240"


@pytest.fixture
def run() -> MadeUpRun:
    made_up = MadeUpRun()
    made_up.add("produce-1", "node_spawned", pid=17)
    made_up.add("broker-a", "producer_joined", group="till", client_id=f"{HOST}@17#1")
    return made_up


def send(run: MadeUpRun, number: int = 1, **changes: Any) -> None:
    """Send a message; its records have the origin of the send, except for `changes`."""
    run.send(number)
    store_again(run, number, **changes)


def store_again(run: MadeUpRun, number: int = 1, **changes: Any) -> None:
    """Give the records of a message another origin."""
    for log in run.logs.values():
        for at, copy in enumerate(log):
            if copy.message_id == f"ID{number:06}":
                own: dict[str, Any] = {"born_at": run.now, "born_host": HOST, "content_crc": 5, **changes}
                log[at] = attrs.evolve(copy, **own)


def judged(run: MadeUpRun) -> Finding:
    return run.judge()[METRIC]


def test_records_with_the_origin_of_their_send_agree(run: MadeUpRun) -> None:
    send(run)
    assert judged(run).value == 0


@pytest.mark.parametrize("changes", [{"born_at": 5}, {"born_host": "10.0.0.9"}])
def test_another_time_or_host_is_named(run: MadeUpRun, changes: dict[str, Any]) -> None:
    send(run, **changes)
    send(run, 2)
    found = judged(run)
    assert found.value == 1
    assert found.message_ids == ("ID000001",)
    assert "broker-a at commit log offset 0 has" in found.evidence[0].text


def test_a_host_is_not_compared_if_no_broker_recorded_the_producer(run: MadeUpRun) -> None:
    run.entries = [entry for entry in run.entries if entry.kind != "producer_joined"]
    send(run, born_host="10.0.0.9")
    assert judged(run).value == 0


@pytest.mark.parametrize("node", ["broker-a", "broker-b-s"])
def test_a_message_that_was_sent_again_after_a_removal_is_not_counted(run: MadeUpRun, node: str) -> None:
    """`diverged --resend` sends to any broker name, with the unique id of the message."""
    run.wait(5)
    run.add(node, "log_truncated", before=100, after=0)
    run.wait(5)
    send(run, born_at=run.now + 60_000, born_host="127.0.0.1")
    assert judged(run).value == 0


def test_what_was_stored_before_a_removal_is_still_compared(run: MadeUpRun) -> None:
    send(run, born_host="10.0.0.9")
    run.wait(5)
    run.add("broker-a", "log_truncated", before=100, after=0)
    assert judged(run).value == 1


def test_with_a_clock_fault_it_is_unknown(run: MadeUpRun) -> None:
    send(run, born_at=5)
    fault = {"id": 1, "fault": "clock", "kind": "step", "target": "broker-a"}
    run.entries.append(JournalEntry(run.now, "", "fault_applied", fault))
    assert judged(run).value is None


def test_records_are_listed_by_time_then_node_then_place(run: MadeUpRun) -> None:
    run.send(1)
    for at, node in ((30, "broker-a-s"), (20, "broker-a"), (20, "broker-a-s"), (10, "broker-a-s")):
        log = run.logs[node]
        again = attrs.evolve(log[-1], stored_at=log[0].stored_at + at, log_offset=log[-1].log_offset + 200)
        log.append(again)
    store_again(run, born_at=5)
    (piece,) = judged(run).evidence
    places = [place.partition(" has ")[0] for place in piece.text.split(": ")[-1].split(", ")]
    listed = [("broker-a", 0), ("broker-a-s", 0), ("broker-a-s", 600), ("broker-a", 200), ("broker-a-s", 400)]
    assert places == [f"{node} at commit log offset {at}" for node, at in [*listed, ("broker-a-s", 200)]]
