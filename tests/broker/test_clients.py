"""Clients by heartbeat: bounds of what they add to the tables (issue 12.6).

Bounds hold for one connection, and for all together.
"""

import json
from typing import Any

import attrs
import msgspec
import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.stats import BrokerStats
from rmqlab.broker.statsitems import MAX_KEY_SIZE, MAX_KEYS, StatsItems
from rmqlab.broker.tables.clients import ConsumerTable, Member, ProducerTable, subscriptions_size
from rmqlab.broker.tables.locks import LOCK_LIFE, LockedQueue, QueueLocks
from rmqlab.broker.tables.memberships import MAX_NAME_SIZE, TooManyClientsError
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqlab.remoting.codes import RequestCode, ResponseCode


def member(channel: Any, client_id: str = "c@1") -> Member:
    return Member(channel, client_id, "JAVA", 400, 0.0)


@attrs.define
class Filters:
    """Notes of which groups the last member is gone."""

    unregistered: list[str] = attrs.field(factory=list)

    def unregister(self, group_name: str) -> None:
        self.unregistered.append(group_name)


def consumer(group: str, *topics: str, expression: str = "*", version: int = 1) -> ConsumerData:
    subscriptions = [SubscriptionData(topic=topic, sub_string=expression, sub_version=version) for topic in topics]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


def test_a_connection_is_in_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.tables.memberships.MAX_GROUPS_OF_CHANNEL", 2)
    consumers, producers, one, other = ConsumerTable(Filters()), ProducerTable(), ScriptedPeer(), ScriptedPeer()
    for name in ("a", "b", "a"):
        consumers.register(consumer(name), member(one))
        producers.register(name, member(one))
    with pytest.raises(TooManyClientsError):
        consumers.register(consumer("c"), member(one))
    with pytest.raises(TooManyClientsError):
        producers.register("c", member(one))
    consumers.register(consumer("c"), member(other))
    producers.register("c", member(other))
    consumers.leave("a", one)  # type: ignore[arg-type]
    producers.leave("a", one)  # type: ignore[arg-type]
    consumers.register(consumer("c"), member(one))
    producers.register("c", member(one))


def test_all_groups_have_so_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.tables.memberships.MAX_MEMBERS", 2)
    consumers, producers = ConsumerTable(Filters()), ProducerTable()
    peers: list[Any] = [ScriptedPeer() for _ in range(3)]
    for peer in peers[:2]:
        consumers.register(consumer("g"), member(peer))
        producers.register("g", member(peer))
    with pytest.raises(TooManyClientsError):
        consumers.register(consumer("g"), member(peers[2]))
    with pytest.raises(TooManyClientsError):
        producers.register("g", member(peers[2]))
    assert consumers.leave_all(peers[0]) == ["g"]
    producers.leave_all(peers[0])
    consumers.register(consumer("g"), member(peers[2]))
    producers.register("g", member(peers[2]))


@pytest.mark.parametrize("versions", [(1, 5, 5), (5, 1, 5)])
def test_the_newest_of_several_subscriptions_to_a_topic_counts(versions: tuple[int, ...]) -> None:
    """ConsumerGroupInfo.updateSubscription."""
    consumers, newest = ConsumerTable(Filters()), versions.index(5)
    listed = [
        SubscriptionData(topic="T", sub_string=f"Tag{at}", sub_version=version) for at, version in enumerate(versions)
    ]
    consumers.register(ConsumerData(group_name="g", subscription_data_set=listed), member(ScriptedPeer()))
    assert consumers.groups["g"].subscriptions["T"].sub_string == f"Tag{newest}"


def test_memory_of_subscriptions_is_counted_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers, peer = ConsumerTable(Filters()), ScriptedPeer()
    small, large = consumer("g", "T"), consumer("g", "T", "U", expression="a || b", version=2)
    for data in (small, large, large, consumer("g", "T", version=3), large):
        consumers.register(data, member(peer))
        assert consumers.size == subscriptions_size(consumers.groups["g"].subscriptions.values())
    monkeypatch.setattr("rmqlab.broker.tables.clients.MAX_SUBSCRIPTION_BYTES", consumers.size + 100)
    with pytest.raises(TooManyClientsError):
        consumers.register(consumer("h", "T"), member(peer))
    assert "h" not in consumers.groups
    consumers.leave_all(peer)  # type: ignore[arg-type]
    assert consumers.size == 0


@pytest.mark.parametrize("name", ["topic", "sub_string", "expression_type", "filter_class_source", "tags_set"])
def test_each_text_of_a_subscription_is_counted(name: str) -> None:
    data = SubscriptionData(topic="T", tags_set=["A"], filter_class_source="")
    text: Any = "x" * 100_000
    longer = msgspec.structs.replace(data, **{name: [text] if name == "tags_set" else text})
    assert subscriptions_size([longer]) - subscriptions_size([data]) > 99_000


@pytest.mark.parametrize("role", ["consumerDataSet", "producerDataSet"])
def test_client_ids_are_limited(talk: TalkingBroker, role: str) -> None:
    """Each member keeps its own."""

    def beat(client_id: str) -> int:
        body = {"clientID": client_id, "consumerDataSet": [], "producerDataSet": [], role: [{"groupName": "g"}]}
        return talk.ask(RequestCode.HEART_BEAT, None, json.dumps(body).encode()).code

    assert beat("c" * (MAX_NAME_SIZE + 1)) == ResponseCode.SYSTEM_ERROR
    assert not talk.broker.consumers.groups | talk.broker.producers.groups
    assert beat("c" * MAX_NAME_SIZE) == ResponseCode.SUCCESS
    assert beat("c" * (MAX_NAME_SIZE + 1)) == ResponseCode.SYSTEM_ERROR


def test_a_heartbeat_drops_the_topics_that_it_does_not_name() -> None:
    consumers, peer = ConsumerTable(Filters()), ScriptedPeer()
    assert consumers.register(consumer("g", "T", "U"), member(peer)), "a new member"
    assert not consumers.register(consumer("g", "T", "U"), member(peer))
    assert consumers.register(consumer("g", "T"), member(peer)), "other topics"
    assert (consumers.groups_of("T"), consumers.groups_of("U")) == ({"g"}, set())


def test_a_member_keeps_what_its_first_heartbeat_said_of_its_client() -> None:
    """ConsumerGroupInfo.updateChannel, ProducerManager.registerProducer.

    Only the time is that of the last heartbeat.
    """
    consumers, producers, peer = ConsumerTable(Filters()), ProducerTable(), ScriptedPeer()
    for version, seen_at in ((100, 5.0), (409, 7.0)):
        again = attrs.evolve(member(peer), version=version, seen_at=seen_at)
        consumers.register(consumer("g", "T"), again)
        producers.register("g", attrs.evolve(again))
    for (known,) in (consumers.groups["g"].members.values(), producers.groups["g"].values()):
        assert (known.version, known.seen_at) == (100, 7.0)


def test_only_a_consumer_changes_its_id_on_a_connection() -> None:
    """ConsumerGroupInfo.updateChannel and ProducerManager.registerProducer differ."""
    consumers, producers, peer = ConsumerTable(Filters()), ProducerTable(), ScriptedPeer()
    for number in range(3):
        consumers.register(consumer("g", "T"), member(peer, f"c@{number}"))
        producers.register("g", member(peer, f"c@{number}"))
    assert [one.client_id for one in consumers.groups["g"].members.values()] == ["c@2"]
    assert list(producers.by_client_id) == ["c@0"]
    producers.leave_all(peer)  # type: ignore[arg-type]
    assert producers.by_client_id == {}


@pytest.mark.parametrize(
    "body",
    [
        {"clientID": "c", "consumerDataSet": [{"groupName": f"g{n}"} for n in range(2001)]},
        {"clientID": "c", "producerDataSet": [{"groupName": f"g{n}"} for n in range(2001)]},
        {"clientID": "c", "producerDataSet": [{"groupName": "g" * 1025}]},
        {"clientID": "c" * 2**22},
    ],
)
def test_a_heartbeat_that_is_too_large_is_refused(talk: TalkingBroker, body: dict[str, Any]) -> None:
    groups = len(talk.broker.subscriptions.groups)
    reply = talk.ask(RequestCode.HEART_BEAT, None, json.dumps(body).encode())
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert len(talk.broker.subscriptions.groups) == groups
    assert len(talk.broker.producers.groups) <= 2000


def test_groups_are_made_up_to_a_limit(talk: TalkingBroker) -> None:
    table = talk.broker.subscriptions
    table._room.max_entries = len(table.groups) + 1
    assert table.find("one") is not None
    assert table.find("two") is None
    assert table.find("one") is not None
    reply = talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, b'{"groupName":"two"}')
    assert reply.code == ResponseCode.SYSTEM_ERROR


def test_topics_are_made_up_to_a_limit(talk: TalkingBroker) -> None:
    talk.broker.topics._room.max_entries = len(talk.broker.topics.topics) + 1
    assert talk.send("one").code == ResponseCode.SUCCESS
    refused = talk.send("two")
    assert (refused.code, refused.remark) == (
        ResponseCode.SYSTEM_ERROR, "this broker has no room for topic two: delete some",
    )  # fmt: skip
    assert talk.send("one").code == ResponseCode.SUCCESS


def test_a_retry_topic_has_so_many_queues(talk: TalkingBroker) -> None:
    """The number is in the group's configuration, which any client can set."""
    body = b'{"groupName":"g","retryQueueNums":2147483647}'
    assert talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body).code == ResponseCode.SUCCESS
    talk.heartbeat("g", "T")
    topic = talk.broker.topics.get("%RETRY%g")
    assert topic is not None
    assert topic.write_queue_nums == topic.read_queue_nums == 32_768


def test_expired_locks_are_forgotten_and_all_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    locks = QueueLocks()
    for number in range(10_000):
        assert locks.lock(LockedQueue("g", "T", "b", number), "c", 0.0)
    assert locks.lock(LockedQueue("g", "T", "b", 10_000), "c", LOCK_LIFE + 1)
    assert len(locks) == 1
    monkeypatch.setattr("rmqlab.broker.tables.locks.MAX_LOCKS", 1)
    assert not locks.lock(LockedQueue("g", "T", "b", 1), "c", LOCK_LIFE + 1)
    assert locks.lock(LockedQueue("g", "T", "b", 10_000), "c", LOCK_LIFE + 1)
    monkeypatch.undo()
    assert not locks.lock(LockedQueue("g" * 2048, "T", "b", 1), "c", LOCK_LIFE + 1)


def test_an_expired_lock_goes_to_no_client_with_a_long_id() -> None:
    locks, queue = QueueLocks(), LockedQueue("g", "T", "b", 0)
    assert locks.lock(queue, "c", 0.0)
    assert not locks.lock(queue, "d" * 2048, LOCK_LIFE + 1)
    assert locks.lock(queue, "d" * 2045, LOCK_LIFE + 1)


def test_a_request_locks_so_many_queues(talk: TalkingBroker) -> None:
    queues = [{"brokerName": "b", "queueId": number, "topic": "T"} for number in range(32_769)]
    body = json.dumps({"clientId": "c", "consumerGroup": "g", "mqSet": queues}).encode()
    assert talk.ask(RequestCode.LOCK_BATCH_MQ, None, body).code == ResponseCode.SYSTEM_ERROR
    assert len(talk.broker.locks) == 0


def test_long_keys_count_in_the_totals_only() -> None:
    stats = BrokerStats(0, StatsItems("c"))
    topic = "T" * (MAX_KEY_SIZE - len("@g"))
    for name in (topic, topic + "T"):
        stats.items.count_send_back(name, "g")
    assert [*stats.items.send_backs] == [f"{topic}@g"]


def test_statistics_have_so_many_keys_and_forget_those_of_yesterday() -> None:
    stats = BrokerStats(0, StatsItems("c"))
    for number in range(MAX_KEYS + 10):
        stats.count_put(f"T{number}", 1, 1)
    assert (len(stats.items.topic_puts), stats.puts.messages) == (MAX_KEYS, MAX_KEYS + 10)
    for hour in range(26):
        stats.count_put("T1", 1, 1)
        for _ in range(360):
            stats._samples += 1
        stats._samples -= 1
        stats.sample(hour * 3_600_000)
    assert list(stats.items.topic_puts) == ["T1"]
