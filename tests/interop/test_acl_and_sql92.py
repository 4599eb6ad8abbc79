"""Access control and SQL92: equal responses from a real broker and ours.

Both get one list of requests.
"""

import base64
import functools
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import SMALL_FILES, RealBroker, RealNameserver
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

ACL_FILE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      - groupA=DENY
  - accessKey: rocketmq2
    secretKey: 12345678
    admin: true
"""
SETTINGS = {**SMALL_FILES, "aclEnable": True, "enablePropertyFilter": True, "autoCreateTopicEnable": True}
USER, ADMIN = ("RocketMQ", "12345678"), ("rocketmq2", "12345678")


@attrs.frozen
class Guarded:
    """A broker with access control, and its ACL file."""

    broker: BrokerServer
    acl_file: Path

    def ask(
        self, code: int, fields: dict[str, str], body: bytes = b"", signer: tuple[str, str] | None = ADMIN
    ) -> rawrequest.Answer:
        """Ask, signed by an account; the signature is of this test's own making."""
        if signer is not None:
            access_key, secret = signer
            fields = {**fields, "AccessKey": access_key}
            content = "".join(fields[name] for name in sorted(fields)).encode() + body
            digest = hmac.digest(secret.encode(), content, hashlib.sha1)
            fields["Signature"] = base64.b64encode(digest).decode()
        return rawrequest.ask(self.broker.address, code, fields, body)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Guarded]]:
    """Both brokers, each with a home of its own."""
    with ExitStack() as stack:
        servers = {}
        for kind in ("real", "ours"):
            root = tmp_path_factory.mktemp(kind)
            java = Java(root) if kind == "real" else None
            home = root / "rocketmq"
            (home / "conf").mkdir(parents=True, exist_ok=True)
            acl_file = home / "conf" / "plain_acl.yml"
            acl_file.write_text(ACL_FILE)
            if java is not None:
                nameserver: Any = stack.enter_context(RealNameserver(java, root))
                broker: BrokerServer = RealBroker(java, root, nameserver.address, settings=SETTINGS)
            else:
                nameserver = stack.enter_context(OurNameserver(root))
                settings = {**SETTINGS, "rocketmqHome": home}
                broker = OurBroker(root, nameserver.address, settings=settings)
            servers[kind] = Guarded(stack.enter_context(broker), acl_file)
        yield servers


def send_fields(topic: str) -> dict[str, str]:
    return {
        "a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "",
        "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def pull_fields(**changes: object) -> dict[str, str]:
    fields = {
        "consumerGroup": "G", "topic": "topicB", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4,
        "commitOffset": 0, "suspendTimeoutMillis": 1000, "subscription": "*", "subVersion": 0, **changes,
    }  # fmt: skip
    return {name: str(value) for name, value in fields.items()}


def heartbeat(group: str, topic: str, expression: str = "*", kind: str = "TAG", version: int = 1) -> bytes:
    subscription = {"topic": topic, "subString": expression, "expressionType": kind, "subVersion": version}
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
    }  # fmt: skip
    return json.dumps({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}).encode()


def heartbeats(group: str, *topics: str) -> bytes:
    """Return a heartbeat of a consumer of several topics."""
    document = json.loads(heartbeat(group, topics[0]))
    (consumer,) = document["consumerDataSet"]
    (one,) = consumer["subscriptionDataSet"]
    consumer["subscriptionDataSet"] = [{**one, "topic": topic} for topic in topics]
    return json.dumps(document).encode()


def checked(expression: str) -> bytes:
    subscription = {"topic": "topicB", "subString": expression, "expressionType": "SQL92", "subVersion": 1}
    return json.dumps({"clientId": "c", "group": "G", "subscriptionData": subscription}).encode()


TAKEN = (0, 40)
"""Either the heartbeat's reply or the notice to the members is first."""

DENIED: dict[str, Callable[[Guarded], rawrequest.Answer]] = {
    "nobody": lambda one: one.ask(28, {}, signer=None),
    "unknown": lambda one: one.ask(28, {}, signer=("stranger", "12345678")),
    "wrong secret": lambda one: one.ask(28, {}, signer=("RocketMQ", "87654321")),
    "topic denied": lambda one: one.ask(310, send_fields("topicA"), b"x", USER),
    "topic by default": lambda one: one.ask(310, send_fields("other"), b"x", USER),
    "group denied": lambda one: one.ask(34, {"x": "y"}, heartbeat("groupA", "topicB"), USER),
    "topic of heartbeat": lambda one: one.ask(34, {"x": "y"}, heartbeat("G", "topicA"), USER),
    "group and topic": lambda one: one.ask(34, {"x": "y"}, heartbeat("groupA", "topicA"), USER),
    "topic and group of a pull": lambda one: one.ask(11, pull_fields(topic="other", consumerGroup="groupA"), b"", USER),
    "several topics": lambda one: one.ask(34, {"x": "y"}, heartbeats("groupA", *(f"T{n}" for n in range(20))), USER),
    "no administrator": lambda one: one.ask(17, {"topic": "topicB"}, b"", USER),
    "unknown code": lambda one: one.ask(9999, {}, b"", ("stranger", "12345678")),
    "query signed as clients do": lambda one: one.ask(
        12,
        {"topic": "topicB", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1",
         "_UNIQUE_KEY_QUERY": "false"},
        b"",
        USER,
    ),
    "account too short": lambda one: one.ask(50, {"accessKey": "short", "admin": "false"}),
    "bad permission": lambda one: one.ask(
        50, {"accessKey": "newcomer", "secretKey": "12345678", "admin": "false", "topicPerms": "T=ALL"}
    ),
    "no such account": lambda one: one.ask(51, {"accessKey": "unknown-account"}),
    "bad address": lambda one: one.ask(53, {"globalWhiteAddrs": "*", "aclFileFullPath": "/etc/passwd"}),
}  # fmt: skip


def without_lines(remark: str | None) -> str:
    """The place in the source is that of 4.9.8.

    The broker of these tests may be of another version.
    """
    return re.sub(r"\.java:\d+", ".java:N", remark or "")


@pytest.mark.parametrize("name", DENIED)
def test_denied_requests_get_the_same_code_and_remark_as_from_java(pair: dict[str, Guarded], name: str) -> None:
    ours, theirs = DENIED[name](pair["ours"]), DENIED[name](pair["real"])
    assert (ours.code, without_lines(ours.remark)) == (theirs.code, without_lines(theirs.remark))
    assert theirs.code != 0


def test_an_authorized_account_is_served(pair: dict[str, Guarded]) -> None:
    for one in pair.values():
        assert one.ask(310, send_fields("topicB"), b"x", USER).code in (0, 11)
        assert one.ask(320, {**send_fields("topicB"), "m": "false"}, b"x", USER).code in (0, 11)
        assert one.ask(34, {"x": "y"}, heartbeat("G", "topicB"), USER).code in TAKEN
        assert one.ask(28, {}, b"", USER).code == 0


def test_an_account_that_a_tool_makes_is_written_alike(pair: dict[str, Guarded]) -> None:
    entry = {
        "accessKey": "newcomer", "secretKey": "12345678", "admin": "false", "defaultTopicPerm": "PUB",
        "topicPerms": "T1=PUB,T2=SUB", "groupPerms": "G1=SUB",
    }  # fmt: skip
    written = {}
    for kind, one in pair.items():
        assert one.ask(50, entry).code == 0
        assert one.ask(310, send_fields("T9"), b"x", ("newcomer", "12345678")).code in (0, 11)
        document = yaml.safe_load(one.acl_file.read_text())
        document["dataVersion"][0].pop("timestamp")
        written[kind] = document
        versions = one.ask(52, {}).fields
        assert json.loads(versions["allAclFileVersion"]).keys() == {str(one.acl_file)}
        assert one.ask(51, {"accessKey": "newcomer"}).code == 0
    assert written["ours"] == written["real"]


def lets_in_unsigned(one: Guarded) -> bool:
    return one.ask(28, {}, signer=None).code == 0


def keeps_out_unsigned(one: Guarded) -> bool:
    return not lets_in_unsigned(one)


def text(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


def test_a_changed_file_counts_within_seconds(pair: dict[str, Guarded]) -> None:
    for one in pair.values():
        one.acl_file.write_text(one.acl_file.read_text().replace("10.10.103.*", "127.0.0.*"))
        wait_until(functools.partial(lets_in_unsigned, one), "the white list counts")
        one.acl_file.write_text(one.acl_file.read_text().replace("127.0.0.*", "10.10.103.*"))
        wait_until(functools.partial(keeps_out_unsigned, one), "the white list counts no more")


@pytest.mark.parametrize(
    "expression", ["a > 1", "a BETWEEN 2 AND 1", "a >", "a = 0.0", "a CONTAINS 'x'", "NOT a > 1", "a = 1 rest", ""]
)
def test_expressions_are_taken_or_refused_alike(pair: dict[str, Guarded], expression: str) -> None:
    ours, theirs = (pair[kind].ask(46, {"x": "y"}, checked(expression)).code for kind in ("ours", "real"))
    assert ours == theirs


def test_registered_expressions_are_kept_alike(pair: dict[str, Guarded]) -> None:
    kept = {}
    for kind, one in pair.items():
        assert one.ask(34, {"x": "y"}, heartbeat("G", "topicB", "a > 1 AND b = 'x'", "SQL92", 7)).code in TAKEN
        path = one.broker.store / "config" / "consumerFilter.json"
        wait_until(functools.partial(text, path, "a > 1"), "the filter is in its file")
        kept[kind] = json.loads(path.read_text())
    entries = [kept[kind]["filterDataByTopic"]["topicB"]["groupFilterData"]["G"] for kind in ("ours", "real")]
    for entry in entries:
        for time in ("bornTime", "deadTime", "dead"):
            assert time in entry
            del entry[time]
    assert entries[0] == entries[1]
    assert kept["ours"].keys() == kept["real"].keys()


def test_a_pull_with_an_invalid_expression(pair: dict[str, Guarded]) -> None:
    """A departure: the real broker's check is a disabled assertion, so all match."""
    fields = pull_fields(subscription="a >", expressionType="SQL92")
    for one in pair.values():
        assert one.ask(310, send_fields("topicB"), b"x").code in (0, 11)
    assert (pair["real"].ask(11, fields).code, pair["ours"].ask(11, fields).code) == (0, 23)
