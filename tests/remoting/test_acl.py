"""Signing requests as RocketMQ's ACL hook does."""

import json
import pathlib

import pytest

from rmqlab.remoting import acl
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import FrameDecoder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "wire"
TOOLS = acl.Credentials("rocketmq2", "12345678")
"""The account in the tools.yml of a RocketMQ distribution, with which mqadmin signs all that it asks."""


def recorded_signed_requests() -> list[Command]:
    """Return all recorded requests with a signature.

    Those that a broker forwarded with other contents are omitted.
    """
    lines = [line for path in sorted(GOLDEN.glob("b*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    frames = [record["hex"] for record in map(json.loads, lines) if record["from"] == "client"]
    commands = [decode_command(*FrameDecoder().feed(bytes.fromhex(frame))) for frame in frames]
    return [command for command in commands if acl.SIGNATURE in command.ext_fields]


def test_recorded_requests_of_mqadmin_are_signed_alike() -> None:
    recorded = recorded_signed_requests()
    assert len(recorded) > 100
    assert any(command.body for command in recorded)
    for command in recorded:
        fields = dict(command.ext_fields)
        theirs = fields.pop(acl.SIGNATURE)
        del fields[acl.ACCESS_KEY]
        ours = Command(command.code, body=command.body, raw_fields=fields)
        acl.sign(ours, TOOLS)
        assert ours.ext_fields[acl.SIGNATURE] == theirs, command


def test_a_request_may_be_signed_twice() -> None:
    command = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    acl.sign(command, TOOLS)
    once = dict(command.ext_fields)
    acl.sign(command, TOOLS)
    assert command.ext_fields == once


def test_the_body_and_a_token_are_signed_too() -> None:
    plain, longer = request(RequestCode.HEART_BEAT), request(RequestCode.HEART_BEAT, body=b"{}")
    token = request(RequestCode.HEART_BEAT)
    acl.sign(plain, TOOLS)
    acl.sign(longer, TOOLS)
    acl.sign(token, acl.Credentials("rocketmq2", "12345678", "sts"))
    assert token.ext_fields[acl.SECURITY_TOKEN] == "sts"
    assert len({command.ext_fields[acl.SIGNATURE] for command in (plain, longer, token)}) == 3


def test_secrets_are_not_shown() -> None:
    assert "12345678" not in repr(TOOLS)


@pytest.mark.parametrize(
    ("access_key", "secret_key", "text"),
    [
        ("1234567", "1234567", None),
        ("123456", "1234567", "the access key has 6 characters"),
        ("1234567", "123456", "the secret key has 6 characters"),
        ("", "1234567", "the access key is missing"),
        ("1234567", "", "the secret key is missing"),
    ],
)
def test_keys_have_7_characters_or_more(access_key: str, secret_key: str, text: str | None) -> None:
    fault = acl.keys_fault(access_key, secret_key)
    assert fault is None if text is None else fault is not None and fault.startswith(text)
