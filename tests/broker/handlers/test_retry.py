"""Messages handed back by consumers (broker-requests section 3.11).

Items: broker-requests#47; store-ha#75.
"""

from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import StoredMessage, decode_message, parse_offset_message_id

Opener = Callable[..., TalkingBroker]


def send_back(talk: TalkingBroker, offset: int = 0, *, level: int = 0, version: int = 409, **changes: str) -> Command:
    fields = {"offset": str(offset), "group": "g", "delayLevel": str(level), "unitMode": "false", **changes}
    return talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields, version=version)


def last(talk: TalkingBroker, topic: str, queue_id: int = 0) -> StoredMessage:
    store = talk.broker.store
    end = store.max_queue_offset(topic, queue_id)
    assert end > 0, f"nothing in queue {queue_id} of {topic}"
    ((offset, _, _),) = store.queue_entries(topic, queue_id, end - 1, 1)
    record = store.message_at(offset)
    assert record is not None
    return decode_message(record)


def tried(talk: TalkingBroker, times: int, topic: str = "T", **properties: str) -> int:
    """Store a message with this number of tries; return its offset."""
    fields = send_fields(topic, 0, **properties) | {"j": str(times)}
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, fields, b"body")
    return parse_offset_message_id(reply.ext_fields["msgId"])[2]


@pytest.mark.parametrize("times", [0, 1, 15])
def test_a_message_waits_longer_with_every_try(talk: TalkingBroker, times: int) -> None:
    """broker-requests#47, store-ha#75: level 3 + n, at most 18, then the retry topic."""
    offset = tried(talk, times, TAGS="A", KEYS="k", colour="red")
    reply = send_back(talk, offset)
    assert (reply.code, reply.raw_fields, reply.body) == (ResponseCode.SUCCESS, None, b"")
    level = min(3 + times, 18)
    message = last(talk, names.SCHEDULE_TOPIC, level - 1)
    assert (message.body, message.reconsume_times) == (b"body", times + 1)
    assert message.properties == {
        "TAGS": "A", "KEYS": "k", "colour": "red", "CLUSTER": "DefaultCluster", "WAIT": "false",
        "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{offset:016X}",
        "DELAY": str(level), "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0",
    }  # fmt: skip


def test_the_level_that_is_asked_for_is_taken(talk: TalkingBroker) -> None:
    send_back(talk, tried(talk, 5), level=2)
    assert last(talk, names.SCHEDULE_TOPIC, 1).properties["DELAY"] == "2"


def test_a_retry_remembers_where_it_began(talk: TalkingBroker) -> None:
    """broker-requests#47."""
    offset = tried(talk, 1, "%RETRY%g", RETRY_TOPIC="T", ORIGIN_MESSAGE_ID="FIRST")
    send_back(talk, offset)
    message = last(talk, names.SCHEDULE_TOPIC, 3)
    assert (message.properties["RETRY_TOPIC"], message.properties["ORIGIN_MESSAGE_ID"]) == ("T", "FIRST")


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_first_id_is_replaced(talk: TalkingBroker, blank: str) -> None:
    """SendMessageProcessor.asyncConsumerSendMsgBack asks UtilAll.isBlank."""
    offset = tried(talk, 0, ORIGIN_MESSAGE_ID=blank)
    send_back(talk, offset)
    first = last(talk, names.SCHEDULE_TOPIC, 2).properties["ORIGIN_MESSAGE_ID"]
    assert first == f"7F00000100002A9F{offset:016X}"


@pytest.mark.parametrize(
    ("times", "options"),
    [
        (0, {"level": -1}),
        (16, {}),
        (16, {"level": 5}),
        (3, {"maxReconsumeTimes": "3"}),
        (20, {"maxReconsumeTimes": "3", "version": 120}),
    ],
)
def test_a_message_tried_often_enough_is_a_dead_letter(
    talk: TalkingBroker, times: int, options: dict[str, int | str]
) -> None:
    """broker-requests#47, store-ha#75."""
    assert send_back(talk, tried(talk, times), **options).code == ResponseCode.SUCCESS  # type: ignore[arg-type]  # by name
    message = last(talk, "%DLQ%g")
    assert (message.reconsume_times, message.properties["DELAY"]) == (times + 1, "0")
    assert "REAL_TOPIC" not in message.properties
    topic = talk.broker.topics.get("%DLQ%g")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (1, 6)


def test_a_limit_that_an_old_client_cannot_mean_is_ignored(talk: TalkingBroker) -> None:
    send_back(talk, tried(talk, 3), maxReconsumeTimes="3", version=120)
    assert last(talk, names.SCHEDULE_TOPIC, 5).reconsume_times == 4


def test_the_retry_topic_is_made_with_the_queues_of_its_group(talk: TalkingBroker) -> None:
    offset = tried(talk, 0)
    talk.registration.calls.clear()
    talk.broker.subscriptions.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=2))
    send_back(talk, offset, unitMode="true")
    topic = talk.broker.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm, topic.topic_sys_flag) == (2, 6, 2)
    assert talk.registration.calls == [(None, True)]


def test_a_group_without_retry_queues_drops_messages_sent_back(talk: TalkingBroker) -> None:
    """Section 3.11: the reply has code 0."""
    offset = tried(talk, 0)
    end = talk.broker.store.max_commit_log_offset
    talk.broker.subscriptions.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=0))
    assert send_back(talk, offset).code == ResponseCode.SUCCESS
    assert talk.broker.store.max_commit_log_offset == end


def test_an_unreadable_offset_is_a_system_error(talk: TalkingBroker) -> None:
    assert send_back(talk, 12345).code == ResponseCode.SYSTEM_ERROR


def test_a_retry_topic_that_may_not_be_written_to(talk: TalkingBroker) -> None:
    offset = tried(talk, 0)
    talk.broker.topics.create_plain("%RETRY%g", 1, perm=4)
    assert send_back(talk, offset).code == ResponseCode.NO_PERMISSION


def test_a_closed_broker_and_an_unknown_group_are_refused(open_broker: Opener) -> None:
    closed = open_broker("closed", broker_permission=4)
    assert send_back(closed).code == ResponseCode.NO_PERMISSION
    strict = open_broker("strict", auto_create_subscription_group=False)
    assert send_back(strict).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_message_handed_back_never_waits_for_a_slave(open_broker: Opener) -> None:
    """store-and-ha section 7.3: WAIT is false; replication is requested all the same."""
    talk = open_broker(broker_role="SYNC_MASTER")
    offset = tried(talk, 0)
    appends = talk.replication.appends
    assert send_back(talk, offset).code == ResponseCode.SUCCESS
    assert talk.replication.appends == appends + 1


def test_messages_handed_back_are_counted_under_their_first_topic(talk: TalkingBroker) -> None:
    send_back(talk, tried(talk, 1, "%RETRY%g", RETRY_TOPIC="T"))
    stats = talk.broker.stats
    assert list(stats.items.send_backs) == ["T@g"]
    assert stats.put_total == 2


def test_a_retry_is_counted_in_the_schedule_topic_and_a_dead_letter_nowhere(talk: TalkingBroker) -> None:
    """SendMessageProcessor.asyncConsumerSendMsgBack."""
    stats = talk.broker.stats
    first, last = tried(talk, 0), tried(talk, 16)
    before, sent = set(stats.items.topic_puts), stats.items.broker_puts["DefaultCluster"].messages
    send_back(talk, first)
    send_back(talk, last)
    assert set(stats.items.topic_puts) - before == {names.SCHEDULE_TOPIC}
    assert stats.items.topic_puts[names.SCHEDULE_TOPIC].messages == 1
    assert list(stats.items.queue_puts) == ["SCHEDULE_TOPIC_XXXX@2"]
    assert stats.items.broker_puts["DefaultCluster"].messages == sent


def test_a_slave_rejects_messages_sent_back(talk: TalkingBroker, slave: TalkingBroker) -> None:
    """broker-requests#64, store-ha#76."""
    offset = tried(talk, 0)
    slave.broker.store.append_raw(0, talk.broker.store.read_log(0, 1 << 20))
    slave.broker.store.dispatch()
    reply = send_back(slave, offset)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")


@pytest.mark.parametrize("group", ["a/b", "\u00e9" * 64, "g" * 121, "a\0b"])
def test_a_group_with_an_invalid_retry_topic_is_rejected_at_once(talk: TalkingBroker, group: str) -> None:
    """Issue 12.4: the copy would be refused after its delay, when no sender waits."""
    offset = tried(talk, 0)
    end = talk.broker.store.max_commit_log_offset
    reply = send_back(talk, offset, group=group)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")
    assert talk.broker.store.max_commit_log_offset == end


def test_a_dead_letter_of_a_group_whose_retry_topic_is_too_long_is_stored(talk: TalkingBroker) -> None:
    """Its prefix is two characters shorter."""
    assert send_back(talk, tried(talk, 0), level=-1, group="g" * 121).code == ResponseCode.SUCCESS
    assert last(talk, "%DLQ%" + "g" * 121).body == b"body"


@pytest.mark.parametrize(("times", "expected"), [(-5, -4), (2**31 - 2, 2**31 - 1), (2**31 - 1, -(2**31))])
def test_absurd_reconsume_times_are_counted_as_in_java(talk: TalkingBroker, times: int, expected: int) -> None:
    """A level that wraps around or is below 1 does not delay the copy.

    The copy is stored in the retry topic at once.
    """
    assert send_back(talk, tried(talk, times), maxReconsumeTimes=str(2**31 - 1)).code == ResponseCode.SUCCESS
    assert last(talk, "%DLQ%g" if times == 2**31 - 1 else "%RETRY%g").reconsume_times == expected


def test_an_offset_inside_a_record_that_looks_like_one_is_a_system_error(talk: TalkingBroker) -> None:
    forged = bytes.fromhex("00000070daa320a7") + bytes(200)
    reply = talk.send("T", body=forged)
    inside = parse_offset_message_id(reply.ext_fields["msgId"])[2]
    inside = bytes(talk.broker.store.read_log(0, 4096)).index(forged)
    assert send_back(talk, inside).code == ResponseCode.SYSTEM_ERROR
    assert not talk.broker.errors.counts
