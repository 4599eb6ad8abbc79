"""Unexpected records in half and op queues do not stop checks (issue 12.14)."""

import errno

import pytest

from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import NewMessage, format_properties
from rmqlab.store.results import PutResult
from rmqlab.store.testing import new_message
from tests.broker.transactionproducer import COMMIT, Producer


def commit_to(producer: Producer, topic: str, body: bytes, **properties: str) -> int:
    """Put a message into queue 0 of any topic: send with REAL_TOPIC, then commit it.

    It is sent to queue 1, so that the op record of the commit itself does not go to the queue that is read. Returns
    the response code.
    """
    talk = producer.talk
    sent = talk.send("letters", 1, body, PGROUP="P", REAL_TOPIC=topic, REAL_QID="0", **properties)
    fields = {
        "producerGroup": "P", "tranStateTableOffset": sent.ext_fields["queueOffset"], "commitOrRollback": str(COMMIT),
        "commitLogOffset": str(int(sent.ext_fields["msgId"][-16:], 16)),
    }  # fmt: skip
    return talk.ask(RequestCode.END_TRANSACTION, fields).code


def skipped(producer: Producer) -> list[str]:
    return [fields["reason"] for kind, fields in producer.talk.events if kind == "message_skipped"]


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b"no number", {"TAGS": "d"}),
        (b"0", {}),
        (b"0", {"TAGS": "x"}),
        (b"9" * 5000, {"TAGS": "d"}),
        (b"-1", {"TAGS": "d"}),
        (b" 0_0 ", {"TAGS": "d"}),
        (b"7", {"TAGS": "d"}),
        (b"\xff\xfe", {"TAGS": "d"}),
    ],
)
async def test_an_invalid_op_record_is_skipped_once(
    producer: Producer, body: bytes, properties: dict[str, str]
) -> None:
    """Issue 12.3: three ordinary requests ended the broker at each restart."""
    assert commit_to(producer, names.OP_HALF_TOPIC, body, **properties) == ResponseCode.SUCCESS
    producer.send(UNIQ_KEY="first")
    producer.end(producer.send(UNIQ_KEY="second"), COMMIT)
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "first"
    assert producer.progress()[1] == 2
    await producer.after(60)
    assert len(skipped(producer)) == 1


async def test_a_bad_op_record_behind_one_that_waits_is_reported_once(producer: Producer) -> None:
    """It is read again in each round, for the record before it is not used up."""
    producer.send(CHECK_IMMUNITY_TIME_IN_SECONDS="7200", UNIQ_KEY="waits")
    await producer.after(60)
    producer.send(UNIQ_KEY="young")
    producer.end(producer.send(), COMMIT)
    commit_to(producer, names.OP_HALF_TOPIC, b"bad", TAGS="d")
    for _ in range(3):
        await producer.after(1)
    assert len(skipped(producer)) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "first"},
        {"REAL_TOPIC": "orders", "REAL_QID": "9" * 5000},
        {"REAL_TOPIC": "t" * 300, "REAL_QID": "0"},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRANSACTION_CHECK_TIMES": "9" * 5000},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRANSACTION_CHECK_TIMES": "-1" + "0" * 30},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRAN_PREPARED_QUEUE_OFFSET": "9" * 5000},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "CHECK_IMMUNITY_TIME_IN_SECONDS": str(2**63 - 1)},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"},
    ],
)
async def test_a_half_message_of_any_form_stops_nothing(producer: Producer, properties: dict[str, str]) -> None:
    """A log that was copied may hold what this broker would not have stored."""
    producer.talk.broker.store.put(
        new_message(topic=names.HALF_TOPIC, properties={"PGROUP": "P", "UNIQ_KEY": "odd", **properties})
    )
    producer.send(UNIQ_KEY="behind")
    for _ in range(20):
        assert [asked.ext_fields["msgId"] for asked in await producer.after(60)][-1:] in (["behind"], ["odd"], [])
    asked_about = {asked.ext_fields["msgId"] for asked in producer.talk.peer.asked}
    assert "behind" in asked_about
    assert not producer.talk.broker.errors.counts


@pytest.mark.parametrize("immunity", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "7200"}])
async def test_a_half_message_without_room_for_one_more_property_is_put_aside(
    producer: Producer, immunity: dict[str, str]
) -> None:
    """4.9.8 tries to store it again for ever, and checks nothing behind it."""
    properties = {"PGROUP": "P", "REAL_TOPIC": "orders", "REAL_QID": "1", **immunity}
    room = 32767 - len(format_properties(properties | {"fill": ""}))
    producer.talk.broker.store.put(
        new_message(topic=names.HALF_TOPIC, body=b"full", properties=properties | {"fill": "x" * room})
    )
    producer.send(UNIQ_KEY="behind")
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "behind"
    (aside,) = producer.stored(names.TRANS_CHECK_MAX_TIME_TOPIC)
    assert aside.body == b"full"
    assert producer.progress() == (2, None)


async def test_a_half_message_that_cannot_even_be_put_aside_is_skipped(producer: Producer) -> None:
    producer.send(b"x" * 2000, UNIQ_KEY="large")
    producer.send(UNIQ_KEY="behind")
    producer.talk.broker.store.putter._max_body = 1000
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "behind"
    (reason,) = skipped(producer)
    assert "MESSAGE_ILLEGAL" in reason


async def test_a_machine_that_fails_ends_the_round_and_skips_nothing(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_broker: Broker, _message: NewMessage) -> PutResult:
        raise OSError(errno.EMFILE, "Too many open files")

    producer.send()
    with monkeypatch.context() as failing:
        failing.setattr(Broker, "put_own", fail)
        assert await producer.after(60) == []
    assert producer.progress() == (None, None)
    assert len(await producer.after(60)) == 1
    assert skipped(producer) == []


async def test_half_messages_without_a_producer_are_one_line_of_the_log_in_a_round(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        producer.send(PGROUP="nobody\n")
    await producer.after(60)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "5 half messages of group 'nobody\\n'" in line
