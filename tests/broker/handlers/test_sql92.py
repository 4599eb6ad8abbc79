"""SQL92 filters of consumers: checked, registered, used by pulls and held pulls."""

import json
import pathlib
from collections.abc import Callable

import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker, pull_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_messages
from rmqlab.runtime.net.slices import UNITS_AT_ONCE

SUSPEND, SUBSCRIPTION = 2, 4


@pytest.fixture
def sql(open_broker: Callable[..., TalkingBroker]) -> TalkingBroker:
    return open_broker("sql", enable_property_filter=True)


def join(talk: TalkingBroker, expression: str, version: int = 1, peer: ScriptedPeer | None = None) -> None:
    """Be a consumer of G that wants messages of T by an expression."""
    body = {
        "clientID": "c",
        "consumerDataSet": [
            {
                "groupName": "G",
                "subscriptionDataSet": [
                    {"topic": "T", "subString": expression, "subVersion": version, "expressionType": "SQL92"},
                ],
            }
        ],
    }
    assert talk.ask(RequestCode.HEART_BEAT, None, json.dumps(body).encode(), peer=peer).code == ResponseCode.SUCCESS


def pull(talk: TalkingBroker, offset: int = 0, peer: ScriptedPeer | None = None, **changes: object) -> list[Command]:
    fields = {"consumerGroup": "G", "sysFlag": 0, "subscription": None, "expressionType": "SQL92", "subVersion": 1}
    return talk.exchange(RequestCode.PULL_MESSAGE, pull_fields("T", offset, **{**fields, **changes}), peer=peer)


def bodies(reply: Command) -> list[bytes]:
    return [message.body for message in decode_messages(reply.body)]


def check(talk: TalkingBroker, expression: str, kind: str = "SQL92") -> Command:
    subscription = {"topic": "T", "subString": expression, "expressionType": kind, "subVersion": 1}
    body = json.dumps({"clientId": "c", "group": "G", "subscriptionData": subscription})
    return talk.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body.encode())


def test_an_expression_may_be_used_if_pulls_honour_it(sql: TalkingBroker, talk: TalkingBroker) -> None:
    """broker-requests#48."""
    assert check(sql, "a > 1").code == ResponseCode.SUCCESS
    wrong = check(sql, "a >")
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "a >: at character 4" in (wrong.remark or "")
    assert check(sql, "a > 1", "XPATH").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    off = check(talk, "a > 1")
    assert off.code == ResponseCode.SYSTEM_ERROR
    assert off.remark == "The broker does not support consumer to filter message by SQL92"


def test_a_costly_expression_examines_fewer_messages_in_one_pull(sql: TalkingBroker) -> None:
    for number in range(60):
        sql.send("T", a=str(number))
    costly = " OR ".join(["a = 100"] * 990)
    (reply,) = pull(sql, sysFlag=SUBSCRIPTION, subscription=costly)
    assert (reply.code, reply.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "50")
    (reply,) = pull(sql, sysFlag=SUBSCRIPTION, subscription="a = 100")
    assert (reply.code, reply.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "60")


LONG_HEARTBEAT = {
    "clientID": "c",
    "consumerDataSet": [
        {
            "groupName": "G",
            "subscriptionDataSet": [
                {"topic": f"T{number}", "subString": f"a = {number}", "subVersion": 1, "expressionType": "SQL92"}
                for number in range(2 * UNITS_AT_ONCE)
            ],
        }
    ],
}


@pytest.fixture
def halfway(sql: TalkingBroker, monkeypatch: pytest.MonkeyPatch) -> TalkingBroker:
    """A broker that compiles the expressions of a long heartbeat."""
    monkeypatch.setattr("rmqlab.runtime.net.slices.SECONDS_AT_ONCE", 1000.0)
    sql.turns.is_collecting = True
    assert sql.exchange(RequestCode.HEART_BEAT, None, json.dumps(LONG_HEARTBEAT).encode()) == []
    assert 0 < len(sql.broker.filters.topics) < UNITS_AT_ONCE
    return sql


def test_the_expressions_of_a_long_heartbeat_are_compiled_in_slices(halfway: TalkingBroker) -> None:
    """Issue 12.6: others are served between them."""
    assert halfway.turns.run_all() == 3  # the third is of the notice to rebalance
    assert len(halfway.broker.filters.topics) == 2 * UNITS_AT_ONCE
    assert [reply.code for reply in halfway.peer.replies][-1] == ResponseCode.SUCCESS


def test_a_group_that_leaves_between_slices_keeps_no_filters(halfway: TalkingBroker) -> None:
    """Without a member they were never deleted."""
    halfway.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "G"})
    halfway.turns.run_all()
    filters = [data for groups in halfway.broker.filters.topics.values() for data in groups.values()]
    assert [data.topic for data in filters if not data.is_dead] == []


def test_only_what_matches_is_pulled(sql: TalkingBroker) -> None:
    """broker-requests#28: what does not match is counted in the next offset."""
    for number in range(6):
        sql.send("T", body=b"%d" % number, a=str(number), TAGS="TagA" if number % 2 else "TagB")
    join(sql, "a BETWEEN 1 AND 4 AND TAGS = 'TagB'")
    (reply,) = pull(sql)
    assert (reply.code, bodies(reply)) == (ResponseCode.SUCCESS, [b"2", b"4"])
    assert reply.ext_fields["nextBeginOffset"] == "6"
    (reply,) = pull(sql, 5)
    assert (reply.code, reply.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "6")


def test_a_pull_can_bring_its_own_expression(sql: TalkingBroker) -> None:
    for number in range(3):
        sql.send("T", body=b"%d" % number, a=str(number))
    (reply,) = pull(sql, sysFlag=SUBSCRIPTION, subscription="a <> 1")
    assert bodies(reply) == [b"0", b"2"]
    for wrong in ("a <>", "", None):
        (reply,) = pull(sql, sysFlag=SUBSCRIPTION, subscription=wrong)
        assert (reply.code, reply.ext_fields) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, {})


def test_a_pull_waits_for_a_message_that_matches(sql: TalkingBroker) -> None:
    """broker-requests#31, #32: only the sweep moves the pull past other messages.

    A message that does not match does not wake the pull.
    """
    consumer = ScriptedPeer("127.0.0.1:50002")
    sql.send("T", a="0")
    join(sql, "a > 1 AND b IS NULL", peer=consumer)
    assert pull(sql, 1, peer=consumer, sysFlag=SUSPEND) == []
    sql.send("T", a="1")
    sql.send("T", a="2", b="1")
    assert len(consumer.replies) == 1  # to the heartbeat
    sql.send("T", body=b"for you", a="2")
    reply = consumer.replies[-1]
    assert (reply.code, bodies(reply), reply.ext_fields["nextBeginOffset"]) == (ResponseCode.SUCCESS, [b"for you"], "4")
    assert pull(sql, 4, peer=consumer, sysFlag=SUSPEND) == []
    sql.send("T", a="1")
    sql.sweep_held_pulls()
    reply = consumer.replies[-1]
    assert (reply.code, reply.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "5")


def test_while_filters_are_off_pulls_are_refused(talk: TalkingBroker) -> None:
    talk.send("T")
    join(talk, "a > 1")
    for changes in ({}, {"sysFlag": SUBSCRIPTION, "subscription": "a > 1"}, {"sysFlag": SUBSCRIPTION}):
        (reply,) = pull(talk, **changes)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "The broker does not support consumer to filter message by SQL92"


def test_a_missing_or_stale_filter_is_reported(sql: TalkingBroker) -> None:
    sql.send("T")
    join(sql, "a >")
    assert pull(sql)[0].code == ResponseCode.FILTER_DATA_NOT_EXIST
    join(sql, "a > 1", version=2)
    join(sql, "a >", version=3)  # also the subscription is new, and its filter none
    assert pull(sql, subVersion=3)[0].code == ResponseCode.FILTER_DATA_NOT_EXIST
    join(sql, "a > 1", version=4)
    sql.broker.filters.topics["T"]["G"] = sql.broker.filters.topics["T"]["G"].__class__(
        consumer_group="G", topic="T", expression="a > 1", client_version=3
    )
    assert pull(sql, subVersion=4)[0].code == ResponseCode.FILTER_DATA_NOT_LATEST


def test_a_filter_outlives_its_consumers_and_is_in_the_file(
    sql: TalkingBroker, open_broker: Callable[..., TalkingBroker], tmp_path: pathlib.Path
) -> None:
    join(sql, "a > 1")
    sql.broker.channel_closed(sql.peer)  # type: ignore[arg-type]  # a stand-in
    data = sql.broker.filters.find("T", "G")
    assert data is not None
    assert data.is_dead
    sql.broker.save_tables()
    assert "a > 1" in (tmp_path / "sql" / "store" / "config" / "consumerFilter.json").read_text()
    sql.broker.store.close()
    again = open_broker("sql").broker.filters.find("T", "G")
    assert again is not None
    assert again.expression == "a > 1"


def test_a_tool_is_shown_the_filter(sql: TalkingBroker) -> None:
    sql.send("T")
    join(sql, "a > 1")
    fields = {"topic": "T", "queueId": "0", "index": "0", "count": "1", "consumerGroup": "G"}
    shown = json.loads(sql.ask(RequestCode.QUERY_CONSUME_QUEUE, fields).body)
    assert json.loads(shown["filterData"])["expression"] == "a > 1"
    assert shown["subscriptionData"]["expressionType"] == "SQL92"


def test_retries_can_be_filtered_as_their_topic_is(open_broker: Callable[..., TalkingBroker]) -> None:
    broker = open_broker("retries", enable_property_filter=True, filter_support_retry=True)
    join(broker, "a > 1")
    for number in range(4):
        broker.send("%RETRY%G", body=b"%d" % number, a=str(number), RETRY_TOPIC="T" if number < 3 else "U")
    fields = {"consumerGroup": "G", "sysFlag": SUBSCRIPTION, "subscription": "*"}
    (reply,) = broker.pull("%RETRY%G", 0, **fields)
    assert bodies(reply) == [b"2", b"3"]
    broker.send("other", body=b"1", a="1", RETRY_TOPIC="T")
    (reply,) = broker.pull("other", 0, **fields)
    assert bodies(reply) == [b"1"], "a topic that is not one of retries"


def test_retries_are_not_filtered_unless_that_is_set(open_broker: Callable[..., TalkingBroker]) -> None:
    broker = open_broker("retries", enable_property_filter=True)
    join(broker, "a > 1")
    for number in range(3):
        broker.send("%RETRY%G", body=b"%d" % number, a=str(number), RETRY_TOPIC="T")
    (reply,) = broker.pull("%RETRY%G", 0, consumerGroup="G", sysFlag=SUBSCRIPTION, subscription="*")
    assert bodies(reply) == [b"0", b"1", b"2"]
