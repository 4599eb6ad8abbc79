"""The demo's timeline."""

from typing import Any

from rmqlab.cluster.demo.narrator import Narrator
from rmqlab.runtime.journals.journalentry import JournalEntry

ROLES = {"127.77.1.20:10911": "the master", "127.77.1.21:10911": "the slave"}


def lines_of(narrator: Narrator, node: str, kind: str, **fields: Any) -> list[str]:
    return [line.text for line in narrator.lines(JournalEntry(1000, node, kind, fields))]


def test_sends_are_narrated_when_their_outcome_changes_and_counted_otherwise() -> None:
    narrator = Narrator(ROLES)
    lines: list[str] = []
    for number, outcome in enumerate(["SEND_OK", "SEND_OK", "SEND_OK", "refused"], start=1):
        error = "" if outcome == "SEND_OK" else "[Errno 111] Connection refused"
        lines += lines_of(narrator, "produce-1", "sent", number=number, outcome=outcome, error=error)
    assert lines == [
        "sends now end in SEND_OK",
        "sends now end in refused: connection refused at the master's address, after 3 SEND_OK",
    ]
    assert narrator.outcomes == {1: "SEND_OK", 2: "SEND_OK", 3: "SEND_OK", 4: "refused"}


def test_sends_in_doubt_are_one_news_whatever_their_errors() -> None:
    narrator = Narrator(ROLES)
    errors = [
        "connection to 127.77.1.20:10911 closed before the response: x",
        "127.77.1.20:10911: no response to request code 310",
    ]
    lines = [
        line
        for number, error in enumerate(errors)
        for line in lines_of(narrator, "produce-1", "sent", number=number, outcome="indeterminate", error=error)
    ]
    assert lines == ["sends now end in indeterminate: the connection closed before the response; perhaps stored"]


def test_a_send_that_the_end_of_the_producer_cut_short_is_no_timeout() -> None:
    error = "the producer was stopped"
    lines = lines_of(Narrator(ROLES), "produce-1", "sent", number=1, outcome="indeterminate", error=error)
    assert lines == ["sends now end in indeterminate: the producer was stopped before the response; perhaps stored"]


def test_a_refused_send_is_never_narrated_as_perhaps_stored() -> None:
    narrator = Narrator(ROLES)
    errors = [
        "refused, 1 attempt: no connection to 127.77.1.20:10911 before the send timed out",
        "refused, 2 attempts: no connection to 127.77.1.20:10911 before the send timed out",
        "no nameserver can be reached: 127.77.1.1:9876: no response to request code 105 within 3 s",
        "no nameserver can be reached: no connection to 127.77.1.1:9876: Connection refused",
    ]
    lines = [
        line
        for number, error in enumerate(errors)
        for line in lines_of(narrator, "produce-1", "sent", number=number, outcome="refused", error=error)
    ]
    assert lines == [
        "sends now end in refused: no connection to the master in time",
        "sends now end in refused: no nameserver responds, after 2 refused",
    ]


def test_a_node_is_known_by_its_ip_where_that_is_its_own() -> None:
    lines = lines_of(Narrator({"127.77.1.21": "the slave"}), "broker-a", "ha_connected", slave="127.77.1.21:40000")
    assert lines == ["the slave is connected for replication"]


def test_a_lost_master_is_narrated_with_the_remaining_brokers() -> None:
    lines = lines_of(
        Narrator(ROLES),
        "namesrv-1",
        "broker_connection_lost",
        broker_name="broker-a",
        address="127.77.1.20:10911",
        remaining={"1": "127.77.1.21:10911"},
    )
    assert lines == ["the master's connection closed: it is out of the route; of broker-a only the slave is left"]


def test_a_switch_to_the_slave_is_narrated_once_for_all_queues() -> None:
    narrator = Narrator(ROLES)
    for queue in range(4):
        lines = lines_of(narrator, "consume-1", "pulling_from", queue=queue, broker_id=1, address="127.77.1.21:10911")
        assert lines == (["reads from the slave (broker id 1)"] if queue == 0 else [])


def test_deliveries_are_counted_by_consumer() -> None:
    narrator = Narrator(ROLES)
    lines_of(narrator, "consume-1", "delivered", number=3)
    lines_of(narrator, "consume-2", "delivered", number=3)
    assert narrator.deliveries == {"consume-1": [3], "consume-2": [3]}


def test_minor_events_are_not_narrated() -> None:
    assert lines_of(Narrator(ROLES), "broker-a", "groups_synced", groups=3) == []
