"""What all JSON bodies share."""

import json
import pathlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, ConsumeStats, ConsumeStatsList, DelayOffsets, ResetOffsetBody
from rmqlab.remoting.bodies.queue import LockBatchRequestBody, MessageQueue
from rmqlab.remoting.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from rmqlab.remoting.bodies.runtime import ConsumerRunningInfo, KVTable
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList, TopicStatsTable
from rmqlab.remoting.body import Body, BodyError
from rmqlab.remoting.fastjson import parse_fastjson

CONFIG = pathlib.Path(__file__).parents[1] / "golden" / "store" / "master" / "config"
ROUND_TRIPS = [
    TopicConfigSerializeWrapper,
    SubscriptionGroupWrapper,
    ConsumerOffsets,
    DelayOffsets,
    ConsumeStats,
    ConsumeStatsList,
    ResetOffsetBody,
    TopicStatsTable,
    TopicRouteData,
    ClusterInfo,
    ConsumerRunningInfo,
    LockBatchRequestBody,
]


def bodies(kind: type[Body]) -> st.SearchStrategy[Body]:
    """Any value of a body class."""
    return values(msgspec.inspect.type_info(kind))


def values(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.StructType(cls=kind, fields=fields):
            members = {field.name: values(field.type) for field in fields}
            return st.builds(kind, **members)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values(key), values(value), max_size=3)
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(values(item), max_size=3)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*map(values, types))
        case msgspec.inspect.StrType():
            return st.text(alphabet=st.characters(codec="utf-8"), max_size=5)
        case msgspec.inspect.IntType():
            return st.integers(info.ge or -(2**63), info.le or 2**63 - 1)
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
    raise NotImplementedError(info)


@pytest.mark.parametrize("kind", ROUND_TRIPS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_value_round_trips_through_all_forms(kind: type[Body], data: st.DataObject) -> None:
    """broker-requests#54"""
    body = data.draw(bodies(kind))
    assert kind.decode(body.encode()) == body
    assert kind.decode(body.encode_standard()) == body
    assert kind.decode(body.encode_pretty()) == body


@given(bodies(TopicRouteData))
def test_the_standard_forms_of_a_route_are_strict_json(route: Body) -> None:
    """remoting#16"""
    standard, browser = route.encode_standard(), route.encode_browser_compatible()
    assert json.loads(standard) == json.loads(browser)
    assert browser.isascii()
    assert TopicRouteData.decode(browser) == route


def test_a_browser_compatible_body_has_sorted_keys_and_escapes() -> None:
    """remoting#16"""
    brokers = {1: "h/2", 0: "\u00e9:1", 10: "c"}
    route = TopicRouteData(broker_datas=[BrokerData(broker_addrs=brokers, broker_name="b", cluster="c")])
    assert route.encode_browser_compatible() == (
        rb'{"brokerDatas":[{"brokerAddrs":{"0":"\u00e9:1","1":"h\/2","10":"c"},"brokerName":"b","cluster":"c"}],'
        rb'"filterServerTable":{},"queueDatas":[]}'
    )


def test_a_map_by_number_is_written_bare_or_quoted_and_read_both_ways() -> None:
    """broker-requests#54"""
    offsets = ConsumerOffsets(offset_table={"T@G": {0: 5, 1: 6}})
    assert offsets.encode() == b'{"offsetTable":{"T@G":{0:5,1:6}}}'
    assert offsets.encode_standard() == b'{"offsetTable":{"T@G":{"0":5,"1":6}}}'
    assert ConsumerOffsets.decode(offsets.encode()) == ConsumerOffsets.decode(offsets.encode_standard()) == offsets


def test_a_map_by_queue_is_written_with_the_queue_as_key_and_no_blank() -> None:
    """broker-requests#54"""
    body = ResetOffsetBody(offset_table={MessageQueue(broker_name="b", queue_id=0, topic="a T"): 2})
    wire = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"a T"}:2}}'
    assert body.encode() == body.encode_standard() == wire
    assert ResetOffsetBody.decode(wire.replace(b":", b" : ").replace(b",", b"\n, ")) == body


def test_members_with_value_none_are_omitted() -> None:
    assert TopicList(topic_list=["a"]).encode() == b'{"topicList":["a"]}'
    assert TopicList(broker_addr="x:1").encode() == b'{"brokerAddr":"x:1","topicList":[]}'


@pytest.mark.parametrize(
    "raw",
    [
        b'{"groupName":"G","retryMaxTimes":3,"consumeEnable":false}',
        b'{"groupName":"G","retryMaxTimes":"3","consumeEnable":"false"}\n',
        b"{groupName:'G',retryMaxTimes:3,consumeEnable:false,attributes:{},subscriptionDataSet:null}",
        b'{"groupName":"G","retryMaxTimes":3,"consumeEnable":false,"brokerId":null,"groupRetryPolicy":{"type":"X"}}',
    ],
)
def test_a_body_is_read_liberally(raw: bytes) -> None:
    """broker-requests#5, remoting#23"""
    assert SubscriptionGroupConfig.decode(raw) == SubscriptionGroupConfig(
        group_name="G", retry_max_times=3, consume_enable=False
    )


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{}", b"{", b'{"groupName":[]}', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_does_not_fit_is_one_kind_of_error(raw: bytes) -> None:
    with pytest.raises(BodyError, match=r"^SubscriptionGroupConfig: "):
        SubscriptionGroupConfig.decode(raw)


def test_a_repeated_instance_is_read() -> None:
    """broker-requests 0.3: fastjson writes an instance once, then refers to it."""
    raw = b"""{"clientId":"c","consumerGroup":"g","mqSet":[
        {"brokerName":"b","queueId":1,"topic":"T"},{"$ref":"$.mqSet[0]"}]}"""
    queue = MessageQueue(broker_name="b", queue_id=1, topic="T")
    assert LockBatchRequestBody.decode(raw).mq_set == [queue, queue]


def test_dollar_ref_in_a_text_is_only_text() -> None:
    assert KVTable.decode(b'{"table":{"a":"$ref"}}') == KVTable(table={"a": "$ref"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("topics.json", TopicConfigSerializeWrapper),
        ("subscriptionGroup.json", SubscriptionGroupWrapper),
        ("consumerOffset.json", ConsumerOffsets),
        ("delayOffset.json", DelayOffsets),
    ],
)
def test_a_brokers_files_are_read_and_written_as_rocketmq_does(name: str, kind: type[Body]) -> None:
    """store-ha#63"""
    raw = (CONFIG / name).read_bytes()
    body = kind.decode(raw)
    assert body.encode_pretty() == raw
    assert parse_fastjson(body.encode_standard()) == parse_fastjson(raw)


def test_missing_members_of_a_topic_have_rocketmqs_defaults() -> None:
    """remoting-and-nameserver 3.5"""
    wire = TopicConfig.decode(b'{"topicName":"T"}').encode()
    assert wire == (
        b'{"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"T","topicSysFlag":0,"writeQueueNums":16}'
    )


HOSTILE_BODIES = [
    b"[" * 100_000, b'{"a":' * 100_000, b"{a:" * 100_000, b"{{" * 100_000, b'{"offsetTable":' * 900 + b"1" + b"}" * 900,
    b'{"offsetTable":{"t@g":{"0":%s}}}' % (b"9" * 5_000), b"{offsetTable:{t:{0:%s}}}" % (b"9" * 4_000), b"{offsetTable:{t:{0:1e99}}}",
    b'{"offsetTable":{"t":{"9999999999":1}}}', b'{"offsetTable":{"t":{"0":9223372036854775808}}}', b'{"offsetTable":[1e999999]}',
    b'{"offsetTable":"\\ud800"}', b"\x00" * 100, b"", b"@", b"null", b"[]", b"1", b'"x"', b'{"$ref":"$"}', b'{"offsetTable":{"$ref":".."}}',
    b"{offsetTable:{{a:{$ref:'$'}}:1}}", b"{true:1,null:2,{}:3,'':4,1.5:5}", b'{"offsetTable":{"t":{"0":true}}}',
]  # fmt: skip


@pytest.mark.parametrize("raw", HOSTILE_BODIES, ids=lambda raw: repr(raw[:30]))
@pytest.mark.parametrize("kind", ROUND_TRIPS, ids=lambda kind: kind.__name__)
def test_a_hostile_body_is_read_or_refused(kind: type[Body], raw: bytes) -> None:
    """issue 12: no other exception leaves a body's reader."""
    try:
        body = kind.decode(raw)
    except BodyError as exc:
        assert len(str(exc)) < 500  # noqa: PT017 - either outcome will do
    else:
        assert kind.decode(body.encode()) == body


def test_a_body_of_references_stays_small() -> None:
    """issue 12.6: 1 MB became 284 MB."""
    queues = [{"brokerName": "b", "queueId": number, "topic": "T"} for number in range(8_000)]
    raw = json.dumps({"clientId": "c", "consumerGroup": "g", "mqSet": queues, "x": [{"$ref": "$.mqSet"}] * 900})
    with pytest.raises(BodyError, match="repeat too much"):
        LockBatchRequestBody.decode(raw.encode())
