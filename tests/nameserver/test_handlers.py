"""Routes, lists, permissions, keys and values, settings: requests without network."""

import errno
import json
import os
import pathlib
from typing import Any

import pytest

from rmqlab.nameserver.handlers import HANDLERS, ROUTES
from rmqlab.remoting.bodies.route import ClusterInfo
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import JSON, ROCKETMQ
from rmqlab.store.files.configfile import on_disk
from rmqlab.store.files.disk import Disk


def test_exactly_the_twenty_requests_of_4_9_are_served() -> None:
    """Section 2.1: the complete set."""
    served = "100 101 102 103 104 105 106 205 206 216 219 224 304 311 312 313 318 319 322 327"
    assert sorted(HANDLERS) == [int(code) for code in served.split()]
    assert len(ROUTES) == len(HANDLERS)


def test_any_other_code_is_answered_with_3_and_counted(bench: Any) -> None:
    """remoting#14: a departure from 4.9, which lets the peer wait for its time-out."""
    for code in (901, 904, 217, 10):
        reply = bench.ask(Command(code))
        assert (reply.code, reply.remark) == (3, f" request type {code} not supported")
    assert sum(bench.dispatcher.unserved.values()) == 4


def test_a_message_sent_back_to_a_nameserver_gets_no_reply_and_is_counted(bench: Any) -> None:
    """remoting#14: Java's consumers depend on the time-out."""
    wire = bench.wire()
    assert bench.dispatcher.serve(wire, Command(RequestCode.CONSUMER_SEND_MSG_BACK)) is None
    assert not wire.written
    assert sum(bench.dispatcher.unserved.values()) == 1


# -- routes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "asks_standard", "is_quoted"),
    [(401, None, True), (409, None, True), (479, None, True), (400, None, False), (333, None, False), (0, None, False),
     (317, "true", True), (317, "false", False), (121, "TRUE", True)],
)  # fmt: skip
def test_broker_ids_are_quoted_for_new_versions_and_on_request(
    bench: Any,
    version: int,
    asks_standard: str | None,
    is_quoted: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """remoting#15, #16, #17."""
    bench.register(bench.topic("orders"))
    bench.register(broker_id=1, host="10.0.0.2")
    fields = {"topic": "orders"} | ({} if asks_standard is None else {"acceptStandardJsonOnly": asks_standard})
    body = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version, **fields).body
    addresses = (
        b'{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}' if is_quoted else b'{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}'
    )
    assert body == (
        b'{"brokerDatas":[{"brokerAddrs":' + addresses + b',"brokerName":"broker-a","cluster":"DefaultCluster"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        b'"writeQueueNums":4}]}'
    )
    if is_quoted:
        assert json.loads(body)


def test_the_route_text_survives_the_go_clients_way_of_reading_it(bench: Any) -> None:
    """remoting#17: the Go client cuts `brokerAddrs` at commas and the first colon.

    It strips quotes only. Both key styles; jsoncpp, JSON2 and fastjson take both as objects. The real clients are in
    the interop suite.
    """
    bench.register(bench.topic("orders"))
    bench.register(broker_id=1, host="10.0.0.2")
    for version in (317, 401):
        text = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version, topic="orders").body.decode()
        inner = text.split('"brokerAddrs":{')[1].split("}")[0]
        pairs = [entry.partition(":") for entry in inner.split(",")]
        assert {int(key.replace('"', "")): value.replace('"', "") for key, _, value in pairs} == {
            0: "10.0.0.1:10911",
            1: "10.0.0.2:10911",
        }


def test_a_standard_route_is_ascii_with_escaped_slashes_and_an_older_one_is_raw_text(bench: Any) -> None:
    """remoting#16; section 3.8."""
    bench.register(bench.topic("orders"), name="brökér/a")
    standard = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=401, topic="orders").body
    older = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=317, topic="orders").body
    assert b'"br\\u00f6k\\u00e9r\\/a"' in standard
    assert '"brökér/a"'.encode() in older


@pytest.mark.parametrize("fields", [{"topic": "nothing"}, {}])
def test_a_topic_without_a_route_is_17_with_a_remark_and_no_body(bench: Any, fields: dict[str, str]) -> None:
    """remoting#18: a missing topic is looked up as `null`."""
    bench.register(bench.topic("orders"))
    reply = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, **fields)
    assert (reply.code, reply.body) == (ResponseCode.TOPIC_NOT_EXIST, b"")
    assert fields.get("topic", "null") in reply.remark


def test_an_order_configuration_is_in_the_route_only_where_it_is_enabled_and_defined(bench: Any) -> None:
    """remoting#15."""
    bench.register(bench.topic("orders"), bench.topic("plain"))
    bench.call(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")

    def order(topic: str) -> str | None:
        body = bench.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).body
        conf = json.loads(body).get("orderTopicConf")
        assert conf is None or isinstance(conf, str)
        return conf

    assert order("orders") is None
    bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true")
    assert (order("orders"), order("plain")) == ("broker-a:4", None)


def test_a_cluster_list_has_all_brokers_and_clusters_under_bare_ids(bench: Any) -> None:
    """remoting#19."""
    empty = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert bench.call(RequestCode.GET_BROKER_CLUSTER_INFO).body == empty
    bench.register()
    bench.register(broker_id=1, host="10.0.0.2")
    bench.register(name="broker-b", host="10.0.0.3", cluster="other")
    body = bench.call(RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert b'"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}' in body
    info = ClusterInfo.decode(body)
    assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"], "other": ["broker-b"]}
    assert {name: broker.broker_addrs for name, broker in info.broker_addr_table.items()} == {
        "broker-a": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"},
        "broker-b": {0: "10.0.0.3:10911"},
    }


@pytest.mark.parametrize(
    ("code", "fields", "topics"),
    [
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, ["orders", "unit", "sub", "both"]),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}, ["orders", "unit", "sub", "both"]),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "no such"}, []),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {}, []),
        (RequestCode.GET_UNIT_TOPIC_LIST, {}, ["unit", "both"]),
        (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, {}, ["sub", "both"]),
        (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {}, ["sub"]),
    ],
)
def test_topic_lists_hold_names_and_nothing_else(
    bench: Any, code: RequestCode, fields: dict[str, str], topics: list[str]
) -> None:
    """remoting#20."""
    bench.register(
        bench.topic("orders"), bench.topic("unit", flag=1), bench.topic("sub", flag=2), bench.topic("both", flag=3)
    )
    reply = bench.call(code, **fields)
    assert (reply.code, json.loads(reply.body)) == (0, {"topicList": topics})


def test_system_topics_are_returned_with_a_broker_address_if_any(bench: Any) -> None:
    """remoting#20."""
    assert json.loads(bench.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body) == {"topicList": []}
    bench.register()
    assert json.loads(bench.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body) == {
        "brokerAddr": "10.0.0.1:10911",
        "topicList": ["DefaultCluster", "broker-a"],
    }


# -- permissions and topics ----------------------------------------------------------------------


def test_wiping_and_adding_write_permission_answer_how_many_topics_the_broker_has(bench: Any) -> None:
    """remoting#36."""
    bench.register(bench.topic("orders"), bench.topic("TBW102", 8, 7))
    assert bench.call(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a").ext_fields == {
        "wipeTopicCount": "2"
    }
    assert bench.state.routes.queues["TBW102"]["broker-a"].perm == 5
    assert bench.call(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a").ext_fields == {"addTopicCount": "2"}
    assert bench.state.routes.queues["TBW102"]["broker-a"].perm == 6
    assert bench.call(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="x").ext_fields == {"wipeTopicCount": "0"}
    assert bench.call(RequestCode.ADD_WRITE_PERM_OF_BROKER).ext_fields == {"addTopicCount": "0"}


def test_a_topic_is_deleted_in_one_cluster_or_all_and_0_is_answered_in_any_case(bench: Any) -> None:
    """remoting#35."""
    bench.register(bench.topic("orders"))
    bench.register(bench.topic("orders"), name="broker-b", host="10.0.0.3", cluster="other")
    for fields, left in [
        ({"topic": "orders", "clusterName": "no such"}, ["broker-a", "broker-b"]),
        ({"topic": "no such"}, ["broker-a", "broker-b"]),
        ({}, ["broker-a", "broker-b"]),
        ({"topic": "orders", "clusterName": "other"}, ["broker-a"]),
        ({"topic": "orders"}, []),
    ]:
        assert bench.call(RequestCode.DELETE_TOPIC_IN_NAMESRV, **fields).code == 0
        assert list(bench.state.routes.queues.get("orders", ())) == left
    bench.register(bench.topic("orders"))
    assert "orders" not in bench.state.routes.queues
    bench.register(bench.topic("orders"), counter=2)
    assert "orders" in bench.state.routes.queues


# -- keys and values, settings -------------------------------------------------------------------


def test_a_value_is_stored_before_it_is_answered_read_back_and_deleted(bench: Any) -> None:
    """remoting#37, #38."""
    path = pathlib.Path(bench.config.kv_config_path)
    fields = {"namespace": "ns", "key": "k"}
    reply = bench.call(RequestCode.PUT_KV_CONFIG, **fields, value="v w")
    assert (reply.code, reply.raw_fields, reply.body) == (0, None, b"")
    assert json.loads(path.read_bytes()) == {"configTable": {"ns": {"k": "v w"}}}
    assert bench.call(RequestCode.GET_KV_CONFIG, **fields).ext_fields == {"value": "v w"}
    assert bench.call(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns").body == b'{"table":{"k":"v w"}}'
    for _ in range(2):
        assert bench.call(RequestCode.DELETE_KV_CONFIG, **fields).code == 0
    assert json.loads(path.read_bytes()) == {"configTable": {"ns": {}}}
    assert bench.call(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns").body == b'{"table":{}}'


def test_a_missing_key_gets_code_22(bench: Any) -> None:
    """remoting#38."""
    reply = bench.call(RequestCode.GET_KV_CONFIG, namespace="ns", key="k")
    assert (reply.code, reply.raw_fields is None, reply.ext_fields) == (ResponseCode.QUERY_NOT_FOUND, False, {})
    assert bench.call(RequestCode.GET_KV_CONFIG).code == ResponseCode.QUERY_NOT_FOUND
    assert bench.call(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns").code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("fields", [{"namespace": "ns", "value": "v"}, {"key": "k", "value": "v"}, {}])
def test_a_put_without_namespace_or_key_is_code_1(bench: Any, fields: dict[str, str]) -> None:
    """Section 3.2."""
    assert bench.call(RequestCode.PUT_KV_CONFIG, **fields).code == 1


def test_a_put_without_a_value_is_taken(bench: Any) -> None:
    """Section 3.2."""
    assert bench.call(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k").code == 0
    assert bench.call(RequestCode.GET_KV_CONFIG, namespace="ns", key="k").code == ResponseCode.QUERY_NOT_FOUND


def test_settings_are_listed_as_lines_under_rocketmqs_names(bench: Any) -> None:
    """remoting#39."""
    lines = bench.call(RequestCode.GET_NAMESRV_CONFIG).body.decode().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    for key, value in {"serverWorkerThreads": "8", "orderMessageEnable": "false", "productEnvName": "center"}.items():
        assert settings[key] == value


def test_known_settings_are_changed_and_stored_and_unknown_ones_passed_over(bench: Any) -> None:
    """remoting#39."""
    path = pathlib.Path(bench.config.config_store_path)
    for _ in range(2):
        body = b"orderMessageEnable=true\nnoSuchKey=1\nserverWorkerThreads=many\n"
        assert bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, body).code == 0
    assert bench.state.config.order_message_enable
    stored = path.read_text().splitlines()
    assert "orderMessageEnable=true" in stored
    assert "serverWorkerThreads=8" in stored
    assert not any("noSuchKey" in line for line in stored)
    assert path.with_name(path.name + ".bak").exists()


def test_a_warning_names_settings_of_a_request_that_have_no_effect_here(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Classes NamesrvController, NamesrvConfig and NettyServerConfig of 4.9.8."""
    for body in (b"serverWorkerThreads=16\nproductEnvName=center\n", b"orderMessageEnable=true\n"):
        assert bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, body).code == 0
    assert [text.split(" ", 1)[1] for text in caplog.messages] == [
        "set keys without effect here: server_worker_threads"
    ]


class FullDisk(Disk):
    """Writes nothing."""

    def write_file(self, path: pathlib.Path, content: bytes) -> None:  # noqa: ARG002 - of the base class
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def test_a_change_that_a_full_disk_does_not_save_is_1_and_changes_nothing(bench: Any) -> None:
    bench.call(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
    with on_disk(FullDisk()):
        replies = [
            bench.call(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="other"),
            bench.call(RequestCode.DELETE_KV_CONFIG, namespace="n", key="k"),
            bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true"),
        ]
    for reply in replies:
        assert (reply.code, reply.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "the change is not saved: No space left on device",
        )
    assert bench.call(RequestCode.GET_KV_CONFIG, namespace="n", key="k").ext_fields["value"] == "v"
    assert not bench.state.config.order_message_enable
    assert not bench.dispatcher.errors.counts


def test_an_empty_update_is_0_and_stores_nothing(bench: Any) -> None:
    assert bench.call(RequestCode.UPDATE_NAMESRV_CONFIG).code == 0
    assert not pathlib.Path(bench.config.config_store_path).exists()


@pytest.mark.parametrize("key", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "clusterTest"])
def test_a_black_listed_setting_is_16_and_nothing_of_the_request_is_applied(bench: Any, key: str) -> None:
    """remoting#39."""
    bench.state.config = type(bench.config)(config_black_list="clusterTest;listenPort")
    reply = bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, f"orderMessageEnable=true\n{key}=x\n".encode())
    assert reply.code == ResponseCode.NO_PERMISSION
    assert not bench.state.config.order_message_enable


# -- events --------------------------------------------------------------------------------------


def test_events_are_emitted_on_changes_only(bench: Any) -> None:
    for now in (0.0, 30.0):
        bench.now = now
        bench.register(bench.topic("orders"))
    assert bench.events == [
        (
            "broker_registered",
            {
                "cluster": "DefaultCluster",
                "broker_name": "broker-a",
                "broker_id": 0,
                "address": "10.0.0.1:10911",
                "reason": "new",
                "remaining": {"0": "10.0.0.1:10911"},
            },
        ),
        ("route_changed", {"broker_name": "broker-a", "reason": "registered", "topics": ["orders"], "topic_count": 1}),
    ]


def test_a_silent_broker_is_dropped_and_its_connection_closed(bench: Any) -> None:
    """remoting#33."""
    wire = bench.wire()
    bench.register(wire=wire)
    bench.now = 120.0
    bench.state.expire()
    assert wire.closed_for is None
    bench.now = 121.0
    bench.state.expire()
    assert wire.closed_for == "no registration for more than 120 s"
    assert [kind for kind, _ in bench.events] == ["broker_registered", "broker_expired"]
    assert bench.events[-1][1]["remaining"] == {}


@pytest.mark.parametrize("code", [RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION])
def test_an_invalid_body_gets_its_reply_in_json_whatever_the_codec(bench: Any, code: RequestCode) -> None:
    """Exceptions get replies without the request's codec.

    NettyRemotingAbstract.processRequestCommand.
    """
    fields = {"brokerName": "b", "brokerAddr": "10.0.0.1:1", "clusterName": "c", "brokerId": "0", "bodyCrc32": "0"}
    command = Command(code, body=b"junk", raw_fields=fields, serialize_type=ROCKETMQ)
    reply = bench.ask(command)
    assert (reply.code, reply.serialize_type) == (ResponseCode.SYSTEM_ERROR, JSON)
    assert not bench.dispatcher.errors.counts
