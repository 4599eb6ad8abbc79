"""Progress of groups (broker-requests section 6.3, #54, #56, #60)."""

import pytest

from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.offset import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
)
from rmqlab.remoting.bodies.topic import GroupList
from rmqlab.remoting.codes import RequestCode, ResponseCode


@pytest.fixture
def lagging(talk: TalkingBroker) -> TalkingBroker:
    """Topic T has 3 messages in queue 0, 10 s apart; group g has consumed 2 of them.

    U has one, which no group reads.
    """
    for number in range(3):
        talk.send("T", body=b"%d" % number)
        talk.clock.advance(10)
    talk.send("U")
    talk.broker.offsets.commit("g", "T", 0, 2)
    return talk


def stats(talk: TalkingBroker, group: str = "g", **fields: str) -> ConsumeStats:
    reply = talk.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, **fields})
    assert reply.code == ResponseCode.SUCCESS
    return ConsumeStats.decode(reply.body)


def positions(body: ConsumeStats) -> dict[tuple[str, int], OffsetWrapper]:
    return {(queue.topic, queue.queue_id): position for queue, position in body.offset_table.items()}


def test_progress_has_one_entry_per_queue_of_each_topic_with_offsets(lagging: TalkingBroker) -> None:
    """broker-requests#56 (consumerProgress): a queue without an offset counts from 0."""
    table = positions(stats(lagging))
    assert sorted(table) == [("T", 0), ("T", 1), ("T", 2), ("T", 3)]
    consumed_at = lagging.clock.now_millis() - 20_000
    assert table["T", 0] == OffsetWrapper(broker_offset=3, consumer_offset=2, last_timestamp=consumed_at)
    assert table["T", 1] == OffsetWrapper()


def test_object_keys_are_written_without_blanks(lagging: TalkingBroker) -> None:
    """broker-requests#54."""
    body = lagging.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}).body
    assert body.startswith(b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{')
    assert b" " not in body


def test_an_unknown_group_has_no_progress(lagging: TalkingBroker) -> None:
    """broker-requests#60."""
    reply = lagging.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "Nobody"})
    assert (reply.code, reply.body) == (ResponseCode.SUCCESS, b'{"consumeTps":0.0,"offsetTable":{}}')


@pytest.mark.parametrize(("topic", "count"), [("U", 4), ("NoSuch", 0), ("", 4), (" ", 4), (" U ", 0)])
def test_one_topic_can_be_asked_for(lagging: TalkingBroker, topic: str, count: int) -> None:
    assert len(stats(lagging, topic=topic).offset_table) == count


def test_a_topic_that_an_online_group_gave_up_is_left_out(lagging: TalkingBroker) -> None:
    lagging.broker.offsets.commit("g", "U", 0, 0)
    lagging.heartbeat("g", "U")
    assert {topic for topic, _ in positions(stats(lagging))} == {"U"}


def test_consume_tps_is_that_of_the_last_minute(lagging: TalkingBroker) -> None:
    lagging.broker.stats.count_get("T", "g", 30, 1)
    lagging.clock.advance(10)
    lagging.broker.stats.sample(lagging.clock.now_millis())
    assert stats(lagging).consume_tps == 3.0


def test_progress_of_all_groups_at_once(lagging: TalkingBroker) -> None:
    """broker-requests#56 (brokerConsumeStats): groups without offsets are empty."""
    lagging.broker.subscriptions.find("g")
    body = ConsumeStatsList.decode(lagging.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)
    groups = {name: stats for one in body.consume_stats_list for name, stats in one.items()}
    assert groups.keys() == lagging.broker.subscriptions.groups.keys()
    assert groups["TOOLS_CONSUMER"] == []
    assert positions(groups["g"][0])["T", 0].broker_offset == 3
    assert (body.broker_addr, body.total_diff) == ("127.0.0.1:10911", 1)
    ordered = ConsumeStatsList.decode(lagging.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}).body)
    assert ordered.total_diff == 0


def test_the_sum_of_all_lags_wraps_as_in_java(lagging: TalkingBroker) -> None:
    """A Java tool cannot parse more than 64 bits.

    Source: AdminBrokerProcessor.fetchAllConsumeStatsInBroker.
    """
    lagging.broker.subscriptions.find("g")
    for queue_id in (0, 1):
        lagging.broker.offsets.commit("g", "T", queue_id, 2**63 - 1)
    body = ConsumeStatsList.decode(lagging.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)
    ends = sum(lagging.broker.store.max_queue_offset("T", queue_id) for queue_id in (0, 1))
    assert body.total_diff == ends + 2


def test_groups_that_consume_a_topic_are_listed(lagging: TalkingBroker) -> None:
    """Groups online, and groups with offsets (broker-requests section 6.3)."""
    lagging.heartbeat("online", "T")

    def groups(topic: str) -> list[str]:
        reply = lagging.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        return GroupList.decode(reply.body).group_list

    assert (groups("T"), groups("U"), groups("NoSuch")) == (["g", "online"], [], [])


def test_time_span_of_what_is_consumed(lagging: TalkingBroker) -> None:
    reply = lagging.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"})
    span, empty = QueryConsumeTimeSpanBody.decode(reply.body).consume_time_span_set[:2]
    now = lagging.clock.now_millis()
    assert (span.min_time_stamp, span.consume_time_stamp, span.max_time_stamp) == (
        now - 30_000, now - 20_000, now - 10_000,
    )  # fmt: skip
    assert span.delay_time == 10_000  # the age of the next message
    assert span.min_time_stamp_str is not None
    assert len(span.min_time_stamp_str) == len("2027-01-15#08:16:40:000")
    assert (empty.min_time_stamp, empty.max_time_stamp, empty.delay_time) == (-1, -1, now + 1)
    unknown = lagging.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "NoSuch", "group": "g"})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


def test_correction_offsets_are_the_lowest_of_all_groups(lagging: TalkingBroker) -> None:
    """broker-requests section 6.3."""
    offsets = lagging.broker.offsets
    offsets.commit("h", "T", 0, 1)
    offsets.commit("h", "T", 1, 4)
    offsets.commit("out", "T", 0, 0)
    fields = {"topic": "T", "compareGroup": "late", "filterGroups": "out"}
    reply = lagging.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
    assert reply.body == b'{"correctionOffsets":{0:1,1:4}}'
    assert offsets.query("out", "T", 0) == 0


def test_correction_offsets_are_compared_with_topic_and_group_exchanged(lagging: TalkingBroker) -> None:
    """AdminBrokerProcessor.queryCorrectionOffset."""
    offsets = lagging.broker.offsets
    fields = {"topic": "T", "compareGroup": "h"}
    for queue_id in range(2):
        offsets.commit("h", "T", queue_id, 1)
        offsets.commit("late", "T", queue_id, 9)

    def corrections() -> dict[int, int]:
        reply = lagging.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields | {"filterGroups": "h,g"})
        return QueryCorrectionOffsetBody.decode(reply.body).correction_offsets

    assert corrections() == {0: 9, 1: 9}
    offsets.commit("T", "h", 0, 8)
    offsets.commit("T", "h", 1, 9)
    assert corrections() == {0: 2**63 - 1, 1: 9}
    offsets.commit("T", "h", 2, 0)
    assert lagging.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("topic", "cloned"), [("T", {"T"}), ("", {"T", "U"}), ("NoSuch", set())])
def test_offsets_are_cloned(lagging: TalkingBroker, topic: str, cloned: set[str]) -> None:
    lagging.broker.offsets.commit("g", "U", 0, 1)
    lagging.broker.offsets.commit("g", "NoSuch", 0, 1)
    fields = {"srcGroup": "g", "destGroup": "copy", "topic": topic, "offline": "true"}
    assert lagging.ask(RequestCode.CLONE_GROUP_OFFSET, fields).code == ResponseCode.SUCCESS
    assert set(lagging.broker.offsets.topics_of("copy")) == cloned
    assert {fields["topic"] for kind, fields in lagging.events if kind == "offset_reset"} == cloned
    if topic == "T":
        assert lagging.broker.offsets.query("copy", "T", 0) == 2


@pytest.mark.parametrize("group", ["", "a@b"])
def test_offsets_of_a_group_whose_key_does_not_split_in_two_are_kept_and_listed_nowhere(
    lagging: TalkingBroker, group: str
) -> None:
    """As ConsumerOffsetManager reads its keys: `T@` and `T@a@b` belong to no group."""
    lagging.broker.offsets.commit(group, "T", 0, 1)
    reply = lagging.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
    assert GroupList.decode(reply.body).group_list == ["g"]
    assert positions(stats(lagging, group)) == {}
    assert lagging.broker.offsets.query(group, "T", 0) == 1
