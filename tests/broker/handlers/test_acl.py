"""Access control as clients and tools meet it."""

import json
import pathlib
from collections.abc import Callable

import pytest
import yaml

import rmqlab.broker.acl.control as control_module
from rmqlab.broker.handlers.acl import MAX_CHANGES
from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting.acl import Credentials, sign
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import JSON, ROCKETMQ
from rmqlab.runtime.net.dispatch import OVERLOAD

ACL_FILE = """
accounts:
  - {accessKey: RocketMQ, secretKey: 12345678, topicPerms: [topicB=PUB|SUB]}
  - {accessKey: rocketmq2, secretKey: 12345678, admin: true}
"""
ADMIN = Credentials("rocketmq2", "12345678")
CHANGES = (
    (RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": "newcomer", "secretKey": "12345678"}, 209),
    (RequestCode.DELETE_ACL_CONFIG, {"accessKey": "RocketMQ"}, 210),
    (RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, {"globalWhiteAddrs": "127.0.0.1"}, 211),
)


@pytest.fixture
def guarded(open_broker: Callable[..., TalkingBroker], tmp_path: pathlib.Path) -> TalkingBroker:
    return open_guarded(open_broker, tmp_path)


def open_guarded(open_broker: Callable[..., TalkingBroker], root: pathlib.Path, **settings: bool) -> TalkingBroker:
    (root / "guarded" / "conf").mkdir(parents=True)
    (root / "guarded" / "conf" / "plain_acl.yml").write_text(ACL_FILE)
    talk = open_broker("guarded", acl_enable=True, **settings)
    talk.tasks.runs_at_once = True
    return talk


def signed(code: int, fields: dict[str, str] | None = None, credentials: Credentials = ADMIN) -> Command:
    command = request(code, fields, b"")
    sign(command, credentials)
    return command


def test_a_request_without_a_right_is_answered_with_the_exception_of_4_9(guarded: TalkingBroker) -> None:
    (reply,) = guarded.serve(signed(310, send_fields("topicA"), Credentials("RocketMQ", "12345678")))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == (
        "org.apache.rocketmq.acl.common.AclException: No default permission for topic:topicA, "
        "org.apache.rocketmq.acl.plain.PlainPermissionManager.checkPerm(PlainPermissionManager.java:606)"
    )
    assert guarded.broker.topics.get("topicA") is None


def test_the_code_of_5x_can_be_had(open_broker: Callable[..., TalkingBroker], tmp_path: pathlib.Path) -> None:
    guarded = open_guarded(open_broker, tmp_path, acl_denied_is_no_permission=True)
    (reply,) = guarded.serve(signed(310, send_fields("topicB"), Credentials("RocketMQ", "wrong-key")))
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "Check signature failed for accessKey=RocketMQ" in (reply.remark or "")


def test_a_signed_request_is_served(guarded: TalkingBroker) -> None:
    (reply,) = guarded.serve(signed(310, send_fields("topicB"), Credentials("RocketMQ", "12345678")))
    assert reply.code == ResponseCode.SUCCESS


def test_a_oneway_request_without_a_right_is_dropped(guarded: TalkingBroker) -> None:
    assert guarded.exchange(310, send_fields("topicB"), oneway=True) == []
    assert guarded.broker.store.max_commit_log_offset == 0


def test_even_a_code_that_is_not_served_is_for_accounts_only(guarded: TalkingBroker) -> None:
    assert guarded.ask(99_999).code == ResponseCode.SYSTEM_ERROR
    (reply,) = guarded.serve(signed(99_999))
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert not guarded.broker.unserved.keys() - {("127.0.0.1", 99_999)}


def test_an_unreadable_heartbeat_is_rejected(guarded: TalkingBroker) -> None:
    (reply,) = guarded.serve(signed(RequestCode.HEART_BEAT, {}))
    assert reply.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("code", "fields", "_failure"), CHANGES)
def test_tools_change_accounts(guarded: TalkingBroker, code: int, fields: dict[str, str], _failure: int) -> None:
    (reply,) = guarded.serve(signed(code, fields))
    assert (reply.code, reply.remark, reply.body) == (ResponseCode.SUCCESS, None, b"")
    assert guarded.events[-1][0] == "acl_changed"


@pytest.mark.parametrize(("code", "fields", "failure"), CHANGES)
def test_only_failed_changes_are_answered_in_the_codec_of_the_request(
    guarded: TalkingBroker, code: int, fields: dict[str, str], failure: int
) -> None:
    """AdminBrokerProcessor writes successes, its dispatcher failures."""
    wrong = dict.fromkeys(fields, "wrong")
    replies = []
    for changes in (fields, wrong):
        command = signed(code, changes)
        command.serialize_type = ROCKETMQ
        replies += guarded.serve(command)
    assert [(reply.code, reply.serialize_type) for reply in replies] == [(0, JSON), (failure, ROCKETMQ)]


def test_a_white_list_lets_a_tool_in_at_once(guarded: TalkingBroker) -> None:
    stranger = ScriptedPeer("10.1.2.3:50001")
    assert guarded.ask(RequestCode.GET_BROKER_RUNTIME_INFO, peer=stranger).code == ResponseCode.SYSTEM_ERROR
    guarded.serve(signed(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, {"globalWhiteAddrs": "10.1.2.*"}))
    assert guarded.ask(RequestCode.GET_BROKER_RUNTIME_INFO, peer=stranger).code == ResponseCode.SUCCESS


def test_rejected_changes_name_the_reason(guarded: TalkingBroker) -> None:
    for code, fields, failure, text in (
        (50, {"accessKey": "newcomer", "secretKey": "short"}, 209, "length should longer than 6"),
        (51, {"accessKey": "unknown-account"}, 210, "The accesskey[unknown-account] corresponding"),
        (53, {"globalWhiteAddrs": "ten"}, 211, "netaddress is ten"),
        (53, {}, 211, "The globalWhiteAddresses[None]"),  # PlainPermissionManager.updateGlobalWhiteAddrsConfig
        (53, {"globalWhiteAddrs": "*", "aclFileFullPath": "/etc/passwd"}, 211, "The globalWhiteAddresses[*]"),
    ):
        (reply,) = guarded.serve(signed(code, fields))
        assert reply.code == failure
        assert text in (reply.remark or "")


@pytest.mark.parametrize(("text", "kept"), [("10.1.2.3,", ["10.1.2.3"]), ("", [""])])
def test_white_addresses_are_split_as_by_java(
    guarded: TalkingBroker, tmp_path: pathlib.Path, text: str, kept: list[str]
) -> None:
    """UtilAll.split."""
    (reply,) = guarded.serve(signed(53, {"globalWhiteAddrs": text}))
    assert reply.code == ResponseCode.SUCCESS
    document = yaml.safe_load((tmp_path / "guarded" / "conf" / "plain_acl.yml").read_text())
    assert document["globalWhiteRemoteAddresses"] == kept


def test_acl_versions_are_listed_by_file(guarded: TalkingBroker, tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "guarded" / "conf" / "plain_acl.yml")
    guarded.serve(signed(RequestCode.DELETE_ACL_CONFIG, {"accessKey": "RocketMQ"}))
    (reply,) = guarded.serve(signed(RequestCode.GET_BROKER_CLUSTER_ACL_INFO))
    fields = reply.ext_fields
    assert (fields["brokerName"], fields["clusterName"]) == ("broker-a", "DefaultCluster")
    assert fields["brokerAddr"] == guarded.broker.config.address
    assert json.loads(fields["allAclFileVersion"])[path] == json.loads(fields["version"])
    assert json.loads(fields["version"])["counter"] == 1


@pytest.mark.parametrize(("code", "fields", "failure"), CHANGES)
def test_with_access_control_off_nothing_is_changed(
    talk: TalkingBroker, code: int, fields: dict[str, str], failure: int
) -> None:
    reply = talk.ask(code, fields)
    assert (reply.code, reply.remark) == (failure, "access control is off (aclEnable)")
    assert talk.ask(RequestCode.GET_BROKER_CLUSTER_ACL_INFO).code == ResponseCode.SYSTEM_ERROR


async def test_only_so_many_changes_wait_for_their_files(guarded: TalkingBroker) -> None:
    """Each takes seconds if the file has 1 MB."""
    guarded.tasks.runs_at_once = False
    command = signed(RequestCode.DELETE_ACL_CONFIG, {"accessKey": "RocketMQ"})
    for _ in range(MAX_CHANGES):
        assert guarded.serve(command) == []
    (reply,) = guarded.serve(command)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_BUSY, OVERLOAD)
    await guarded.tasks.run_all()
    assert sorted(reply.code for reply in guarded.peer.replies[1:]) == [0, *[210] * (MAX_CHANGES - 1)]
    assert guarded.serve(command) == []
    await guarded.tasks.run_all()


def test_a_change_that_fails_unexpectedly_gets_code_1(guarded: TalkingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(control_module, "write_acl_file", fail)
    (reply,) = guarded.serve(signed(RequestCode.DELETE_ACL_CONFIG, {"accessKey": "RocketMQ"}))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: planted")
    assert guarded.broker.errors.counts == {"request 51": 1}
