"""Topic administration (broker-requests section 6.2, #57, #62, #64)."""

from collections.abc import Callable

import msgspec
import pytest

from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList, TopicStatsTable
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import ROCKETMQ

OpenBroker = Callable[..., TalkingBroker]


def create(talk: TalkingBroker, topic: str, *, read: int = 4, write: int = 4, perm: int = 6) -> Command:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(read),
        "writeQueueNums": str(write),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "true",
    }
    return talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def all_topics(talk: TalkingBroker) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper.decode(talk.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)


def test_a_topic_is_made_changed_and_deleted_each_with_a_new_version(talk: TalkingBroker) -> None:
    """broker-requests#57."""
    before = all_topics(talk)
    assert create(talk, "TAdmin").code == ResponseCode.SUCCESS
    made = all_topics(talk)
    expected = TopicConfig(topic_name="TAdmin", read_queue_nums=4, write_queue_nums=4)
    assert made.topic_config_table["TAdmin"] == expected
    assert made.data_version != before.data_version
    assert create(talk, "TAdmin", read=2, write=8, perm=4).code == ResponseCode.SUCCESS
    changed = all_topics(talk)
    assert changed.topic_config_table["TAdmin"] == msgspec.structs.replace(
        expected, read_queue_nums=2, write_queue_nums=8, perm=4
    )
    assert talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TAdmin"}).code == ResponseCode.SUCCESS
    deleted = all_topics(talk)
    assert "TAdmin" not in deleted.topic_config_table
    assert len({wrapper.data_version.counter for wrapper in (before, made, changed, deleted)}) == 4


def test_a_new_topic_is_registered_at_once_on_its_own(talk: TalkingBroker) -> None:
    create(talk, "TAdmin")
    assert talk.registration.calls == [("TAdmin", False)]


@pytest.mark.parametrize(
    "topic", ["", "a b", "a.b", "x" * 128, "TBW102", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a"]
)
def test_no_tool_may_touch_an_illegal_or_a_system_topic(talk: TalkingBroker, topic: str) -> None:
    assert create(talk, topic).code == ResponseCode.SYSTEM_ERROR
    assert talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}).code == ResponseCode.SYSTEM_ERROR


def test_deleting_an_unknown_topic_succeeds(talk: TalkingBroker) -> None:
    assert talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "NoSuch"}).code == ResponseCode.SUCCESS


def test_a_deleted_topic_restarts_empty_and_keeps_its_offsets(talk: TalkingBroker) -> None:
    create(talk, "TAdmin")
    talk.send("TAdmin", 0)
    talk.broker.offsets.commit("g", "TAdmin", 0, 1)
    talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TAdmin"})
    assert talk.events[-1] == ("topic_deleted", {"topic": "TAdmin"})
    assert talk.broker.store.max_queue_offset("TAdmin", 0) == 0
    assert talk.broker.offsets.query("g", "TAdmin", 0) == 1
    create(talk, "TAdmin")
    assert talk.send("TAdmin", 0).ext_fields["queueOffset"] == "0"


def test_topic_stats_have_one_entry_per_write_queue(talk: TalkingBroker) -> None:
    create(talk, "TAdmin", read=4, write=2)
    talk.clock.advance(5)
    talk.send("TAdmin", 1)
    reply = talk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "TAdmin"})
    assert reply.raw_fields is None
    table = TopicStatsTable.decode(reply.body).offset_table
    by_queue = {queue.queue_id: bounds for queue, bounds in table.items()}
    assert sorted(by_queue) == [0, 1]
    assert (by_queue[0].min_offset, by_queue[0].max_offset, by_queue[0].last_update_timestamp) == (0, 0, 0)
    assert (by_queue[1].max_offset, by_queue[1].last_update_timestamp) == (1, talk.clock.now_millis())


def test_object_keys_are_written_without_blanks(talk: TalkingBroker) -> None:
    """broker-requests#54."""
    create(talk, "TAdmin", write=1)
    body = talk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "TAdmin"}).body
    assert body == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TAdmin"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}}}'
    )


@pytest.mark.parametrize("code", [RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_TOPIC_CONFIG])
def test_an_unknown_topic_is_answered_with_17(open_broker: OpenBroker, code: RequestCode) -> None:
    """broker-requests#62 for 351."""
    talk = open_broker(serve_requests_of_5x=True)
    assert talk.ask(code, {"topic": "NoSuch"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_one_topic_is_given_to_tools_of_5x(open_broker: OpenBroker) -> None:
    """broker-requests#62."""
    talk = open_broker(serve_requests_of_5x=True)
    create(talk, "TAdmin")
    reply = talk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "TAdmin", "lo": "true"})
    assert TopicConfig.decode(reply.body) == talk.broker.topics.get("TAdmin")


def test_system_topics_are_the_topics_that_the_broker_creates(talk: TalkingBroker) -> None:
    topics = TopicList.decode(talk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body).topic_list
    assert {"TBW102", "BenchmarkTest", "DefaultCluster", "broker-a", names.SCHEDULE_TOPIC} <= set(topics)


def test_cleaning_unused_topics_drops_the_queues_of_topics_that_are_gone(talk: TalkingBroker) -> None:
    create(talk, "TAdmin")
    talk.send("TAdmin", 0)
    talk.send("Kept", 0)
    talk.broker.topics.delete("TAdmin")
    assert talk.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert {topic for topic, _ in talk.broker.store.topics_queues()} == {"Kept"}


def test_a_slave_leaves_topics_to_its_master(slave: TalkingBroker) -> None:
    """broker-requests#64: 17 and 215 are refused, the rest is served."""
    assert create(slave, "TAdmin").code == ResponseCode.SYSTEM_ERROR
    assert slave.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TAdmin"}).code == ResponseCode.SYSTEM_ERROR
    assert slave.broker.topics.get("TAdmin") is None
    assert slave.ask(RequestCode.GET_ALL_TOPIC_CONFIG).code == ResponseCode.SUCCESS
    assert slave.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "TBW102"}).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    ],
)
def test_a_slave_refuses_before_it_reads_what_is_asked(slave: TalkingBroker, code: RequestCode) -> None:
    """broker-requests#64: so the reply is its handler's, in the codec of the request."""
    (reply,) = slave.serve(Command(code, serialize_type=ROCKETMQ))
    assert (reply.code, reply.serialize_type) == (ResponseCode.SYSTEM_ERROR, ROCKETMQ)
    assert "slave" in (reply.remark or "")
