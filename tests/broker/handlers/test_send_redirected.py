"""Sends stored in another topic first: delayed, half, retried and dead messages."""

from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import decode_message

Opener = Callable[..., TalkingBroker]


def test_a_delayed_message_waits_in_the_queue_of_its_level(talk: TalkingBroker) -> None:
    """store-ha#18, #74: level 99 is 18; the reply names the requested queue."""
    reply = talk.send("T", 2, DELAY="99", TAGS="A").ext_fields
    assert (reply["queueId"], reply["queueOffset"]) == ("2", "0")
    assert talk.broker.store.max_queue_offset("T", 2) == 0
    (pulled,) = talk.pull(names.SCHEDULE_TOPIC, queueId=17)
    message = decode_message(pulled.body)
    assert (message.topic, message.queue_id) == (names.SCHEDULE_TOPIC, 17)
    assert message.properties == {
        "DELAY": "18", "TAGS": "A", "CLUSTER": "DefaultCluster", "REAL_TOPIC": "T", "REAL_QID": "2"
    }  # fmt: skip
    entry = talk.broker.store.queue_entries(names.SCHEDULE_TOPIC, 17, 0, 1)[0]
    assert entry[2] == message.store_timestamp + 7_200_000  # store-ha#20


@pytest.mark.parametrize(("level", "code"), [("0", 0), ("-1", 0), ("x", 1)])
def test_a_delay_level_below_1_is_ignored_and_text_is_rejected(talk: TalkingBroker, level: str, code: int) -> None:
    assert talk.send("T", DELAY=level).code == code
    assert talk.broker.store.max_queue_offset("T", 0) == (1 if code == 0 else 0)


@pytest.mark.parametrize(("sys_flag", "is_delayed"), [("0", True), ("4", False), ("8", True), ("12", False)])
def test_a_message_with_transaction_bits_is_delayed_only_if_committed(
    talk: TalkingBroker, *, sys_flag: str, is_delayed: bool
) -> None:
    """CommitLog.asyncPutMessage."""
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", DELAY="1") | {"f": sys_flag})
    stored = talk.broker.store.message_at(0)
    assert stored is not None
    assert decode_message(stored).topic == (names.SCHEDULE_TOPIC if is_delayed else "T")


def test_a_half_message_is_hidden_in_its_own_topic(talk: TalkingBroker) -> None:
    """store-ha#71, #18: without transaction bits; the response names the asked queue."""
    fields = send_fields("T", 1, TRAN_MSG="true", PGROUP="P", UNIQ_KEY="u") | {"f": "4"}
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, fields, b"half").ext_fields
    assert (reply["queueId"], reply["queueOffset"]) == ("1", "0")
    assert talk.broker.store.max_queue_offset("T", 1) == 0
    talk.broker.topics.create_plain(names.HALF_TOPIC, 1)
    (pulled,) = talk.pull(names.HALF_TOPIC)
    message = decode_message(pulled.body)
    assert (message.topic, message.queue_id, message.sys_flag) == (names.HALF_TOPIC, 0, 0)
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == ("T", "1")


def test_a_broker_may_refuse_transactions(open_broker: Opener) -> None:
    talk = open_broker(reject_transaction_message=True)
    assert talk.send("T", TRAN_MSG="true", PGROUP="P").code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("times", "changes", "version", "topic"),
    [
        ("15", {}, 409, "%RETRY%g"),
        ("16", {}, 409, "%DLQ%g"),
        ("3", {"l": "3"}, 409, "%DLQ%g"),
        ("3", {"l": "3"}, 120, "%RETRY%g"),  # too old a client to know the field
        ("16", {"l": "20"}, 409, "%RETRY%g"),
    ],
)
def test_a_retry_sent_too_often_becomes_a_dead_letter(
    talk: TalkingBroker, times: str, changes: dict[str, str], version: int, topic: str
) -> None:
    """broker-requests#22."""
    fields = send_fields("%RETRY%g") | {"j": times} | changes
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, fields, version=version)
    assert (reply.code, reply.ext_fields["queueId"]) == (ResponseCode.SUCCESS, "0")
    assert talk.broker.store.max_queue_offset(topic, 0) == 1
    assert (talk.broker.topics.get("%DLQ%g") is not None) == (topic == "%DLQ%g")


def test_the_topic_of_a_dead_letter_that_is_sent_is_registered(talk: TalkingBroker) -> None:
    """TopicConfigManager.createTopicInSendMessageBackMethod."""
    talk.send("%RETRY%g")
    talk.registration.calls.clear()
    for _ in range(2):
        talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%g") | {"j": "16"})
    assert talk.registration.calls == [(None, True)]


def test_a_dead_letter_that_is_sent_keeps_its_delay(talk: TalkingBroker) -> None:
    """broker-requests#22: 4.9.8 clears the level, then sets the request's properties.

    Measured with 4.9.7.
    """
    fields = send_fields("%RETRY%g", DELAY="19", RETRY_TOPIC="T") | {"j": "16"}
    talk.ask(RequestCode.SEND_MESSAGE_V2, fields)
    (pulled,) = talk.pull("SCHEDULE_TOPIC_XXXX", queueId=17)
    properties = decode_message(pulled.body).properties
    assert (properties["DELAY"], properties["REAL_TOPIC"]) == ("18", "%DLQ%g")


def test_a_half_message_with_a_delay_waits_in_the_schedule(talk: TalkingBroker) -> None:
    """store-ha#74: there 4.9 puts it, and nothing delivers it."""
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", DELAY="2", TRAN_MSG="true"))
    (pulled,) = talk.pull("SCHEDULE_TOPIC_XXXX", queueId=1)
    assert decode_message(pulled.body).properties["REAL_TOPIC"] == "RMQ_SYS_TRANS_HALF_TOPIC"


def test_a_retry_of_a_group_that_may_not_be_made_is_refused(open_broker: Opener) -> None:
    talk = open_broker(auto_create_subscription_group=False)
    assert talk.send("%RETRY%g").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
