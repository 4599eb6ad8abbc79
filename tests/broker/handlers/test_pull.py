"""Pulling and long polling (broker-requests section 2; store-and-ha).

Items: broker-requests#25 to #36, #65; store-ha#65 to #70.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rmqlab.broker.testing import TalkingBroker, pull_fields
from rmqlab.remoting import names
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import decode_messages
from tests.broker.handlers.pulls import bodies, outcome, pull, replicate

Opener = Callable[..., TalkingBroker]

RESULT_FIELDS = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}


@pytest.mark.parametrize(
    ("offset", "code", "following"),
    [
        (0, ResponseCode.SUCCESS, 5),
        (4, ResponseCode.SUCCESS, 5),
        (5, ResponseCode.PULL_NOT_FOUND, 5),
        (6, ResponseCode.PULL_OFFSET_MOVED, 5),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0),
    ],
)
def test_offsets_inside_at_and_beyond_the_ends(
    filled: TalkingBroker, offset: int, code: ResponseCode, following: int
) -> None:
    """broker-requests#25, #26; store-ha#65 for a master."""
    reply = pull(filled, "T", offset)
    assert outcome(reply) == (code, following)
    assert reply.ext_fields.keys() == RESULT_FIELDS
    assert bool(reply.body) == (code == ResponseCode.SUCCESS)


def test_a_consumer_out_of_bounds_is_noted_in_a_topic_of_its_own(filled: TalkingBroker) -> None:
    """store-and-ha section 6.3: what `mqadmin startMonitoring` reads."""
    pull(filled, "T", 9, consumerGroup="g")
    (message,) = decode_messages(pull(filled, names.OFFSET_MOVED_EVENT).body)
    assert message.properties == {"KEYS": "g", "TAGS": "g", "DELAY": "0"}
    expected = (
        b'{"consumerGroup":"g","messageQueue":{"brokerName":"broker-a","queueId":0,"topic":"T"},'
        b'"offsetNew":5,"offsetRequest":9}'
    )
    assert message.body == expected


def test_a_slave_notes_nothing(filled: TalkingBroker, open_broker: Opener) -> None:
    """store-ha#76: not even one that moves offsets."""
    strict = open_broker("strict", broker_role="SLAVE", broker_id=1, offset_check_in_slave=True)
    replicate(filled, strict)
    end = strict.broker.store.max_commit_log_offset
    assert outcome(pull(strict, "T", 6)) == (ResponseCode.PULL_OFFSET_MOVED, 5)
    assert strict.broker.store.max_commit_log_offset == end


@pytest.mark.parametrize(("offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)])
def test_an_empty_queue(filled: TalkingBroker, offset: int, code: ResponseCode) -> None:
    """broker-requests#25."""
    assert outcome(pull(filled, "T", offset, queueId=1)) == (code, 0)


def test_a_pull_gives_whole_records_as_they_are_stored(filled: TalkingBroker) -> None:
    """broker-requests#27."""
    reply = pull(filled, "T", 1)
    assert bodies(reply) == [b"1", b"2", b"3", b"4"]
    assert reply.body == bytes(filled.broker.store.read_log(0, 1 << 20))[-len(reply.body) :]


@pytest.mark.parametrize(("asked", "given"), [(2, 2), (0, 1), (100, 32)])
def test_how_many_messages_a_pull_gives(talk: TalkingBroker, asked: int, given: int) -> None:
    """broker-requests#27."""
    for _ in range(40):
        talk.send("T")
    assert len(bodies(pull(talk, "T", maxMsgNums=asked))) == given


@pytest.mark.parametrize(
    ("offset", "queue_id", "code"),
    [(0, 0, ResponseCode.SYSTEM_ERROR), (5, 0, ResponseCode.PULL_NOT_FOUND), (9, 0, ResponseCode.PULL_OFFSET_MOVED),
     (0, 1, ResponseCode.PULL_NOT_FOUND)],
)  # fmt: skip
def test_a_pull_of_fewer_than_no_messages_is_refused_where_there_are_some(
    filled: TalkingBroker, offset: int, queue_id: int, code: ResponseCode
) -> None:
    """broker-requests#27: 4.9 makes a list of that size then, and commits no offset."""
    reply = pull(filled, "T", offset, queueId=queue_id, maxMsgNums=-3, sysFlag=5, commitOffset=4)
    assert reply.code == code
    is_refused = code == ResponseCode.SYSTEM_ERROR
    assert filled.broker.offsets.query("TOOLS_CONSUMER", "T", queue_id) == (None if is_refused else 4)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "NoSuch"}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": "77"}, ResponseCode.SYSTEM_ERROR),
        ({"consumerGroup": "Off"}, ResponseCode.NO_PERMISSION),
        ({"sysFlag": "4"}, ResponseCode.PULL_NOT_FOUND),
    ],
)
def test_a_pull_that_may_be_held_names_its_time_before_its_topic(
    filled: TalkingBroker, changes: dict[str, str], code: ResponseCode
) -> None:
    """PullMessageProcessor reads the time after it has checked the group."""
    filled.broker.subscriptions.put(SubscriptionGroupConfig(group_name="Off", consume_enable=False))
    fields = pull_fields("T", 5, sysFlag=6) | changes
    del fields["suspendTimeoutMillis"]
    assert filled.ask(RequestCode.PULL_MESSAGE, fields).code == code


def test_a_pull_gives_at_most_256_kib_but_always_one_message(talk: TalkingBroker) -> None:
    """broker-requests#27."""
    for size in (300_000, 100_000, 100_000, 100_000):
        talk.send("T", body=bytes(size))
    assert [len(body) for body in bodies(pull(talk, "T", 0))] == [300_000]
    assert [len(body) for body in bodies(pull(talk, "T", 1))] == [100_000, 100_000]


def test_the_next_offset_counts_what_was_looked_at(talk: TalkingBroker) -> None:
    """broker-requests#28, #35."""
    for tag in "ABABB":
        talk.send("T", TAGS=tag)
    found = pull(talk, "T", subscription="A")
    assert (len(bodies(found)), outcome(found)) == (2, (ResponseCode.SUCCESS, 5))
    assert outcome(pull(talk, "T", 3, subscription="A")) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 5)
    limited = pull(talk, "T", maxMsgNums=1, subscription="A || C")
    assert (len(bodies(limited)), int(limited.ext_fields["nextBeginOffset"])) == (1, 1)


@pytest.mark.parametrize("expression", ["*", "", None])
def test_every_tag_can_be_asked_for(filled: TalkingBroker, expression: str | None) -> None:
    """broker-requests#30, section 2.3."""
    assert len(bodies(pull(filled, "T", subscription=expression))) == 5


def test_code_361_is_a_pull(open_broker: Opener) -> None:
    """broker-requests#34, remoting#44: a lite pull of 5.x."""
    talk = open_broker(serve_requests_of_5x=True)
    for _ in range(5):
        talk.send("T")
    assert len(bodies(talk.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields("T", sysFlag=20)))) == 5


def test_the_subscription_of_the_heartbeat_counts_unless_the_pull_has_one(talk: TalkingBroker) -> None:
    """broker-requests#29."""
    for tag in "AB":
        talk.send("T", TAGS=tag)
    asked: dict[str, Any] = {"consumerGroup": "g", "sysFlag": 0, "subscription": None}
    assert pull(talk, "T", **asked).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    talk.heartbeat("g", "Other")
    assert pull(talk, "T", **asked).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    talk.heartbeat("g", "T", expression="A")
    assert len(bodies(pull(talk, "T", **asked))) == 1
    newer = pull(talk, "T", subVersion=int(talk.clock.seconds) + 1, **asked)
    assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert newer.raw_fields is not None
    assert newer.ext_fields == {}


@pytest.mark.parametrize(
    ("expression", "found"), [("A", 2), ("A || B", 5), (" A||", 2), (" ", None), (" || ", None), (" * ", None)]
)
def test_tags_are_cut_as_the_java_client_cuts_them(talk: TalkingBroker, expression: str, found: int | None) -> None:
    """broker-requests section 2.3: blanks are no tags, nor is a star among others."""
    for tag in "ABABB":
        talk.send("T", TAGS=tag)
    reply = pull(talk, "T", subscription=expression)
    assert (len(bodies(reply)) if found else reply.code) == (found or ResponseCode.PULL_RETRY_IMMEDIATELY)
    assert pull(talk, "T", subscription="||").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_namespaces_are_part_of_the_names(talk: TalkingBroker) -> None:
    """As 4.9's clients send them: `NS%topic`, `%RETRY%NS%group`.

    Nothing is created beside them.
    """
    talk.send("NS%orders", body=b"one")
    talk.heartbeat("NS%shop", "NS%orders", "%RETRY%NS%shop")
    assert talk.broker.topics.get("%RETRY%NS%shop") is not None
    (reply,) = talk.pull("NS%orders", consumerGroup="NS%shop", sysFlag=0, subscription=None)
    (message,) = decode_messages(reply.body)
    fields = {"offset": str(message.physical_offset), "group": "NS%shop", "delayLevel": "1"}
    assert talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields).code == ResponseCode.SUCCESS
    talk.clock.advance(2)
    talk.broker.delay.deliver_due()
    (again,) = decode_messages(pull(talk, "%RETRY%NS%shop").body)
    assert (again.body, again.properties["RETRY_TOPIC"]) == (b"one", "NS%orders")
    assert not {"orders", "shop", "%RETRY%shop"} & talk.broker.topics.topics.keys()


def test_a_group_that_may_not_broadcast_is_refused(talk: TalkingBroker) -> None:
    """Section 2.2, check 7c."""
    talk.send("T")
    talk.broker.subscriptions.put(SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False))
    talk.heartbeat("g", "T", messageModel="BROADCASTING")
    assert pull(talk, "T", consumerGroup="g", sysFlag=0).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "NoSuch"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Unreadable"}, ResponseCode.NO_PERMISSION),
        ({"consumerGroup": "Disabled"}, ResponseCode.NO_PERMISSION),
        ({"queueId": 4}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": -1}, ResponseCode.SYSTEM_ERROR),
        ({"expressionType": "SQL92", "subscription": "a > 1"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_pull_that_may_not_be(filled: TalkingBroker, changes: dict[str, object], code: ResponseCode) -> None:
    """broker-requests#36, section 2.2. Nothing is created by it."""
    filled.broker.topics.create_plain("Unreadable", 1, perm=2)
    filled.broker.subscriptions.put(SubscriptionGroupConfig(group_name="Disabled", consume_enable=False))
    fields = pull_fields("T") | {name: str(value) for name, value in changes.items()}
    reply = filled.ask(RequestCode.PULL_MESSAGE, fields)
    assert (reply.code, reply.ext_fields) == (code, {})
    assert filled.broker.topics.get("NoSuch") is None


def test_a_broker_may_be_closed_to_readers_or_to_new_groups(open_broker: Opener) -> None:
    """Section 2.2, checks 1 and 2."""
    write_only = open_broker("write-only", broker_permission=2)
    assert pull(write_only, "TBW102").code == ResponseCode.NO_PERMISSION
    closed = open_broker("closed", auto_create_subscription_group=False)
    assert pull(closed, "TBW102", consumerGroup="g").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert pull(closed, "TBW102").code == ResponseCode.PULL_NOT_FOUND


def test_a_pull_commits_on_a_master_and_not_on_a_slave(filled: TalkingBroker, slave: TalkingBroker) -> None:
    """broker-requests#33, store-ha#68; code 15 does on both."""
    replicate(filled, slave)
    for talk in (filled, slave):
        pull(talk, "T", consumerGroup="g", sysFlag=5, commitOffset=3)
    assert filled.broker.offsets.query("g", "T", 0) == 3
    assert slave.broker.offsets.query("g", "T", 0) is None
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "4"}
    slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert slave.broker.offsets.query("g", "T", 0) == 4


def test_a_pull_is_counted_by_group_and_a_miss_as_a_miss(filled: TalkingBroker) -> None:
    reply = pull(filled, "T", consumerGroup="g")
    pull(filled, "T", 5)
    stats = filled.broker.stats
    traffic = stats.items.group_gets["T@g"]
    assert (traffic.calls, traffic.messages, traffic.size) == (1, 5, len(reply.body))
    assert stats.misses == 1


@pytest.mark.parametrize(
    ("offset", "code", "following"),
    [
        (0, ResponseCode.SUCCESS, 5),
        (5, ResponseCode.PULL_NOT_FOUND, 5),
        (6, ResponseCode.PULL_RETRY_IMMEDIATELY, 6),
        (-1, ResponseCode.PULL_RETRY_IMMEDIATELY, -1),
    ],
)
def test_a_slave_never_moves_an_offset(
    filled: TalkingBroker, slave: TalkingBroker, offset: int, code: ResponseCode, following: int
) -> None:
    """broker-requests#65, #66, store-ha#65, #66: it serves with slaveReadEnable off."""
    replicate(filled, slave)
    reply = pull(slave, "T", offset)
    assert outcome(reply) == (code, following)
    assert reply.ext_fields["suggestWhichBrokerId"] == "0"


def test_an_empty_queue_of_a_slave(filled: TalkingBroker, slave: TalkingBroker) -> None:
    """store-ha#65."""
    replicate(filled, slave)
    assert outcome(pull(slave, "T", 7, queueId=1)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 7)
    assert outcome(pull(slave, "T", 0, queueId=1)) == (ResponseCode.PULL_NOT_FOUND, 0)


def test_a_slave_that_checks_offsets_moves_them(filled: TalkingBroker, open_broker: Opener) -> None:
    strict = open_broker("strict", broker_role="SLAVE", broker_id=1, offset_check_in_slave=True)
    replicate(filled, strict)
    assert outcome(pull(strict, "T", 6)) == (ResponseCode.PULL_OFFSET_MOVED, 5)


@pytest.mark.parametrize(
    ("is_enabled", "is_far_behind", "suggested"), [(False, True, 0), (True, True, 3), (True, False, 2)]
)
def test_which_broker_a_consumer_is_sent_to(
    open_broker: Opener, suggested: int, *, is_enabled: bool, is_far_behind: bool
) -> None:
    """store-ha#66, #67: with slaveReadEnable, by the reader's lag against memory."""
    memory = 1000 if is_far_behind else 1 << 40
    talk = open_broker(slave_read_enable=is_enabled, total_memory=memory)
    group = SubscriptionGroupConfig(group_name="g", broker_id=2, which_broker_when_consume_slowly=3)
    talk.broker.subscriptions.put(group)
    for _ in range(10):
        talk.send("T")
    reply = pull(talk, "T", maxMsgNums=1, consumerGroup="g")
    assert reply.ext_fields["suggestWhichBrokerId"] == str(suggested)


def test_a_slave_that_lacks_the_offset_sends_the_consumer_to_the_groups_broker(
    filled: TalkingBroker, slave: TalkingBroker
) -> None:
    """store-and-ha section 6.4: independent of slaveReadEnable."""
    replicate(filled, slave)
    slave.broker.subscriptions.put(SubscriptionGroupConfig(group_name="g", broker_id=2))
    assert pull(slave, "T", 9, consumerGroup="g").ext_fields["suggestWhichBrokerId"] == "2"
