"""Heartbeats of Java, C++, Go and JS clients."""

import msgspec
import pytest

from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.message_filter import filter_by_tags
from rmqlab.remoting.bodies.heartbeat import (
    MAX_TAGS,
    MAX_TAGS_SIZE,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
    tags_of,
)
from rmqlab.remoting.body import BodyError

TAG_A = 2598919
"""Java's hash of `TagA`, as recorded."""
EXPECTED = HeartbeatData(
    client_id="10.0.0.9@7",
    consumer_data_set=[
        ConsumerData(
            group_name="G",
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=[
                SubscriptionData(topic="T", sub_string="TagA", sub_version=17, tags_set=["TagA"], code_set=[TAG_A]),
                SubscriptionData(topic="%RETRY%G", sub_string="*", sub_version=18),
            ],
        )
    ],
)

JAVA = b"""{"clientID":"10.0.0.9@7","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",
    "consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[
    {"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":17,
     "tagsSet":["TagA"],"topic":"T"},
    {"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":18,"tagsSet":[],
     "topic":"%RETRY%G"}],"unitMode":false}],"producerDataSet":[]}"""
CPP = b"""{"clientID":"10.0.0.9@7","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G",
    "messageModel":1,"subscriptionDataSet":[{"subString":"TagA","subVersion":"17","topic":"T"},
    {"subString":"*","subVersion":"18","topic":"%RETRY%G"}]}]}
"""
GO = JAVA.replace(b"[2598919]", b'["2598919"]').replace(b"}],", b'}],"heartbeatFingerprint":0,"withoutSub":false,', 1)
JS = JAVA.replace(b'"expressionType":"TAG",', b"")
NULLS = JAVA.replace(b'"tagsSet":[]', b'"tagsSet":null').replace(b'"producerDataSet":[]', b'"producerDataSet":null')


@pytest.mark.parametrize("wire", [JAVA, CPP, GO, JS, NULLS], ids=["java", "cpp", "go", "js", "nulls"])
def test_every_clients_heartbeat_says_the_same(wire: bytes) -> None:
    """broker-requests#37"""
    assert HeartbeatData.decode(wire) == EXPECTED


@pytest.mark.parametrize("ordinal", [5, "5", "CONSUME_FROM_TIMESTAMP"])
def test_an_enum_is_decoded_from_its_name_or_ordinal(ordinal: object) -> None:
    """broker-requests#37"""
    wire = msgspec.json.encode(
        {"clientID": "c", "consumerDataSet": [{"groupName": "G", "consumeFromWhere": ordinal, "messageModel": 0}]}
    )
    [consumer] = HeartbeatData.decode(wire).consumer_data_set
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    assert consumer.message_model is MessageModel.BROADCASTING


@pytest.mark.parametrize("unknown", [6, -1, "CONSUME_FROM_MARS", "", "\N{SUPERSCRIPT TWO}"])
def test_an_unknown_enum_is_as_if_it_were_missing(unknown: object) -> None:
    """broker-requests 0.3"""
    wire = msgspec.json.encode({"clientID": "c", "consumerDataSet": [{"groupName": "G", "consumeFromWhere": unknown}]})
    [consumer] = HeartbeatData.decode(wire).consumer_data_set
    assert consumer == ConsumerData(group_name="G")


def test_a_producer_alone_sends_no_consumers() -> None:
    read = HeartbeatData.decode(b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}')
    assert read == HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="P")])


@pytest.mark.parametrize("wire", [b"", b"[]", b'{"clientID":"c","consumerDataSet":[1]}', b'{"consumerDataSet":7}'])
def test_an_invalid_heartbeat_is_rejected(wire: bytes) -> None:
    """broker-requests 3.1: code 1."""
    with pytest.raises(BodyError):
        HeartbeatData.decode(wire)


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("*", []), ("", []), ("A", ["A"]), (" A || B ||", ["A", "B"]), ("||", []), ("A|B", ["A|B"])],
)
def test_an_expression_names_its_tags(expression: str, tags: list[str]) -> None:
    """broker-requests 2.3"""
    assert tags_of(expression) == tags
    assert SubscriptionData(topic="T", sub_string=expression).tags_set == tags


def test_tags_of_an_sql_expression_are_not_made_up() -> None:
    data = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
    assert (data.tags_set, data.code_set) == ([], [])


def test_tags_are_counted() -> None:
    """issue 12.6: each tag is hashed, and 16 MiB of bars are five million tags."""
    raw = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","subString":"%s"}]}]}'
    )
    assert HeartbeatData.decode(raw % b"||".join([b"a"] * MAX_TAGS)).consumer_data_set
    with pytest.raises(BodyError, match=f"more than {MAX_TAGS} tags"):
        HeartbeatData.decode(raw % b"||".join([b"a"] * (MAX_TAGS + 1)))
    with pytest.raises(FilterError, match=f"more than {MAX_TAGS} tags"):
        filter_by_tags("||".join(["a"] * (MAX_TAGS + 1)))
    assert filter_by_tags("a" * MAX_TAGS_SIZE).by_code is not None
    with pytest.raises(FilterError, match=f"tags of {MAX_TAGS_SIZE + 1} characters"):
        filter_by_tags("a" * (MAX_TAGS_SIZE + 1))
    with pytest.raises(BodyError, match=f"tags of {MAX_TAGS_SIZE + 1} characters"):
        HeartbeatData.decode(raw % (b"a" * (MAX_TAGS_SIZE + 1)))
