"""`content_disagreement`: records with another content than was sent."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.client.config import ProducerConfig
from rmqlab.client.message import Message
from rmqlab.client.outgoing import prepare, sent_header
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.storereader import read_store
from rmqlab.cluster.checks.testing import MadeUpRun, with_offset
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import body_crc, parse_properties
from rmqlab.remoting.names import HALF_TOPIC
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.verdict.verdict import Verdict

METRIC = "content_disagreement"
CRC = content_crc(7, 0, "n1", "new")


def sent_run(**fields: Any) -> MadeUpRun:
    """Two messages whose sends and records have a checksum."""
    run = MadeUpRun()
    for number in (1, 2):
        run.send(number, **{"crc": CRC} | fields)
    for node in run.logs:
        alter(run, node, CRC, *range(len(run.logs[node])))
    return run


def alter(run: MadeUpRun, node: str, crc: int, *places: int) -> None:
    """Set the checksum of some records in a node's log."""
    for place in places:
        run.logs[node][place] = attrs.evolve(run.logs[node][place], content_crc=crc)


def test_a_clean_run_has_no_violations() -> None:
    judgement = sent_run().judge()
    assert judgement[METRIC].value == 0
    assert judgement.verdict is not Verdict.VIOLATED


@pytest.mark.parametrize("nodes", [("broker-a",), ("broker-a-s",), ("broker-a", "broker-a-s")])
def test_a_record_with_another_content_violates(nodes: tuple[str, ...]) -> None:
    run = sent_run()
    for node in nodes:
        alter(run, node, CRC + 1, 1)
    judgement = run.judge()
    assert (judgement[METRIC].value, judgement[METRIC].message_ids) == (1, ("ID000002",))
    assert all(f"{node} at commit log offset 200" in judgement[METRIC].evidence[0].text for node in nodes)
    assert METRIC in judgement.decision.violating


def test_a_send_without_a_checksum_may_have_had_another_content() -> None:
    run = sent_run()
    run.send(3)
    assert run.judge()[METRIC].missing == "1 send of the journal has no checksum"
    alter(run, "broker-a", CRC + 1, 1)
    found = run.judge()[METRIC]
    assert (found.value, found.is_at_least, found.message_ids) == (1, True, ("ID000002",))


def test_without_checksums_nothing_is_known_and_the_verdict_stays() -> None:
    judgement = sent_run(crc=None).judge()
    assert judgement[METRIC].value is None
    assert not any(METRIC in line for line in judgement.decision.why)


def test_a_message_that_was_sent_twice_may_have_two_contents() -> None:
    run = sent_run()
    run.send(2, crc=CRC + 1)
    assert run.judge()[METRIC].value == 0


def half_run(*places: int) -> MadeUpRun:
    """A half message, stored at these queue offsets, and committed with another flag."""
    run = MadeUpRun()
    run.send(1, at=(), topic="orders", crc=CRC, held_in=f"{HALF_TOPIC}:0")
    run.entries[-1] = with_offset(run.entries[-1], 0)
    for place in places:
        for node in run.members("broker-a"):
            run.store("ID000001", Queue(HALF_TOPIC, "broker-a", 0), (node,))
            run.logs[node][-1] = attrs.evolve(run.logs[node][-1], offset=place)
    run.store("ID000001", Queue("orders", "broker-a", 0), run.members("broker-a"))
    for node in run.logs:
        alter(run, node, CRC + 1, len(run.logs[node]) - 1)
    return run


@pytest.mark.parametrize(("places", "expected"), [((0,), 1), ((0, 1), 0), ((1,), 0), ((), 0)])
def test_a_half_message_that_is_stored_again_may_lose_its_flag(places: tuple[int, ...], expected: int) -> None:
    """TransactionalMessageBridge.renewHalfMessageInner does not copy it."""
    assert half_run(*places).judge()[METRIC].value == expected


def test_a_record_in_the_half_topic_hides_no_altered_message() -> None:
    """The acknowledgement names the message's own topic: it was no half message."""
    run = sent_run()
    for node in run.logs:
        alter(run, node, CRC + 1, 1)
        run.store("ID000002", Queue(HALF_TOPIC, "broker-a", 0), (node,))
    assert run.judge()[METRIC].message_ids == ("ID000002",)


@pytest.mark.parametrize(("topic", "expected"), [("orders", 1), ("%RETRY%shop", 0), (HALF_TOPIC, 0)])
def test_records_of_retry_and_half_topics_are_read_without_a_checksum(
    tmp_path: Path, topic: str, expected: int
) -> None:
    store = MessageStore.open(small_config(tmp_path / "broker-a" / "store"), now_millis=ManualClock())
    store.put(new_message(topic=topic, unique_key="ID000001", body=b"x"))
    store.close()
    read = read_store("broker-a", "broker-a", tmp_path / "broker-a" / "store")
    assert [copy.content_crc is not None for copy in read.copies] == [bool(expected)]


def test_a_missing_store_makes_it_a_lower_bound() -> None:
    run = sent_run()
    run.unread.add("broker-a-s")
    assert run.judge()[METRIC].is_at_least


@pytest.mark.parametrize("size", [1, 128, 9000])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tags": "new", "keys": "a b"},
        {"flag": 3, "delay_level": 2},
        {"properties": {"KEYS": "a", "TAGS": "new"}},
        {"tags": "new\x02old", "keys": "\x02a"},
        {"tags": "n\x01e", "properties": {"other": "1\x02KEYS\x01a"}},
    ],
)
def test_the_checksum_of_a_send_is_that_of_its_record(size: int, changes: dict[str, Any]) -> None:
    message, config = Message(topic="orders", body=b"x" * size, **changes), ProducerConfig()
    sent = prepare(message, "ID", config)
    properties = parse_properties(sent.properties)
    keys, tags = properties.get("KEYS", ""), properties.get("TAGS", "")
    crc = content_crc(body_crc(sent.body), sent.flag, keys, tags)
    assert sent_header(message, config) == {"crc": crc, "sys_flag": sent.sys_flag}


@pytest.mark.parametrize(
    "one", [(8, 0, "n1", "new"), (7, 1, "n1", "new"), (7, 0, "n2", "new"), (7, 0, "n1", ""), (7, 0, "", "n1new")]
)
def test_each_part_changes_the_checksum(one: tuple[int, int, str, str]) -> None:
    assert content_crc(*one) != CRC
