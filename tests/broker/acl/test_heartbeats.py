"""Heartbeats of peers that access control does not know, or that are too large."""

import pathlib

import pytest

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.remoting.acl import Credentials, sign
from rmqlab.remoting.bodies.heartbeat import MAX_HEARTBEAT_SIZE, HeartbeatData
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request

PEER = "9.9.9.9:50001"
ACCOUNTS = "accounts: [{accessKey: RocketMQ, secretKey: 12345678}]"


@pytest.fixture
def control(tmp_path: pathlib.Path) -> AccessControl:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    return AccessControl.open(tmp_path, lambda: 1)


def heartbeat(secret: str, body: bytes) -> Command:
    command = request(RequestCode.HEART_BEAT, {}, body)
    sign(command, Credentials("RocketMQ", secret))
    return command


def test_a_heartbeat_above_the_limit_is_not_parsed(control: AccessControl) -> None:
    """One of 16 MiB held up a broker."""
    with pytest.raises(BodyError, match=f"a heartbeat of {MAX_HEARTBEAT_SIZE + 1} bytes; at most {MAX_HEARTBEAT_SIZE}"):
        control.check(heartbeat("12345678", b" " * (MAX_HEARTBEAT_SIZE + 1)), PEER)


def test_a_heartbeat_is_parsed_once_its_signature_is_right(
    control: AccessControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeartbeatData, "decode", None)
    with pytest.raises(AclDenied, match="Check signature failed"):
        control.check(heartbeat("87654321", b"{}"), PEER)
    with pytest.raises(AclDenied, match="No accessKey is configured"):
        control.check(request(RequestCode.HEART_BEAT, {"a": "b"}, b"{}"), PEER)
    with pytest.raises(TypeError):  # it is parsed here
        control.check(heartbeat("12345678", b"{}"), PEER)
