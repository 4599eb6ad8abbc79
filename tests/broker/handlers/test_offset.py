"""Consumer offsets and queue bounds (broker-requests sections 3.7 to 3.9).

Items: broker-requests#43 to #45.
"""

import pytest

from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command


def query(talk: TalkingBroker, queue_id: int = 0, *, group: str = "g", topic: str = "T") -> Command:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
    return talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)


def commit(talk: TalkingBroker, offset: int, *, oneway: bool = False, **more: str) -> list[Command]:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset), **more}
    return talk.exchange(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=oneway)


def bound(talk: TalkingBroker, code: RequestCode, name: str = "offset", **fields: int | str) -> int:
    wanted = {"topic": "T", "queueId": 0} | fields
    reply = talk.ask(code, {key: str(value) for key, value in wanted.items()})
    assert reply.code == ResponseCode.SUCCESS
    return int(reply.ext_fields[name])


def test_a_committed_offset_is_given_back(talk: TalkingBroker) -> None:
    """broker-requests#43."""
    commit(talk, 7)
    assert query(talk).ext_fields == {"offset": "7"}


def test_an_offset_returned_by_a_slave_never_moves_an_offset_back(talk: TalkingBroker) -> None:
    """Consumers have gone on at the master while the request was on its way."""
    for offset, only_forward, known in [(7, "true", "7"), (5, "true", "7"), (9, "true", "9"), (6, "false", "6")]:
        commit(talk, offset, onlyForward=only_forward)
        assert query(talk).ext_fields == {"offset": known}


@pytest.mark.parametrize("topic", ["T", "NoSuch"])
def test_a_young_queue_starts_at_0_even_one_that_is_not_there(talk: TalkingBroker, topic: str) -> None:
    """broker-requests#43."""
    talk.send("T")
    for queue_id in (0, 1, 99):
        reply = query(talk, queue_id, topic=topic)
        assert (reply.code, reply.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})


def test_a_request_without_a_topic_finds_what_was_committed_without_one(talk: TalkingBroker) -> None:
    """As in 4.9.8, where looking for the queue fails."""
    fields = {"consumerGroup": "g", "queueId": "0"}
    assert talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields).code == ResponseCode.SYSTEM_ERROR
    talk.exchange(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "commitOffset": "7"})
    assert talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields).ext_fields == {"offset": "7"}


def test_a_queue_that_lost_its_beginning_is_not_found(talk: TalkingBroker) -> None:
    """broker-requests#43: any other code than 22 makes a consumer skip messages."""
    talk.send("T")
    talk.broker.store.queues.table["T", 0].min_position = 20
    reply = query(talk)
    assert (reply.code, reply.ext_fields) == (ResponseCode.QUERY_NOT_FOUND, {})


def test_a_queue_whose_beginning_is_far_from_the_end_is_not_found(talk: TalkingBroker) -> None:
    """broker-requests#43: by distance against memory."""
    talk.send("T")
    talk.send("T", body=bytes(1000))
    assert query(talk).code == ResponseCode.SUCCESS
    talk.broker.reconfigure(talk.broker.settings.changed({"totalMemory": "1000"}))
    assert query(talk).code == ResponseCode.QUERY_NOT_FOUND


def test_an_offset_may_go_back_and_that_is_made_known(talk: TalkingBroker) -> None:
    """broker-requests#44: oneway and as a call."""
    (reply,) = commit(talk, 7)
    assert (reply.code, reply.ext_fields) == (ResponseCode.SUCCESS, {})
    assert commit(talk, 3, oneway=True) == []
    assert query(talk).ext_fields == {"offset": "3"}
    assert [(kind, fields["before"], fields["after"]) for kind, fields in talk.events] == [("offset_moved_back", 7, 3)]


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUME_STATS, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET])
def test_a_commit_of_an_operator_s_connection_is_recorded_as_a_reset(talk: TalkingBroker, code: RequestCode) -> None:
    """Without members online, mqadmin and `rmqlab offsets reset` commit offsets."""
    commit(talk, 7)
    assert talk.events == []
    talk.ask(code, {"consumerGroup": "g", "group": "g", "topic": "T", "timestamp": "0", "isForce": "true"})
    commit(talk, 3)
    assert talk.events[0] == ("offset_reset", {"group": "g", "topic": "T"})
    assert talk.events[1][0] == "offset_moved_back"


def test_a_member_that_asked_for_consume_stats_still_commits(talk: TalkingBroker) -> None:
    """An application can consume and look at its lag over one connection."""
    talk.heartbeat("g", "T")
    talk.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "T"})
    commit(talk, 7)
    assert [kind for kind, _ in talk.events if kind == "offset_reset"] == []


def test_a_pull_that_moves_an_offset_back_makes_that_known_too(talk: TalkingBroker) -> None:
    talk.send("T")
    commit(talk, 7)
    talk.pull("T", consumerGroup="g", sysFlag=5, commitOffset=3)
    assert query(talk).ext_fields == {"offset": "3"}
    assert [(kind, fields["before"], fields["after"]) for kind, fields in talk.events] == [("offset_moved_back", 7, 3)]


def test_bounds_of_queues(talk: TalkingBroker) -> None:
    """broker-requests#45; an unknown queue is as empty as an empty one."""
    for _ in range(3):
        talk.send("T")
    assert bound(talk, RequestCode.GET_MAX_OFFSET) == 3
    assert bound(talk, RequestCode.GET_MIN_OFFSET) == 0
    for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
        assert bound(talk, code, queueId=99) == 0
        assert bound(talk, code, topic="NoSuch") == 0


@pytest.mark.parametrize(
    ("seconds", "offset"), [(-100, 0), (0, 0), (4, 0), (6, 1), (10, 1), (14, 1), (20, 2), (1000, 2)]
)
def test_search_by_time_gives_the_nearest_message(talk: TalkingBroker, seconds: int, offset: int) -> None:
    """broker-requests#45: after the last one it is the last one, not the end."""
    began = talk.clock.now_millis()
    for _ in range(3):
        talk.send("T")
        talk.clock.advance(10)
    found = bound(talk, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=began + seconds * 1000)
    assert found == offset


def test_search_in_an_empty_queue_gives_0(talk: TalkingBroker) -> None:
    """broker-requests#45."""
    assert bound(talk, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0) == 0


def test_store_time_of_the_first_message(talk: TalkingBroker) -> None:
    """Section 3.9: -1 for an empty queue."""
    assert bound(talk, RequestCode.GET_EARLIEST_MSG_STORETIME, "timestamp") == -1
    began = talk.clock.now_millis()
    talk.send("T")
    talk.clock.advance(5)
    talk.send("T")
    assert bound(talk, RequestCode.GET_EARLIEST_MSG_STORETIME, "timestamp") == began


def test_all_offsets_have_bare_queue_numbers_as_keys(talk: TalkingBroker) -> None:
    """broker-requests#54, store-ha#59: what a slave copies."""
    commit(talk, 7)
    talk.broker.offsets.commit("g", "T", 1, 8)
    reply = talk.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert reply.body == b'{"offsetTable":{"T@g":{0:7,1:8}}}'
    assert ConsumerOffsets.decode(reply.body).offset_table == {"T@g": {0: 7, 1: 8}}


def test_a_slave_answers_from_its_own_queues_and_offsets(slave: TalkingBroker) -> None:
    """broker-requests section 7."""
    commit(slave, 5)
    assert query(slave).ext_fields == {"offset": "5"}
    assert bound(slave, RequestCode.GET_MAX_OFFSET) == 0
