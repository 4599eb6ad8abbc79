"""The table of all requests: served ones with their handlers, and unserved ones."""

from collections.abc import Callable

import pytest

from rmqlab.broker.handlers import (
    HANDLERS,
    HANDLERS_OF_5X,
    HANDLERS_OF_OURS,
    NOT_SERVED,
    SERVED_BY_CLIENTS,
    handlers_of,
)
from rmqlab.broker.scripted import over_the_wire
from rmqlab.broker.testing import TalkingBroker, pull_fields, send_fields
from rmqlab.nameserver.handlers import HANDLERS as NAMESERVER_HANDLERS
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import JSON, ROCKETMQ

OpenBroker = Callable[..., TalkingBroker]
UNSERVED = {code for codes in NOT_SERVED.values() for code in codes}


@pytest.mark.parametrize("code", list(RequestCode))
def test_every_request_code_is_either_served_or_listed_as_unserved(code: RequestCode) -> None:
    """Design section 4: no silence about any of them."""
    served = (HANDLERS, HANDLERS_OF_OURS, NAMESERVER_HANDLERS, SERVED_BY_CLIENTS)
    assert any(code in table for table in served) != (code in UNSERVED)


def test_no_code_is_listed_twice() -> None:
    assert sum(map(len, NOT_SERVED.values())) == len(UNSERVED)


@pytest.mark.parametrize("serves_5x", [False, True])
def test_the_vip_port_serves_all_but_pulls(open_broker: OpenBroker, *, serves_5x: bool) -> None:
    """remoting-and-nameserver section 2.1."""
    broker = open_broker(serve_requests_of_5x=serves_5x).broker
    every, vip = handlers_of(broker), handlers_of(broker, is_vip=True)
    pulls = {RequestCode.PULL_MESSAGE} | ({RequestCode.LITE_PULL_MESSAGE} if serves_5x else set())
    assert every.keys() - vip.keys() == pulls
    assert vip.keys() < every.keys()


def test_requests_of_5x_are_served_only_where_that_is_switched_on(
    talk: TalkingBroker, open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 12, fidelity: a 5.0.0 client must not pass here and fail at a real 4.9.8."""
    fields = {351: {"topic": "T"}, 352: {"group": "g"}, 361: pull_fields("T")}
    assert fields.keys() == HANDLERS_OF_5X.keys()
    with_5x = open_broker("for-5x", serve_requests_of_5x=True)
    with_5x.send("T")
    for _ in range(2):
        for code, header in fields.items():
            assert talk.ask(code, header).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert with_5x.ask(code, header).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    counts = {("127.0.0.1", code): 2 for code in fields}
    assert (talk.broker.unserved, talk.broker.served_of_5x) == (counts, {})
    assert (with_5x.broker.unserved, with_5x.broker.served_of_5x) == ({}, counts)
    said = [record.getMessage() for record in caplog.records if "a real 4.9.8 answers code 3" in record.getMessage()]
    assert len(said) == len(fields)


NEVER_REFUSED = (10, 310, 320, 11, 34, 35, 36, 14, 15, 29, 30, 31, 38, 41, 42, 46)
FOR_MQADMIN = (12, 33, 17, 21, 25, 26, 28, 200, 201, 202, 203, 204, 207, 208, 215, 222, 300, 307, 309, 315, 317, 328)
CHEAP = (32, 305, 321, 303, 306, 316, 329)
FOR_A_SLAVE = (43, 45)


@pytest.mark.parametrize("code", NEVER_REFUSED + FOR_MQADMIN + CHEAP + FOR_A_SLAVE)
def test_request_codes_of_clients_tools_and_slaves_are_served(code: int) -> None:
    """broker-requests section 8."""
    assert code in HANDLERS


@pytest.mark.parametrize("code", [*sorted(UNSERVED), 400, 907, 200050])
def test_a_code_that_is_not_served_is_answered_and_counted(talk: TalkingBroker, code: int) -> None:
    """broker-requests#7: by peer and code."""
    for _ in range(2):
        assert talk.ask(code, {}).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert talk.broker.unserved == {("127.0.0.1", code): 2}
    assert talk.events == [("unserved_request", {"peer": "127.0.0.1", "code": code, "count": 1})]
    assert talk.send("T").code == ResponseCode.SUCCESS  # the connection goes on


WITHOUT_HEADER = [code for code, route in HANDLERS.items() if route.header_type is not None]


NEEDS_NO_HEADER = {
    RequestCode.UNREGISTER_CLIENT: ResponseCode.SUCCESS,
    RequestCode.GET_BROKER_CONSUME_STATS: ResponseCode.SUCCESS,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
    RequestCode.DELETE_ACL_CONFIG: ResponseCode.DELETE_ACL_CONFIG_FAILED,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
}
"""These read no field before they reply; the last three, because access control is off."""


@pytest.mark.parametrize("code", WITHOUT_HEADER)
def test_a_request_without_its_header_is_a_system_error(talk: TalkingBroker, code: RequestCode) -> None:
    """broker-requests section 0.1: for any request; no task, no crash."""
    assert talk.ask(code).code == NEEDS_NO_HEADER.get(code, ResponseCode.SYSTEM_ERROR)


@pytest.mark.parametrize("code", sorted(HANDLERS))
def test_a_oneway_request_is_never_answered(talk: TalkingBroker, code: int) -> None:
    """broker-requests#2: neither well nor badly."""
    assert talk.exchange(code, {"topic": "T"}, b"nonsense", oneway=True) == []


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_reply_uses_the_codec_of_its_request(talk: TalkingBroker, serialize_type: int) -> None:
    """broker-requests#1, #3."""
    command = Command(RequestCode.SEND_MESSAGE_V2, serialize_type=serialize_type, raw_fields=send_fields("T"))
    (reply,) = talk.serve(command)
    assert (reply.serialize_type, reply.flag, reply.opaque) == (serialize_type, 1, command.opaque)
    assert 232 <= reply.version < 2**15  # broker-requests#9


@pytest.mark.parametrize("value", ["false", "1", "0", "no"])
def test_only_true_is_true(talk: TalkingBroker, value: str) -> None:
    """broker-requests#4: old C++ clients send 1 and 0."""
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T") | {"m": value}, b"no batch")
    assert reply.code == ResponseCode.SUCCESS


def test_unknown_fields_change_nothing(talk: TalkingBroker) -> None:
    """broker-requests#6."""
    talk.send("T")
    plain, odd = (
        talk.ask(RequestCode.PULL_MESSAGE, pull_fields("T") | extra)
        for extra in ({}, {"Signature": "s", "AccessKey": "a", "ReqT": "0", "bname": "b", "lo": "true", "ns": "n"})
    )
    assert (odd.code, odd.ext_fields, odd.body) == (plain.code, plain.ext_fields, plain.body)


MUST_HAVE_FIELDS = {
    RequestCode.SEND_MESSAGE_V2: send_fields("T"),
    RequestCode.PULL_MESSAGE: pull_fields("T"),
    RequestCode.QUERY_CONSUMER_OFFSET: {"consumerGroup": "g", "topic": "T", "queueId": "0"},
    RequestCode.GET_BROKER_CONFIG: {},
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: {"topic": "T", "queueId": "0", "timestamp": "0"},
    RequestCode.GET_MAX_OFFSET: {"topic": "T", "queueId": "0"},
    RequestCode.GET_MIN_OFFSET: {"topic": "T", "queueId": "0"},
    RequestCode.GET_EARLIEST_MSG_STORETIME: {"topic": "T", "queueId": "0"},
}
EMPTY_FIELDS = {
    RequestCode.UPDATE_CONSUMER_OFFSET: {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "0"},
    RequestCode.UNREGISTER_CLIENT: {"clientID": "c"},
    RequestCode.GET_ALL_TOPIC_CONFIG: {},
}


@pytest.mark.parametrize("code", [*MUST_HAVE_FIELDS, *EMPTY_FIELDS])
def test_answers_that_clients_look_into_have_ext_fields(talk: TalkingBroker, code: RequestCode) -> None:
    """broker-requests#10: Java dereferences them, C++ throws without.

    Some are there and empty.
    """
    talk.send("T")
    fields = MUST_HAVE_FIELDS.get(code, EMPTY_FIELDS.get(code))
    reply = talk.ask(code, fields)
    assert reply.code == ResponseCode.SUCCESS
    assert reply.raw_fields is not None
    assert bool(reply.ext_fields) == (code in MUST_HAVE_FIELDS)


def test_an_internal_failure_is_a_system_error_and_no_more(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """broker-requests#8."""

    def fail(*_args: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(talk.broker.subscriptions, "wrapper", fail)
    assert talk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).code == ResponseCode.SYSTEM_ERROR
    assert "a fault of ours" in caplog.text
    assert talk.send("T").code == ResponseCode.SUCCESS


SERVED_BY_A_SLAVE = (21, 26, 28, 43, 45, 201, 305, 306, 316, 317, 328, 329)


@pytest.mark.parametrize("code", SERVED_BY_A_SLAVE)
def test_a_slave_serves_what_only_reads(slave: TalkingBroker, code: int) -> None:
    """broker-requests#64, section 7."""
    slave.tasks.runs_at_once = True
    assert slave.ask(code, {}).code == ResponseCode.SUCCESS


def test_a_header_with_a_line_feed_after_it_is_taken(talk: TalkingBroker) -> None:
    """broker-requests#5: as C++ clients write it."""
    import msgspec

    from rmqlab.remoting.codec import decode_command
    from rmqlab.remoting.frame import Frame

    header = msgspec.json.encode({"code": 30, "flag": 0, "opaque": 1, "extFields": {"topic": "T", "queueId": 0}})
    talk.dispatcher.serve(talk.peer, decode_command(Frame(JSON, header + b"\n")))
    assert talk.peer.replies[-1].ext_fields == {"offset": "0"}
    assert over_the_wire(talk.peer.replies[-1]).opaque == 1
