"""Finding messages (broker-requests sections 5 and 6.2, #18, #53, #63)."""

import pytest

from rmqlab.broker.handlers.query import release_waiting_queries
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting.bodies.queue import QueryConsumeQueueResponseBody
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_messages
from rmqlab.store.messagestore import MessageStore

FOREVER = {"beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}


def query(talk: TalkingBroker, key: str, *, max_num: int = 64, **changes: str) -> Command:
    fields = {"topic": "T", "key": key, "maxNum": str(max_num), **FOREVER, **changes}
    return talk.ask(RequestCode.QUERY_MESSAGE, fields)


def found(reply: Command) -> list[bytes]:
    assert reply.code == ResponseCode.SUCCESS
    return [message.body for message in decode_messages(reply.body)]


def queue(talk: TalkingBroker, **changes: object) -> Command:
    fields = {"topic": "T", "queueId": 0, "index": 0, "count": 5} | changes
    return talk.ask(RequestCode.QUERY_CONSUME_QUEUE, {name: str(value) for name, value in fields.items()})


@pytest.mark.parametrize("key", ["k1", "k2", "unique-1"])
def test_a_message_is_found_by_each_of_its_keys(talk: TalkingBroker, key: str) -> None:
    """broker-requests#53."""
    talk.send("T", body=b"found", KEYS="k1 k2", UNIQ_KEY="unique-1")
    talk.send("T", body=b"other", KEYS="k3")
    talk.send("U", body=b"other topic", KEYS=key)
    reply = query(talk, key)
    assert found(reply) == [b"found"]
    last = talk.broker.store.max_commit_log_offset
    assert 0 < int(reply.ext_fields["indexLastUpdatePhyoffset"]) < last
    assert reply.ext_fields["indexLastUpdateTimestamp"] == str(talk.clock.now_millis())


def test_nothing_found_still_has_both_fields(talk: TalkingBroker) -> None:
    """broker-requests#53; with no index at all they are 0, as in recording b4."""
    reply = query(talk, "no-such-key")
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    assert reply.ext_fields == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


def test_on_a_slave_that_copies_much_a_query_waits_for_the_index(talk: TalkingBroker, slave: TalkingBroker) -> None:
    """Section 3.4: messages in the queues are found.

    The index is taken along then, to where the queues were.
    """
    for number in range(600):
        talk.send("T", body=b"%d" % number * 200, KEYS=f"k{number}")
    source, copy = talk.broker.store, slave.broker.store
    while copy.max_commit_log_offset < source.max_commit_log_offset:
        assert copy.append_raw(copy.max_commit_log_offset, source.read_log(copy.max_commit_log_offset, 65536))
    copy.dispatch(100_000)
    fields = {"topic": "T", "key": "k9", "maxNum": "64", **FOREVER}
    assert slave.exchange(RequestCode.QUERY_MESSAGE, fields) == []
    release_waiting_queries(slave.broker)
    assert slave.peer.replies == []
    copy.dispatch(100_000, may_index=False)
    release_waiting_queries(slave.broker)
    (reply,) = slave.peer.replies
    assert found(reply) == [b"9" * 200]
    assert copy.dispatcher.is_index_behind
    while copy.dispatch(100_000):
        pass
    assert found(query(slave, "k599")) == [b"599" * 200]


def test_a_query_is_bound_by_time_and_number(talk: TalkingBroker) -> None:
    """Section 5.1: the newest are returned, in the order of the log."""
    for number in range(4):
        talk.send("T", body=b"%d" % number, KEYS="k")
        talk.clock.advance(10)
    assert found(query(talk, "k", max_num=2)) == [b"2", b"3"]
    now = talk.clock.now_millis()
    assert found(query(talk, "k", beginTimestamp=str(now - 31_000), endTimestamp=str(now - 19_000))) == [b"1", b"2"]


@pytest.mark.parametrize(("flag", "count"), [("false", 64), ("true", 32), ("TRUE", 64)])
def test_a_query_by_unique_key_gives_at_most_32(talk: TalkingBroker, flag: str, count: int) -> None:
    """Section 5.1; by key 64, independent of the requested number."""
    for _ in range(70):
        talk.send("T", KEYS="k")
    assert len(found(query(talk, "k", max_num=1000, _UNIQUE_KEY_QUERY=flag))) == count


@pytest.mark.parametrize(
    ("flag", "code"),
    [("true", ResponseCode.SUCCESS), ("TRUE", ResponseCode.SYSTEM_ERROR), ("false", ResponseCode.SYSTEM_ERROR)],
)
def test_a_negative_number_counts_only_without_a_unique_key(talk: TalkingBroker, flag: str, code: ResponseCode) -> None:
    """Class QueryMessageProcessor: only the text `true` replaces the number."""
    talk.send("T", KEYS="k")
    assert query(talk, "k", max_num=-1, _UNIQUE_KEY_QUERY=flag).code == code


def test_a_message_is_viewed_by_its_offset(talk: TalkingBroker) -> None:
    """Section 5.2: no ext fields."""
    talk.send("T", body=b"first")
    reply = talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0", "topic": "T"})
    assert (found(reply), reply.raw_fields) == ([b"first"], None)


@pytest.mark.parametrize("offset", [1, -1, 268_435_455])
def test_an_offset_where_no_message_begins_is_a_system_error(talk: TalkingBroker, offset: int) -> None:
    talk.send("T")
    assert talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}).code == ResponseCode.SYSTEM_ERROR


def test_a_delayed_message_is_found_under_the_schedule_topic(talk: TalkingBroker) -> None:
    """Section 5.1."""
    talk.send("T", KEYS="k", DELAY="3")
    assert query(talk, "k").code == ResponseCode.QUERY_NOT_FOUND
    assert len(found(query(talk, "k", topic="SCHEDULE_TOPIC_XXXX"))) == 1


def test_entries_of_a_queue(talk: TalkingBroker) -> None:
    """broker-requests#63 (queryCq): without a group there is no word of a filter."""
    for tag in ("TagB", "TagA", ""):
        talk.send("T", TAGS=tag) if tag else talk.send("T")
    reply = queue(talk, index=1)
    sizes = [entry[1] for entry in talk.broker.store.queue_entries("T", 0, 0, 3)]
    expected = (
        '{"maxQueueIndex":3,"minQueueIndex":0,"queueData":['
        f'{{"eval":false,"physicOffset":{sizes[0]},"physicSize":{sizes[1]},"tagsCode":2598919}},'
        f'{{"eval":false,"physicOffset":{sizes[0] + sizes[1]},"physicSize":{sizes[2]},"tagsCode":0}}]}}'
    )
    assert reply.body.decode() == expected


@pytest.mark.parametrize(("count", "given"), [(2, 2), (0, 0), (-1, 0), (100, 3)])
def test_how_many_entries_are_given(talk: TalkingBroker, count: int, given: int) -> None:
    for _ in range(3):
        talk.send("T")
    body = queue(talk, count=count).body
    data = QueryConsumeQueueResponseBody.decode(body).queue_data
    assert data is not None
    assert len(data) == given


def test_one_reply_has_10000_entries_at_most(talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[int]()
    talk.send("T")

    def count_them(_store: MessageStore, _topic: str, _queue_id: int, _begin: int, count: int) -> list[object]:
        counts.append(count)
        return []

    monkeypatch.setattr(MessageStore, "queue_entries", count_them)
    for count in (9_999, 10_001, 100_000_000):
        queue(talk, count=count)
    assert counts == [9_999, 10_000, 10_000]


def test_a_group_is_shown_with_its_subscription_or_as_offline(talk: TalkingBroker) -> None:
    talk.send("T")
    talk.heartbeat("G", "T", expression="A")
    online = QueryConsumeQueueResponseBody.decode(queue(talk, consumerGroup="G").body)
    assert online.filter_data == "null"
    assert online.subscription_data is not None
    assert online.subscription_data.sub_string == "A"
    offline = QueryConsumeQueueResponseBody.decode(queue(talk, consumerGroup="H").body)
    assert (offline.filter_data, offline.subscription_data) == ("H@T is not online!", None)


@pytest.mark.parametrize("index", [1, 99, -1])
def test_an_index_outside_of_the_queue_has_no_body(talk: TalkingBroker, index: int) -> None:
    talk.send("T")
    reply = queue(talk, index=index)
    assert (reply.code, reply.body) == (ResponseCode.SUCCESS, b"")


@pytest.mark.parametrize("changes", [{"topic": "NoSuch"}, {"queueId": 7}])
def test_an_unknown_queue_is_a_system_error(talk: TalkingBroker, changes: dict[str, object]) -> None:
    talk.send("T")
    assert queue(talk, **changes).code == ResponseCode.SYSTEM_ERROR


def test_a_slave_finds_what_it_has_copied(talk: TalkingBroker, slave: TalkingBroker) -> None:
    """broker-requests#64."""
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", KEYS="k"), b"copied")
    slave.broker.store.append_raw(0, talk.broker.store.read_log(0, 1 << 20))
    slave.broker.store.dispatch()
    assert found(query(slave, "k")) == [b"copied"]
    assert found(slave.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})) == [b"copied"]
