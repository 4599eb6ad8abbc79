"""Group administration and connected clients (broker-requests section 6.3).

Items: broker-requests#57, #60, #64.
"""

import json
from collections.abc import Callable

import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.group import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command

GROUP = (  # as mqadmin sends it (recording b2)
    b'{"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,"consumeFromMinEnable":false,'
    b'"groupName":"CG_Admin","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":5,"retryQueueNums":2,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)

OpenBroker = Callable[..., TalkingBroker]


def update(talk: TalkingBroker, body: bytes = GROUP) -> Command:
    return talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)


def all_groups(talk: TalkingBroker) -> SubscriptionGroupWrapper:
    return SubscriptionGroupWrapper.decode(talk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)


def delete(talk: TalkingBroker, group: str, **flags: str) -> Command:
    return talk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, **flags})


def test_a_group_is_made_changed_and_deleted_each_with_a_new_version(talk: TalkingBroker) -> None:
    """broker-requests#57."""
    versions = [all_groups(talk).data_version]
    assert update(talk).code == ResponseCode.SUCCESS
    versions.append(all_groups(talk).data_version)
    assert all_groups(talk).subscription_group_table["CG_Admin"] == SubscriptionGroupConfig.decode(GROUP)
    update(talk, b'{"groupName":"CG_Admin","retryMaxTimes":3}\n')
    versions.append(all_groups(talk).data_version)
    changed = all_groups(talk).subscription_group_table["CG_Admin"]
    assert (changed.retry_max_times, changed.consume_broadcast_enable) == (3, True)  # the whole is replaced
    assert delete(talk, "CG_Admin").code == ResponseCode.SUCCESS
    assert talk.events == [("group_deleted", {"group": "CG_Admin", "drops_offsets": False})]
    versions.append(all_groups(talk).data_version)
    assert "CG_Admin" not in all_groups(talk).subscription_group_table
    assert len({version.counter for version in versions}) == 4


def test_members_that_5x_adds_are_ignored(talk: TalkingBroker) -> None:
    body = GROUP[:-1] + b',"attributes":{},"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0}'
    assert update(talk, body).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("body", [b"", b"{", b"{}"])
def test_a_body_that_names_no_group_is_a_system_error(talk: TalkingBroker, body: bytes) -> None:
    assert update(talk, body).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("flags", "is_kept"),
    [({"removeOffset": "false"}, True), ({"removeOffset": "true"}, False), ({"cleanOffset": "true"}, False)],
)
def test_offsets_go_with_the_group_where_that_is_asked_for(
    talk: TalkingBroker, flags: dict[str, str], *, is_kept: bool
) -> None:
    """Both names of the flag (broker-requests section 6.1)."""
    talk.broker.offsets.commit("CG_Admin", "T", 0, 5)
    talk.broker.offsets.commit("Other", "T", 0, 5)
    assert delete(talk, "CG_Admin", **flags).code == ResponseCode.SUCCESS
    assert (talk.broker.offsets.query("CG_Admin", "T", 0) == 5) == is_kept
    assert talk.broker.offsets.query("Other", "T", 0) == 5


def test_one_group_is_given_to_tools_of_5x(open_broker: OpenBroker) -> None:
    talk = open_broker(serve_requests_of_5x=True)
    update(talk)
    reply = talk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "CG_Admin"})
    assert SubscriptionGroupConfig.decode(reply.body) == SubscriptionGroupConfig.decode(GROUP)
    unknown = talk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "Nobody"})
    assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "Nobody" not in talk.broker.subscriptions.groups


def test_consumers_of_a_group_are_shown_with_its_subscriptions(talk: TalkingBroker) -> None:
    """broker-requests#56 (consumerConnection)."""
    talk.heartbeat("CG_Admin", "T", expression="A || B", consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    talk.heartbeat("CG_Admin", "T", peer=ScriptedPeer("127.0.0.1:50002"))
    reply = talk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CG_Admin"})
    body = ConsumerConnection.decode(reply.body)
    assert [one.client_addr for one in body.connection_set] == ["127.0.0.1:50001", "127.0.0.1:50002"]
    assert {(one.language, one.version) for one in body.connection_set} == {("JAVA", 409)}
    assert body.subscription_table["T"].sub_string == "A || B"
    assert (body.message_model, body.consume_type) == ("CLUSTERING", "CONSUME_PASSIVELY")


def test_a_group_that_is_not_online(talk: TalkingBroker) -> None:
    """broker-requests#60: 206 for consumers, 1 for producers."""
    reply = talk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "Nobody"})
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE
    reply = talk.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Nobody"})
    assert reply.code == ResponseCode.SYSTEM_ERROR


def test_producers_are_shown_by_group_and_all_together(talk: TalkingBroker) -> None:
    """broker-requests#56 (producerConnection, producer)."""
    body = json.dumps({"clientID": "10.0.0.1@p", "consumerDataSet": [], "producerDataSet": [{"groupName": "P"}]})
    talk.ask(RequestCode.HEART_BEAT, None, body.encode())
    seen_at = talk.clock.now_millis()
    talk.clock.advance(7)
    reply = talk.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "P"})
    (connection,) = ProducerConnection.decode(reply.body).connection_set
    assert (connection.client_id, connection.client_addr) == ("10.0.0.1@p", "127.0.0.1:50001")
    (info,) = ProducerTableInfo.decode(talk.ask(RequestCode.GET_ALL_PRODUCER_INFO).body).data["P"]
    assert (info.remote_ip, info.last_update_timestamp) == ("/127.0.0.1:50001", seen_at)


def test_a_slave_leaves_groups_to_its_master(slave: TalkingBroker) -> None:
    """broker-requests#64: 200 and 207 are refused."""
    assert update(slave).code == ResponseCode.SYSTEM_ERROR
    assert delete(slave, "TOOLS_CONSUMER").code == ResponseCode.SYSTEM_ERROR
    assert "TOOLS_CONSUMER" in all_groups(slave).subscription_group_table
    assert "CG_Admin" not in all_groups(slave).subscription_group_table
