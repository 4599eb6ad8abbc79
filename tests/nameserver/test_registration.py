"""Requests 103, 104 and 322, in every form of brokers (sections 3.4 to 3.7)."""

import json
import zlib
from typing import Any

import pytest

from rmqlab.remoting.bodies.registration import (
    Decoding,
    RegisterBrokerBody,
    body_crc32,
    decode_registration_in_steps,
    encode_compressed,
)
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codes import RequestCode, version_number
from rmqlab.remoting.command import ONEWAY, Command

FIVE_X_BODY = json.dumps(
    {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "timestamp": 5, "stateVersion": 0},
            "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 5},
            "topicConfigTable": {
                "orders": {
                    "attributes": {},
                    "order": False,
                    "perm": 6,
                    "readQueueNums": 4,
                    "topicFilterType": "SINGLE_TAG",
                    "topicName": "orders",
                    "topicSysFlag": 0,
                    "writeQueueNums": 4,
                }
            },
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": "MAPPING",
        },
    }
).encode()


def registration(bench: Any, body: bytes, **fields: object) -> Command:
    """Register a master with an unchanged body."""
    headers = {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "c",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": 0,
    }
    version = fields.pop("version", 409)
    reply: Command = bench.call(RequestCode.REGISTER_BROKER, body, version=version, **(headers | fields))
    return reply


def wrapper(*topics: TopicConfig) -> TopicConfigSerializeWrapper:
    """Give a topic table of version 7."""
    return TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=7, timestamp=5),
        topic_config_table={topic.topic_name: topic for topic in topics},
    )


def test_a_wrong_checksum_is_code_1_with_empty_ext_fields_and_changes_nothing(bench: Any) -> None:
    """remoting#21."""
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(bench.topic("orders"))).encode()
    reply = registration(bench, body, bodyCrc32=body_crc32(body) ^ 1)
    assert (reply.code, reply.raw_fields is None, reply.ext_fields) == (1, False, {})
    assert bench.state.routes.live == {}


def test_the_crc_32_has_its_top_bit_cleared_and_may_be_missing_or_zero(bench: Any) -> None:
    """remoting#21."""
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(bench.topic("orders", 4))).encode()
    queues = 4
    while zlib.crc32(body) <= 0x7FFFFFFF:  # one whose top bit is set
        queues += 1
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(bench.topic("orders", queues))).encode()
    assert registration(bench, body, bodyCrc32=zlib.crc32(body) & 0x7FFFFFFF).code == 0
    assert registration(bench, body, bodyCrc32=0).code == 0
    assert registration(bench, body).code == 0


@pytest.mark.parametrize("form", ["json", "compressed", "legacy", "5.x", "5.x with bare keys"])
def test_every_form_of_the_body_registers_its_topics(bench: Any, form: str) -> None:
    """remoting#22, #23."""
    full = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(bench.topic("orders")))
    forms: dict[str, tuple[bytes, dict[str, Any]]] = {
        "json": (full.encode(), {"compressed": "false"}),
        "compressed": (encode_compressed(full), {"compressed": "true"}),
        "legacy": (full.topic_config_serialize_wrapper.encode(), {"version": version_number(4, 0, 0) - 200}),
        "5.x": (FIVE_X_BODY.replace(b'"MAPPING"', b"{}"), {"heartbeatTimeoutMillis": "10000", "enableActingMaster": "false"}),
        "5.x with bare keys": (FIVE_X_BODY.replace(b'"MAPPING"', b'{"t":{"currIdMap":{0:0,1:1}}}'), {}),
    }  # fmt: skip
    body, fields = forms[form]
    assert registration(bench, body, bodyCrc32=body_crc32(body), **fields).code == 0
    route = TopicRouteData.decode(bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)
    assert [queues.read_queue_nums for queues in route.queue_datas] == [4]


def test_no_body_is_an_empty_table_of_version_zero(bench: Any) -> None:
    """remoting#22."""
    assert registration(bench, b"").code == 0
    assert bench.state.routes.live["10.0.0.1:10911"].data_version == DataVersion(counter=0, timestamp=0)


@pytest.mark.parametrize(
    ("body", "compressed"),
    [
        (b"{", "false"),
        (b"not zlib", "true"),
        (zlib.compress(b"\0\0"), "true"),
        (zlib.compress(b'\0\0\0\2{}\0\0\0\1\0\0\0\x20t 4 4 6 SINGLE_TAG {"a":"sixth"}\0\0\0\2[]'), "true"),
        (zlib.compress(b"\0\0\0\2{}\0\0\0\0\0\0\0\2[]")[:-5], "true"),
    ],
)  # fmt: skip
def test_a_body_that_does_not_parse_is_code_1_and_changes_nothing(bench: Any, body: bytes, compressed: str) -> None:
    """remoting#22: 5.x brokers write a sixth word per line, which 4.9 rejects."""
    assert registration(bench, body, compressed=compressed).code == 1
    routes = bench.state.routes
    assert (routes.live, routes.brokers, routes.clusters) == ({}, {}, {})


def test_a_registration_without_a_broker_id_is_code_1(bench: Any) -> None:
    """Section 1.8."""
    fields = {"brokerName": "a", "brokerAddr": "1.1.1.1:1", "clusterName": "c", "haServerAddr": "1.1.1.1:2"}
    assert bench.call(RequestCode.REGISTER_BROKER, **fields).code == 1


def test_only_a_slave_receives_its_master_once_it_is_registered(bench: Any) -> None:
    """remoting#24, #25."""
    assert bench.register(broker_id=1, host="10.0.0.2").ext_fields == {}
    assert bench.register(host="10.0.0.1").ext_fields == {}
    assert bench.register(broker_id=1, host="10.0.0.2").ext_fields == {
        "masterAddr": "10.0.0.1:10911",
        "haServerAddr": "10.0.0.1:10912",
    }


def test_the_order_topics_are_absent_populated_or_empty_in_every_registrations_reply(bench: Any) -> None:
    """remoting#28."""
    assert bench.register().body == b""
    bench.call(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="orders", value="bA:4;bB:2")
    assert bench.register().body == b'{"table":{"orders":"bA:4;bB:2"}}'
    bench.call(RequestCode.DELETE_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="orders")
    assert bench.register().body == b'{"table":{}}'


def test_a_oneway_registration_counts_and_is_not_answered(bench: Any) -> None:
    """remoting#10: brokers send these for topics created by a first send."""
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(bench.topic("auto"))).encode()
    fields = {"brokerName": "a", "brokerAddr": "1.1.1.1:1", "clusterName": "c", "brokerId": "0"}
    assert bench.ask(Command(RequestCode.REGISTER_BROKER, flag=ONEWAY, body=body, raw_fields=fields)) is None
    assert list(bench.state.routes.queues) == ["auto"]


def test_a_broker_asks_whether_it_has_to_register(bench: Any) -> None:
    """remoting#29."""
    bench.register(counter=3)
    asked = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "c", "brokerId": 0}
    live = bench.state.routes.live["10.0.0.1:10911"]
    bench.now = 100.0
    for body, changed in [
        (b'{"counter":4,"timestamp":1000}', "true"),
        (b"null", "true"),
        (b"[]", "true"),
        (b'{"counter":3,"timestamp":1001}', "true"),
        (b'{"counter":3,"timestamp":1000}', "false"),
        (b'{"counter":3,"stateVersion":0,"timestamp":1000}', "false"),
    ]:
        live.seen_at = 0.0
        reply = bench.call(RequestCode.QUERY_DATA_VERSION, body, **asked)
        assert (reply.ext_fields, reply.body) == ({"changed": changed}, b'{"counter":3,"timestamp":1000}')
        assert live.seen_at == (0.0 if changed == "true" else 100.0)
    reply = bench.call(RequestCode.QUERY_DATA_VERSION, b'{"counter":3}', **(asked | {"brokerAddr": "1.1.1.1:1"}))
    assert (reply.code, reply.ext_fields, reply.body) == (0, {"changed": "true"}, b"")
    assert bench.call(RequestCode.QUERY_DATA_VERSION, b"", **asked).code == 1


def test_unregistering_any_broker_returns_0(bench: Any) -> None:
    """remoting#34."""
    bench.register(bench.topic("orders"))
    fields = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "DefaultCluster", "brokerId": 0}
    for _ in range(2):
        reply = bench.call(RequestCode.UNREGISTER_BROKER, **fields)
        assert (reply.code, reply.raw_fields, reply.body) == (0, None, b"")
    assert bench.state.routes.brokers == {}
    assert bench.call(RequestCode.UNREGISTER_BROKER).code == 1


@pytest.mark.parametrize("compressed", ["false", "true"])
def test_a_repeated_body_is_not_decoded_again(bench: Any, monkeypatch: pytest.MonkeyPatch, compressed: str) -> None:
    """Its topics are read only when the data version changes (remoting#26)."""
    whole = RegisterBrokerBody(
        filter_server_list=["10.0.0.9:1"], topic_config_serialize_wrapper=wrapper(TopicConfig(topic_name="orders"))
    )
    body = encode_compressed(whole) if compressed == "true" else whole.encode()
    fields = {"compressed": compressed}
    decoded = []

    def counted(raw: bytes, **options: Any) -> Decoding:
        decoded.append(raw)
        return decode_registration_in_steps(raw, **options)

    monkeypatch.setattr("rmqlab.nameserver.handlers.decode_registration_in_steps", counted)
    for moment in range(3):
        bench.now = moment
        assert registration(bench, bytes(bytearray(body)), **fields).code == 0
    routes = bench.state.routes
    assert len(decoded) == 1
    assert routes.live["10.0.0.1:10911"].seen_at == 2
    assert routes.live["10.0.0.1:10911"].data_version == whole.topic_config_serialize_wrapper.data_version
    assert routes.filter_servers == {"10.0.0.1:10911": ["10.0.0.9:1"]}

    registration(bench, body, **fields, brokerAddr="10.0.0.2:10911")  # of another address: its topics are read
    assert len(decoded) == 2
    routes.unregister("c", "10.0.0.2:10911", "broker-a", 0)
    registration(bench, body, **fields)  # its queues are gone, so they are read again
    assert len(decoded) == 3
    assert "orders" in routes.queues


def test_a_repeated_body_in_another_form_is_decoded(bench: Any) -> None:
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper(TopicConfig(topic_name="orders"))).encode()
    assert registration(bench, body).code == 0
    assert registration(bench, body, compressed="true").code == 1
    assert registration(bench, body).code == 0
