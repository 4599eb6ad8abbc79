"""Heartbeats and membership (broker-requests section 3, #37 to #42)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.tables.clients import EXPIRY
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.group import GetConsumerListByGroupResponseBody
from rmqlab.remoting.codes import RequestCode, ResponseCode

Opener = Callable[..., TalkingBroker]


@pytest.fixture
def other() -> ScriptedPeer:
    """A second client."""
    return ScriptedPeer("127.0.0.1:50002")


def notifications(peer: ScriptedPeer) -> list[str]:
    """Return and forget the groups whose change a peer was notified of."""
    codes = {command.code for command in peer.asked}
    assert codes <= {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
    groups = [command.ext_fields["consumerGroup"] for command in peer.asked]
    assert all(command.is_oneway and not command.body for command in peer.asked)
    peer.asked.clear()
    return groups


def members(talk: TalkingBroker, group: str) -> list[str] | None:
    reply = talk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    assert reply.ext_fields == {}
    if reply.code != ResponseCode.SUCCESS:
        assert reply.code == ResponseCode.SYSTEM_ERROR
        return None
    return GetConsumerListByGroupResponseBody.decode(reply.body).consumer_id_list


NAMES = (
    b'{"clientID":"10.0.0.9@7#1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":['
    b'{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":5,'
    b'"tagsSet":["TagA"],"topic":"T"}],"unitMode":false}],"producerDataSet":[{"groupName":"P"}]}'
)
ORDINALS = (
    b'{"clientID":"10.0.0.9@7#1","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"G",'
    b'"messageModel":1,"subscriptionDataSet":[{"subString":"TagA","subVersion":"5","topic":"T"}]}],'
    b'"producerDataSet":[{"groupName":"P"}]}\n'
)
TEXT_CODES = NAMES.replace(b"[2598919]", b'["2598919"]')


@pytest.mark.parametrize("body", [NAMES, ORDINALS, TEXT_CODES])
def test_every_dialect_of_a_heartbeat_says_the_same(talk: TalkingBroker, body: bytes) -> None:
    """broker-requests#37, #5; remoting#43."""
    reply = talk.ask(RequestCode.HEART_BEAT, None, body)
    assert (reply.code, reply.raw_fields, reply.body) == (ResponseCode.SUCCESS, None, b"")
    group = talk.broker.consumers.groups["G"]
    assert (group.consume_type, group.message_model, group.consume_from_where) == (
        "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET",
    )  # fmt: skip
    subscription = group.subscriptions["T"]
    assert (subscription.code_set, subscription.tags_set, subscription.sub_version) == ([2598919], ["TagA"], 5)
    assert list(talk.broker.producers.groups) == ["P"]


@pytest.mark.parametrize("version", [{}, {"subVersion": None}])
def test_a_subscription_without_a_version_is_of_its_heartbeat(talk: TalkingBroker, version: dict[str, None]) -> None:
    """Class SubscriptionData: the next heartbeat brings a newer one."""
    for expression in ("A", "B"):
        talk.clock.advance(1)
        talk.heartbeat("G", subscriptionDataSet=[{"topic": "T", "subString": expression, **version}])
        subscription = talk.broker.consumers.groups["G"].subscriptions["T"]
        assert (subscription.sub_string, subscription.sub_version) == (expression, talk.clock.now_millis())


@pytest.mark.parametrize("body", [b"", b"{", b"[]"])
def test_an_invalid_heartbeat_is_a_system_error(talk: TalkingBroker, body: bytes) -> None:
    assert talk.ask(RequestCode.HEART_BEAT, None, body).code == ResponseCode.SYSTEM_ERROR


def test_the_first_heartbeat_of_a_group_makes_its_config_and_its_retry_topic(talk: TalkingBroker) -> None:
    """broker-requests#38."""
    talk.heartbeat("G", "T")
    assert "G" in talk.broker.subscriptions.groups
    retry = talk.broker.topics.get("%RETRY%G")
    assert retry is not None
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)
    assert talk.registration.calls == [(None, True)]
    talk.heartbeat("G", "T")
    assert len(talk.registration.calls) == 1


def test_a_group_that_may_not_be_made_is_registered_all_the_same(open_broker: Opener) -> None:
    """Section 3.1, step 2 is left out, step 3 is not.

    A group of the system is always made.
    """
    talk = open_broker(auto_create_subscription_group=False)
    talk.heartbeat("G", "T")
    talk.heartbeat("CID_RMQ_SYS_X", "T")
    assert "G" not in talk.broker.subscriptions.groups
    assert talk.broker.topics.get("%RETRY%G") is None
    assert members(talk, "G") is not None
    assert "CID_RMQ_SYS_X" in talk.broker.subscriptions.groups


def test_all_consumers_are_notified_of_joins_leaves_and_topic_changes(talk: TalkingBroker, other: ScriptedPeer) -> None:
    """broker-requests#39: a repeated heartbeat notifies no member."""
    talk.heartbeat("G", "T")
    assert notifications(talk.peer) == ["G"]
    talk.heartbeat("G", "T", peer=other)
    assert (notifications(talk.peer), notifications(other)) == (["G"], ["G"])
    talk.clock.advance(1)
    talk.heartbeat("G", "T")
    assert (notifications(talk.peer), notifications(other)) == ([], [])
    talk.heartbeat("G", "T", "U")
    assert (notifications(talk.peer), notifications(other)) == (["G"], ["G"])
    talk.heartbeat("G", "T")
    assert (notifications(talk.peer), notifications(other)) == (["G"], ["G"])
    talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "x", "consumerGroup": "G"}, peer=other)
    assert (notifications(talk.peer), notifications(other)) == (["G"], [])


def test_a_client_that_is_no_member_notifies_the_members_when_it_unregisters(
    talk: TalkingBroker, other: ScriptedPeer
) -> None:
    """ConsumerManager.unregisterConsumer."""
    talk.heartbeat("G", "T")
    notifications(talk.peer)
    talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "x", "consumerGroup": "G"}, peer=other)
    assert (notifications(talk.peer), notifications(other)) == (["G"], [])


def test_unregistering_from_an_unknown_group_makes_its_configuration(talk: TalkingBroker) -> None:
    """ClientManageProcessor.unregisterClient."""
    talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "x", "consumerGroup": "Unknown"})
    assert "Unknown" in talk.broker.subscriptions.groups


def test_a_lost_connection_notifies_members_of_groups_that_want_no_notices(
    talk: TalkingBroker, other: ScriptedPeer
) -> None:
    """ConsumerManager.doChannelCloseEvent does not ask for the group's configuration."""
    body = json.dumps({"groupName": "G", "notifyConsumerIdsChangedEnable": False}).encode()
    talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    talk.heartbeat("G", "T")
    talk.heartbeat("G", "T", peer=other)
    assert notifications(talk.peer) == []
    talk.broker.channel_closed(other)  # type: ignore[arg-type]  # a stand-in
    assert notifications(talk.peer) == ["G"]


def test_a_lost_connection_leaves_all_its_groups_at_once(talk: TalkingBroker, other: ScriptedPeer) -> None:
    """broker-requests#39, #41."""
    talk.heartbeat("G", "T")
    talk.heartbeat("G", "T", peer=other)
    talk.heartbeat("H", "T", peer=other)
    notifications(talk.peer)
    talk.broker.channel_closed(other)  # type: ignore[arg-type]  # a stand-in
    assert notifications(talk.peer) == ["G"]
    assert (members(talk, "G"), members(talk, "H")) == (["127.0.0.1:50001@test"], None)


def test_a_group_or_a_broker_may_do_without_notification(open_broker: Opener) -> None:
    """Section 3.1, step 5."""
    silent = open_broker("silent", notify_consumer_ids_changed_enable=False)
    silent.heartbeat("G", "T")
    assert notifications(silent.peer) == []
    talk = open_broker("talking")
    body = json.dumps({"groupName": "G", "notifyConsumerIdsChangedEnable": False})
    talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body.encode())
    talk.heartbeat("G", "T")
    assert notifications(talk.peer) == []


def test_a_newer_subscription_replaces_an_older_one_never_the_other_way(talk: TalkingBroker) -> None:
    """Section 3.1, step 4."""
    talk.heartbeat("G", "T", expression="A")
    talk.clock.advance(10)
    talk.heartbeat("G", "T", expression="B")
    talk.clock.advance(-5)
    talk.heartbeat("G", "T", expression="C")
    assert talk.broker.consumers.groups["G"].subscriptions["T"].sub_string == "B"


def test_an_id_connected_twice_is_two_members(talk: TalkingBroker, other: ScriptedPeer) -> None:
    """broker-requests#40."""
    for peer in (talk.peer, other):
        talk.ask(RequestCode.HEART_BEAT, None, NAMES, peer=peer)
    assert members(talk, "G") == ["10.0.0.9@7#1"] * 2


def test_a_group_without_members_is_an_error(talk: TalkingBroker) -> None:
    """broker-requests#40."""
    assert members(talk, "Nobody") is None
    talk.heartbeat("G", "T")
    talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "x", "consumerGroup": "G"})
    assert members(talk, "G") is None


def test_a_client_silent_for_120_seconds_is_dropped(talk: TalkingBroker, other: ScriptedPeer) -> None:
    """broker-requests#41: the loop does so each 10 s."""
    talk.heartbeat("G", "T")
    talk.clock.advance(EXPIRY - 1)
    talk.heartbeat("G", "T", peer=other)
    talk.clock.advance(1)
    talk.broker.drop_silent_clients()
    assert not talk.peer.is_closed
    talk.clock.advance(1)
    talk.broker.drop_silent_clients()
    assert (talk.peer.is_closed, other.is_closed) == (True, False)
    assert members(talk, "G") == ["127.0.0.1:50002@test"]


def test_members_are_notified_of_a_silent_client_only_in_groups_where_it_was_not_silent(
    talk: TalkingBroker, other: ScriptedPeer
) -> None:
    """ConsumerManager.scanNotActiveChannel removes it before its connection closes."""
    talk.heartbeat("G", "T", peer=other)
    talk.clock.advance(EXPIRY + 1)
    for group in ("G", "H"):
        talk.heartbeat(group, "T")
    talk.heartbeat("H", "T", peer=other)
    notifications(talk.peer)
    talk.broker.drop_silent_clients()
    talk.broker.channel_closed(other)  # type: ignore[arg-type]  # a stand-in
    assert notifications(talk.peer) == ["H"]
    assert members(talk, "G") == ["127.0.0.1:50001@test"]


def test_the_expression_of_a_group_whose_members_were_silent_stays_in_use(open_broker: Opener) -> None:
    """The group is removed without the event UNREGISTER, which an ordinary leave has."""
    talk = open_broker(enable_property_filter=True)
    subscription = {"topic": "T", "subString": "a > 1", "subVersion": 1, "expressionType": "SQL92"}
    talk.heartbeat("G", subscriptionDataSet=[subscription])
    talk.clock.advance(EXPIRY + 1)
    talk.broker.drop_silent_clients()
    talk.broker.channel_closed(talk.peer)  # type: ignore[arg-type]  # a stand-in
    data = talk.broker.filters.find("T", "G")
    assert members(talk, "G") is None
    assert data is not None
    assert not data.is_dead


@pytest.mark.parametrize(
    ("fields", "created"),
    [({"producerGroup": "", "consumerGroup": ""}, {""}), ({"producerGroup": ""}, set()), ({}, set())],
)
def test_unregistering_from_nothing_changes_no_group(
    talk: TalkingBroker, fields: dict[str, str], created: set[str]
) -> None:
    """broker-requests#42."""
    talk.heartbeat("G", "T")
    groups = set(talk.broker.subscriptions.groups)
    reply = talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "x", **fields})
    assert (reply.code, reply.ext_fields) == (ResponseCode.SUCCESS, {})
    assert reply.raw_fields is not None
    assert set(talk.broker.subscriptions.groups) == groups | created
    assert members(talk, "G") == ["127.0.0.1:50001@test"]


def test_a_producer_unregisters(talk: TalkingBroker) -> None:
    talk.ask(RequestCode.HEART_BEAT, None, NAMES)
    talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "10.0.0.9@7#1", "producerGroup": "P"})
    assert talk.broker.producers.groups == {}
    assert talk.broker.producers.by_client_id == {}


def test_the_answer_to_a_heartbeat_shows_a_version_that_clients_understand(talk: TalkingBroker) -> None:
    """broker-requests#9, #1; remoting#43."""
    reply = talk.ask(RequestCode.HEART_BEAT, None, NAMES)
    assert 232 <= reply.version < 2**15


@pytest.mark.parametrize(
    ("subscription", "code"),
    [
        ({"expressionType": "TAG", "subString": "A || B"}, ResponseCode.SUCCESS),
        ({"subString": "*"}, ResponseCode.SUCCESS),
        ({"expressionType": "SQL92", "subString": "a > 1"}, ResponseCode.SYSTEM_ERROR),
        (None, ResponseCode.SUCCESS),
    ],
)
def test_only_tags_are_filtered_by_unless_more_is_permitted(
    talk: TalkingBroker, subscription: dict[str, Any] | None, code: ResponseCode
) -> None:
    """broker-requests#48: a pull with the same expression fares alike."""
    data = subscription and {"topic": "T", **subscription}
    body = json.dumps({"clientId": "c", "group": "G", "subscriptionData": data})
    assert talk.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body.encode()).code == code


@pytest.mark.parametrize("body", [b"null", b"[]"])
def test_a_check_of_no_subscription_succeeds(talk: TalkingBroker, body: bytes) -> None:
    """Texts that fastjson parses as null."""
    assert talk.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body).code == ResponseCode.SUCCESS
