"""Long replies in slices."""

from collections.abc import Callable

import pytest

from rmqlab.broker.scripted import ScriptedPeer, ScriptedTurns
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.offset import ConsumeStats, ConsumeStatsList
from rmqlab.remoting.bodies.topic import TopicStatsTable
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request
from rmqlab.runtime.net.slices import MAX_WAITING, UNITS_AT_ONCE, Parts, Slices, Work


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.runtime.net.slices.SECONDS_AT_ONCE", 1000.0)


def work(units: int, failure: Exception | None = None) -> Work:
    for _ in range(units):
        yield
    if failure is not None:
        raise failure
    return Reply(remark="done")


def open_slices() -> tuple[Slices, ScriptedTurns, Callable[[], Request]]:
    turns = ScriptedTurns(is_collecting=True)
    return Slices(turns.later, InternalErrors()), turns, lambda: Request(Command(202), ScriptedPeer())


def test_short_work_is_answered_at_once() -> None:
    slices, turns, request = open_slices()
    reply = slices.begin(work(UNITS_AT_ONCE - 1), request())
    assert reply is not None
    assert turns.waiting == []


def test_long_requests_are_processed_one_after_the_other() -> None:
    slices, turns, request = open_slices()
    first, second = request(), request()
    assert slices.begin(work(3 * UNITS_AT_ONCE), first) is None
    assert slices.begin(work(2 * UNITS_AT_ONCE), second) is None
    assert len(turns.waiting) == 1
    assert turns.run_all() == 3 + 2
    assert [len(one.channel.replies) for one in (first, second)] == [1, 1]


def test_work_for_a_peer_that_is_gone_ends() -> None:
    slices, turns, request = open_slices()
    gone, other = request(), request()
    slices.begin(work(10**9), gone)
    slices.begin(work(UNITS_AT_ONCE), other)
    gone.channel.is_closed = True
    turns.run_all()
    assert [len(one.channel.replies) for one in (gone, other)] == [0, 1]


def test_a_failure_in_a_later_slice_gets_an_error_reply() -> None:
    slices, turns, request = open_slices()
    refused, broken, invalid = request(), request(), request()
    slices.begin(work(UNITS_AT_ONCE, Refusal(ResponseCode.TOPIC_NOT_EXIST, "no")), refused)
    slices.begin(work(UNITS_AT_ONCE, RuntimeError("on purpose")), broken)
    slices.begin(work(UNITS_AT_ONCE, BodyError("a body that is invalid near its end")), invalid)
    turns.run_all()
    assert [one.channel.replies[0].code for one in (refused, broken, invalid)] == [
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_ERROR,
    ]
    assert slices.errors.counts == {"request 202": 1}


def test_so_many_wait() -> None:
    slices, _, request = open_slices()
    for _ in range(MAX_WAITING):
        slices.begin(work(UNITS_AT_ONCE), request())
    with pytest.raises(Refusal):
        slices.begin(work(UNITS_AT_ONCE), request())


def test_an_answer_does_not_outgrow_a_frame() -> None:
    parts = Parts()
    for _ in range(16):
        parts.add(b"x" * 2**20)
    with pytest.raises(Refusal, match="exceed the frame limit"):
        parts.add(b"x")


@pytest.fixture
def wide(talk: TalkingBroker) -> tuple[TalkingBroker, ScriptedTurns]:
    """A broker with a topic of 2,000 queues, in each of which a group has committed."""
    talk.turns.is_collecting = True
    fields = {
        "topic": "Wide", "readQueueNums": "2000", "writeQueueNums": "2000", "perm": "6", "order": "false",
        "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG",
    }  # fmt: skip
    assert talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == ResponseCode.SUCCESS
    for queue_id in range(2000):
        talk.broker.offsets.commit("g", "Wide", queue_id, 0)
    return talk, talk.turns


def test_the_bounds_of_many_queues_are_computed_in_slices(wide: tuple[TalkingBroker, ScriptedTurns]) -> None:
    """Issue 12.6: request 202 about 300,000 queues stopped everybody for 1.8 s."""
    talk, turns = wide
    assert talk.exchange(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Wide"}) == []
    assert turns.run_all() == 2000 // UNITS_AT_ONCE
    table = TopicStatsTable.decode(talk.peer.replies[-1].body)
    assert len(table.offset_table) == 2000
    assert table.encode() == talk.peer.replies[-1].body


def test_so_do_a_groups_positions(wide: tuple[TalkingBroker, ScriptedTurns]) -> None:
    talk, turns = wide
    assert talk.exchange(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}) == []
    assert turns.run_all() == 2000 // UNITS_AT_ONCE
    stats = ConsumeStats.decode(talk.peer.replies[-1].body)
    assert len(stats.offset_table) == 2000
    assert stats.encode() == talk.peer.replies[-1].body


def test_so_do_those_of_all_groups(wide: tuple[TalkingBroker, ScriptedTurns]) -> None:
    talk, turns = wide
    talk.broker.subscriptions.find("g")
    assert talk.exchange(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}) == []
    turns.run_all()
    stats = ConsumeStatsList.decode(talk.peer.replies[-1].body)
    (of_group,) = [one["g"] for one in stats.consume_stats_list if "g" in one]
    assert len(of_group[0].offset_table) == 2000
    assert stats.encode() == talk.peer.replies[-1].body


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "Wide", "group": "g"}),
        (
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            {"topic": "Wide", "group": "g", "timestamp": "0", "isForce": "true"},
        ),
    ],
)
def test_so_does_what_else_goes_through_all_queues(
    wide: tuple[TalkingBroker, ScriptedTurns], code: RequestCode, fields: dict[str, str]
) -> None:
    talk, turns = wide
    talk.heartbeat("g", "Wide")
    turns.run_all()  # of the notice to rebalance
    assert talk.exchange(code, fields) == []
    assert turns.run_all() == 2000 // UNITS_AT_ONCE
    assert talk.peer.replies[-1].code == ResponseCode.SUCCESS
    assert talk.peer.replies[-1].body.count(b'"queueId":') == 2000


def test_a_topic_has_so_many_queues(talk: TalkingBroker) -> None:
    """Issue 12.6: 2^31 - 1 queues were accepted."""
    fields = {
        "topic": "T", "readQueueNums": "4", "writeQueueNums": str(2**31 - 1), "perm": "6", "order": "false",
        "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG",
    }  # fmt: skip
    reply = talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "a topic has at most 32768 queues here")
    assert talk.broker.topics.get("T") is None
