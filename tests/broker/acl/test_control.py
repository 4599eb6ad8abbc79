"""Access control: accepted requests, reasons of refusals, and reloading of files."""

import os
import pathlib
import stat
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from rmqlab.broker.acl.access import Access, access_of
from rmqlab.broker.acl.account import SUB
from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.remoting.acl import Credentials, sign
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request

ACL_FILE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress: 192.168.0.*
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      - groupA=DENY
      - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: 12345678
    admin: true
"""
OWN = Credentials("RocketMQ", "12345678")
ADMIN = Credentials("rocketmq2", "12345678")
FAR = "127.0.0.1:50001"

Opener = Callable[..., AccessControl]


@pytest.fixture
def open_control(tmp_path: pathlib.Path) -> Opener:
    def open_one(text: str = ACL_FILE, **more: str) -> AccessControl:
        (tmp_path / "conf" / "acl").mkdir(parents=True, exist_ok=True)
        plain_file(tmp_path).write_text(text)
        for name, content in more.items():
            (tmp_path / "conf" / "acl" / f"{name}.yml").write_text(content)
        return AccessControl.open(tmp_path, lambda: 1_800_000_000_000)

    return open_one


def plain_file(home: pathlib.Path) -> pathlib.Path:
    return home / "conf" / "plain_acl.yml"


def rewrite(path: pathlib.Path, text: str) -> None:
    """Write a file so that its time of change differs, however fast this is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def signed(code: int, credentials: Credentials = OWN, body: bytes = b"", **fields: str) -> Command:
    command = request(code, fields, body)
    sign(command, credentials)
    return command


def denial(control: AccessControl, command: Command, peer: str = FAR) -> str | None:
    """Why a request is denied; None where it is not."""
    try:
        control.check(command, peer)
    except AclDenied as exc:
        return str(exc)
    return None


def sends(topic: str, group: str = "P") -> Command:
    return signed(RequestCode.SEND_MESSAGE_V2, a=group, b=topic)


def pulls(topic: str, group: str) -> Command:
    return signed(RequestCode.PULL_MESSAGE, topic=topic, consumerGroup=group)


def test_unsigned_requests_are_denied_unless_globally_white_listed(open_control: Opener) -> None:
    control = open_control()
    for command in (request(RequestCode.GET_BROKER_RUNTIME_INFO), request(RequestCode.PULL_MESSAGE, {"topic": "T"})):
        assert denial(control, command) == "No accessKey is configured"
        assert denial(control, command, "10.10.103.7:50001") is None


def test_an_account_must_be_known_and_sign_with_its_secret(open_control: Opener) -> None:
    control = open_control()
    asks = RequestCode.GET_BROKER_RUNTIME_INFO
    assert denial(control, signed(asks, Credentials("nobody-knows", "12345678"))) == "No acl config for nobody-knows"
    wrong = signed(asks, Credentials("RocketMQ", "87654321"))
    assert denial(control, wrong) == "Check signature failed for accessKey=RocketMQ"
    assert denial(control, wrong, "192.168.0.9:50001") is None  # the account's own white list
    assert denial(control, signed(asks)) is None


def test_a_request_changed_after_signing_is_denied(open_control: Opener) -> None:
    control = open_control()
    command = sends("topicB")
    assert denial(control, command) is None
    command.body = b"other"
    assert denial(control, command) == "Check signature failed for accessKey=RocketMQ"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (sends("topicB"), None),
        (sends("topicA"), "No default permission for topic:topicA"),
        (sends("topicC"), "No default permission for topic:topicC"),
        (sends("other"), "No default permission for topic:other"),
        (sends("%RETRY%groupA", "groupA"), "No default permission for group:groupA"),
        (sends("%RETRY%any", "any"), None),
        (sends("RMQ_SYS_TRACE_TOPIC"), None),
        (pulls("topicC", "groupB"), None),
        (pulls("topicC", "any"), None),
        (pulls("topicC", "groupA"), "No default permission for group:groupA"),
        (pulls("other", "groupB"), "No default permission for topic:other"),
        (signed(RequestCode.SEND_MESSAGE, topic="topicA"), "No default permission for topic:topicA"),
        (signed(RequestCode.SEND_MESSAGE, topic="%RETRY%groupA"), None),
        (signed(RequestCode.SEND_BATCH_MESSAGE, b="topicA"), None),
        (signed(RequestCode.CONSUMER_SEND_MSG_BACK, group="groupA"), "No default permission for group:groupA"),
        (signed(RequestCode.QUERY_MESSAGE, topic="other"), "No default permission for topic:other"),
        (signed(RequestCode.UNREGISTER_CLIENT, clientID="c", producerGroup="P"), None),
        (signed(RequestCode.UNREGISTER_CLIENT, consumerGroup="groupA"), "No default permission for group:groupA"),
        (signed(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="groupB"), None),
        (
            signed(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="groupB", topic="other"),
            "No default permission for topic:other",
        ),
        (
            signed(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="topicB"),
            "Need admin permission for request code=17, but accessKey=RocketMQ is not",
        ),
        (signed(RequestCode.UPDATE_AND_CREATE_TOPIC, ADMIN, topic="topicB"), None),
        (signed(RequestCode.SEND_MESSAGE_V2, ADMIN, b="anything"), None),
        (signed(99_999), None),
    ],
)  # fmt: skip
def test_permissions_of_an_account_decide_on_requests(
    open_control: Opener, command: Command, expected: str | None
) -> None:
    assert denial(open_control(), command) == expected


def test_a_heartbeat_needs_each_group_and_topic_that_it_names(open_control: Opener) -> None:
    control = open_control()

    def heartbeat(group: str, topic: str) -> Command:
        body = (
            '{"clientID":"c","consumerDataSet":[{"groupName":"%s","subscriptionDataSet":[{"topic":"%s"}]}],'
            '"producerDataSet":[{"groupName":"P"}]}'
        )
        return signed(RequestCode.HEART_BEAT, body=(body % (group, topic)).encode())

    assert denial(control, heartbeat("groupB", "topicC")) is None
    assert denial(control, heartbeat("groupA", "topicC")) == "No default permission for group:groupA"
    assert denial(control, heartbeat("groupB", "topicA")) == "No default permission for topic:topicA"
    assert denial(control, heartbeat("groupA", "topicA")) == "No default permission for topic:topicA"


def test_an_administrator_with_permissions_of_his_own_has_no_others(open_control: Opener) -> None:
    control = open_control(
        "accounts: [{accessKey: limited-admin, secretKey: 12345678, admin: true, topicPerms: [topicA=PUB]}]"
    )
    limited = Credentials("limited-admin", "12345678")
    assert denial(control, signed(RequestCode.SEND_MESSAGE_V2, limited, b="topicA")) is None
    assert denial(control, signed(RequestCode.SEND_MESSAGE_V2, limited, b="topicB")) is not None


def test_the_signature_covers_all_fields_except_itself_and_one_more() -> None:
    """4.9.8 leaves `_UNIQUE_KEY_QUERY` out."""
    command = request(RequestCode.QUERY_MESSAGE, {"topic": "T", "key": "K", "_UNIQUE_KEY_QUERY": "true"}, b"body")
    sign(command, OWN)
    access = access_of(command, "[::1]:50001")
    assert access.content == b"RocketMQKTbody"
    signature = command.ext_fields["Signature"]
    assert access == Access(12, "[::1]", "RocketMQ", signature, access.content, access.resources)
    assert access.resources() == {"T": SUB}


def test_files_of_the_directory_count_too_and_the_first_to_name_an_account(open_control: Opener) -> None:
    more = "accounts: [{accessKey: RocketMQ, secretKey: otherkey}, {accessKey: another, secretKey: 12345678}]"
    control = open_control(more=more)
    asks = RequestCode.GET_BROKER_RUNTIME_INFO
    assert denial(control, signed(asks, Credentials("RocketMQ", "otherkey"))) is None
    assert denial(control, signed(asks)) == "Check signature failed for accessKey=RocketMQ"
    assert denial(control, signed(asks, Credentials("another", "12345678"))) is None
    assert [pathlib.Path(path).name for path in control.versions] == ["more.yml", "plain_acl.yml"]


async def test_a_changed_file_is_read_again(open_control: Opener, tmp_path: pathlib.Path) -> None:
    control = open_control()
    rewrite(plain_file(tmp_path), "accounts: [{accessKey: newcomer, secretKey: 12345678}]")
    asks = RequestCode.GET_BROKER_RUNTIME_INFO
    newcomer = signed(asks, Credentials("newcomer", "12345678"))
    assert denial(control, newcomer) == "No acl config for newcomer"
    await control.poll()
    assert denial(control, newcomer) is None
    assert denial(control, signed(asks)) == "No PlainAccessResource for accessKey=RocketMQ"
    assert denial(control, request(asks), "10.10.103.7:50001") == "No accessKey is configured"


async def test_added_and_removed_files_are_noticed(open_control: Opener, tmp_path: pathlib.Path) -> None:
    control = open_control()
    extra = tmp_path / "conf" / "acl" / "deep" / "extra.yaml"
    extra.parent.mkdir()
    extra.write_text("accounts: [{accessKey: another, secretKey: 12345678}]")
    another = signed(RequestCode.GET_BROKER_RUNTIME_INFO, Credentials("another", "12345678"))
    await control.poll()
    assert denial(control, another) is None
    extra.unlink()
    await control.poll()
    assert denial(control, another) == "No acl config for another"


@pytest.mark.parametrize(
    "broken",
    ["accounts: [", "- a list", "accounts: 7", "accounts: [{accessKey: short, secretKey: 12345678}]",
     "accounts: [{accessKey: RocketMQ, secretKey: 12345678, topicPerms: [topicA]}]", "globalWhiteRemoteAddresses: [ten]",
     ""],
)  # fmt: skip
async def test_an_invalid_acl_file_changes_nothing(open_control: Opener, tmp_path: pathlib.Path, broken: str) -> None:
    control = open_control()
    rewrite(plain_file(tmp_path), broken)
    await control.poll()
    assert denial(control, signed(RequestCode.GET_BROKER_RUNTIME_INFO)) is None
    assert denial(control, request(RequestCode.GET_BROKER_RUNTIME_INFO), "10.10.103.7:1") is None


def test_invalid_yaml_is_reported_in_one_line_with_its_position(open_control: Opener) -> None:
    with pytest.raises(AclDenied, match=r"plain_acl\.yml: line 2, column 1: expected the node content.*$") as raised:
        open_control("accounts: [\n")
    assert "\n" not in str(raised.value)


def test_without_a_file_an_empty_one_is_created_and_all_requests_are_denied(tmp_path: pathlib.Path) -> None:
    control = AccessControl.open(tmp_path, lambda: 1)
    assert plain_file(tmp_path).read_text() == ""
    assert denial(control, signed(RequestCode.GET_BROKER_RUNTIME_INFO)) == "No acl config for RocketMQ"


def written(home: pathlib.Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = yaml.safe_load(plain_file(home).read_text())
    return content


async def test_an_account_is_added_changed_and_deleted_in_the_file_and_at_once(
    open_control: Opener, tmp_path: pathlib.Path
) -> None:
    control = open_control()
    asks = signed(RequestCode.SEND_MESSAGE_V2, Credentials("newcomer", "12345678"), b="topicZ")
    await control.update_account({"accessKey": "newcomer", "secretKey": "12345678", "admin": False, "topicPerms": None})
    assert denial(control, asks) == "No default permission for topic:topicZ"
    await control.update_account(
        {"accessKey": "newcomer", "secretKey": "12345678", "admin": False, "topicPerms": ["topicZ=PUB"]}
    )
    assert denial(control, asks) is None
    assert written(tmp_path)["accounts"][-1] == {
        "accessKey": "newcomer", "secretKey": "12345678", "admin": False, "topicPerms": ["topicZ=PUB"],
    }  # fmt: skip
    assert written(tmp_path)["dataVersion"] == [{"counter": 2, "timestamp": 1_800_000_000_000}]
    assert control.version.counter == 2
    assert await control.delete_account("newcomer")
    assert denial(control, asks) == "No acl config for newcomer"
    assert [account["accessKey"] for account in written(tmp_path)["accounts"]] == ["RocketMQ", "rocketmq2"]
    assert not await control.delete_account("newcomer")


async def test_a_change_keeps_what_it_does_not_name(open_control: Opener, tmp_path: pathlib.Path) -> None:
    control = open_control()
    await control.update_account({"accessKey": "RocketMQ", "secretKey": "87654321", "admin": False})
    account = written(tmp_path)["accounts"][-1]
    assert (account["secretKey"], account["defaultGroupPerm"], account["topicPerms"][1]) == (
        "87654321", "SUB", "topicB=PUB|SUB",
    )  # fmt: skip
    assert (
        AccessControl.open(tmp_path, lambda: 1).files[plain_file(tmp_path)].accounts["RocketMQ"].perms["topicB"] == 12
    )


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"secretKey": "12345678"}, "accessKey=None and secretKey"),
        ({"accessKey": "newcomer", "secretKey": "123456"}, "secretKey=****** cannot be null and length should longer"),
        ({"accessKey": "newcomer", "secretKey": "12345678", "topicPerms": ["topicA"]}, "Parse Resource format error"),
        ({"accessKey": "newcomer", "secretKey": "12345678", "groupPerms": ["g=ALL"]}, "Parse resource permission error"),
        ({"accessKey": "newcomer", "secretKey": "12345678", "whiteRemoteAddress": "ten"}, "netaddress is ten"),
    ],
)  # fmt: skip
async def test_a_bad_account_is_refused_and_nothing_is_written(
    open_control: Opener, tmp_path: pathlib.Path, entry: Mapping[str, Any], text: str
) -> None:
    control = open_control()
    with pytest.raises(AclDenied) as caught:
        await control.update_account(entry)
    assert text.replace("None", "null") in str(caught.value)
    assert plain_file(tmp_path).read_text() == ACL_FILE


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
async def test_a_change_keeps_the_mode_of_its_file(open_control: Opener, tmp_path: pathlib.Path, mode: int) -> None:
    control = open_control()
    plain_file(tmp_path).chmod(mode)
    await control.update_account({"accessKey": "newcomer", "secretKey": "12345678"})
    await control.update_white_addresses(["127.0.0.1"], None)
    await control.delete_account("newcomer")
    assert stat.S_IMODE(plain_file(tmp_path).stat().st_mode) == mode


async def test_a_new_file_is_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    control = AccessControl.open(tmp_path, lambda: 1)
    await control.update_account({"accessKey": "newcomer", "secretKey": "12345678"})
    assert stat.S_IMODE(plain_file(tmp_path).stat().st_mode) == 0o600


async def test_a_link_stays_a_link_and_a_planted_temporary_file_is_not_written_through(
    open_control: Opener, tmp_path: pathlib.Path
) -> None:
    control = open_control()
    path, real, victim = plain_file(tmp_path), tmp_path / "real.yml", tmp_path / "victim"
    path.rename(real)
    path.symlink_to(real)
    victim.write_text("untouched")
    real.with_name("real.yml.tmp").symlink_to(victim)
    await control.update_account({"accessKey": "newcomer", "secretKey": "12345678"})
    assert path.is_symlink()
    assert "newcomer" in real.read_text()
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize(
    "text",
    ["accounts: [{accessKey: RocketMQ, secretKey: geheim}]", "- {accessKey: RocketMQ, secretKey: geheim}", "geheim"],
)
async def test_errors_about_an_invalid_acl_file_contain_no_secrets(
    open_control: Opener, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    control = open_control()
    rewrite(plain_file(tmp_path), text)
    await control.poll()
    assert "the changed ACL files are not used" in caplog.text
    assert "geheim" not in caplog.text


def test_signatures_that_are_no_ascii_are_denied(open_control: Opener) -> None:
    control = open_control()
    for given in ("", "\N{SNOWMAN}", "A" * 28):
        with pytest.raises(AclDenied, match="Check signature failed"):
            control.check_access(Access(code=10, address="9.9.9.9", access_key="RocketMQ", signature=given))


async def test_white_addresses_are_replaced_in_files_of_ours_only(open_control: Opener, tmp_path: pathlib.Path) -> None:
    control = open_control()
    asks = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert await control.update_white_addresses(["127.0.0.1"], None)
    assert denial(control, asks) is None
    assert denial(control, asks, "10.10.103.7:1") is not None
    assert written(tmp_path)["globalWhiteRemoteAddresses"] == ["127.0.0.1"]
    outside = tmp_path / "other.yml"
    outside.write_text("")
    assert not await control.update_white_addresses(["*"], str(outside))
    assert not await control.update_white_addresses(["*"], str(tmp_path / "conf" / "missing.yml"))
    assert outside.read_text() == ""


def nested(lines: int) -> str:
    """Return a list whose text doubles with each line, by aliases."""
    return "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(lines))])


@pytest.mark.parametrize("place", ["globalWhiteRemoteAddresses: [*a10]", "accounts: [{accessKey: *a10}]"])
def test_lists_that_contain_each_other_are_no_texts(open_control: Opener, place: str) -> None:
    with pytest.raises(AclDenied, match="expected a text, not a list"):
        open_control(f"{nested(10)}\n{place}\n")


def test_a_large_file_is_not_parsed(open_control: Opener) -> None:
    with pytest.raises(AclDenied, match="more than 1048576 bytes"):
        open_control(ACL_FILE + "#" * 2**20)
