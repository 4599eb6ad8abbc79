"""Accounts of a cluster with access control, over HTTP and on the command line."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest

from rmqlab.cluster.control.account import ACCOUNT_HEADER
from tests.cluster.control.labs import NAME, Lab, controlled_lab, rmqlab

ACCOUNTS = """
accounts:
  - {accessKey: operator, secretKey: '12345678', admin: true}
  - {accessKey: watcher1, secretKey: '12345678', admin: false, defaultTopicPerm: SUB, defaultGroupPerm: SUB}
"""


@attrs.frozen
class Keys:
    """The keys of a request, and the remark of the broker that rejects them."""

    access: str
    secret: str
    remark: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {ACCOUNT_HEADER: f"{self.access}:{self.secret}"} if self.access else {}

    @property
    def options(self) -> tuple[str, ...]:
        return ("--access-key", self.access, "--secret-key", self.secret) if self.access else ()


RIGHT = Keys("operator", "12345678", "")
NO_KEYS = Keys("", "", "No accessKey is configured")
WRONG_SECRET = Keys("operator", "87654321", "Check signature failed")
UNKNOWN_KEY = Keys("nobody-1", "12345678", "No acl config for nobody-1")
NO_ADMIN = Keys("watcher1", "12345678", "Need admin permission")
REJECTED = (NO_KEYS, WRONG_SECRET, UNKNOWN_KEY)


@attrs.frozen
class Deed:
    """An operator's command: the request, its body, and the words."""

    request: str
    body: Any
    words: str


DEEDS = (
    Deed("POST /v1/topics", {"topic": "made"}, "topics create made"),
    Deed("PATCH /v1/topics/made", {"queues": 2}, "topics update made --queues 2"),
    Deed("GET /v1/topics/orders/status", None, "topics status orders"),
    Deed("DELETE /v1/topics/made", None, "topics delete made"),
    Deed("POST /v1/groups", {"group": "team"}, "groups create team"),
    Deed("PATCH /v1/groups/team", {"retries": 2}, "groups update team --retries 2"),
    Deed("GET /v1/groups", None, "groups list"),
    Deed("GET /v1/lag", None, "groups lag"),
    Deed("GET /v1/lag/team", None, "groups lag team"),
    Deed("DELETE /v1/groups/team", None, "groups delete team"),
    Deed(
        "POST /v1/offsets/reset",
        {"group": "shop", "topic": "orders", "time": "first"},
        "offsets reset shop orders --time first",
    ),
    Deed("GET /v1/messages/at?queue=orders@broker-a:0&offset=0", None, "messages at orders@broker-a:0 0"),
    Deed("GET /v1/messages/key?topic=orders&key=k", None, "messages key orders k"),
    Deed("GET /v1/config/broker-a", None, "config get broker-a"),
    Deed("GET /v1/config/broker-a-s", None, "config get broker-a-s"),
    Deed(
        "PATCH /v1/config/broker-a",
        {"settings": {"maxDelayTime": 50}},
        "config set broker-a maxDelayTime=50",
    ),
)
"""In an order in which each can be done."""
CHANGES = (
    Deed("POST /v1/topics", {"topic": "made"}, "topics create made"),
    Deed("PATCH /v1/topics/orders", {"queues": 2}, "topics update orders --queues 2"),
    Deed("DELETE /v1/topics/orders", None, "topics delete orders"),
    Deed("POST /v1/groups", {"group": "team"}, "groups create team"),
    Deed("PATCH /v1/groups/shop", {"retries": 2}, "groups update shop --retries 2"),
    Deed("DELETE /v1/groups/shop", None, "groups delete shop"),
    Deed("PATCH /v1/config/broker-a", {"settings": {"maxDelayTime": 60}}, "config set broker-a maxDelayTime=60"),
)
"""Requests that need the account of an administrator."""
UNSIGNED = (
    Deed("GET /v1/topics/orders", None, "topics route orders"),
    Deed("GET /v1/config/namesrv", None, "config get namesrv"),
    Deed("POST /v1/wipe-write-perm", {"broker": "broker-a"}, "wipe-write-perm broker-a"),
    Deed("POST /v1/add-write-perm", {"broker": "broker-a"}, "add-write-perm broker-a"),
)
"""Requests to nameservers, which have no access control."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a master and a slave with access control.

    The topic `orders` has a message; there is a group `shop`.
    """
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with controlled_lab(home, "--set", "aclEnable=true", "--set", f"rocketmqHome={home}") as lab:
        assert http(lab, Deed("POST /v1/topics", {"topic": "orders", "queues": 1}, ""), RIGHT)[0] == 200
        assert http(lab, Deed("POST /v1/groups", {"group": "shop"}, ""), RIGHT)[0] == 200
        made = rmqlab("produce", "-n", NAME, "-t", "orders", "--count", "1", *RIGHT.options)
        assert made.exit_code == 0, made.output
        yield lab


def http(lab: Lab, deed: Deed, keys: Keys) -> tuple[int, Any]:
    method, path = deed.request.split()
    return lab.ask(method, path, deed.body, keys.headers)


def command(deed: Deed, keys: Keys) -> Any:
    return rmqlab(*deed.words.split(), "-n", NAME, "--json", *keys.options)


def test_the_right_keys_do_everything(lab: Lab) -> None:
    for deed in DEEDS:
        status, document = http(lab, deed, RIGHT)
        assert status == 200, (deed, document)
    for deed in DEEDS:
        done = command(deed, RIGHT)
        assert done.exit_code == 0, (deed, done.stderr)


@pytest.mark.parametrize("keys", REJECTED, ids=["none", "wrong secret", "unknown"])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.words)
def test_other_keys_are_rejected_with_the_brokers_remark(lab: Lab, deed: Deed, keys: Keys) -> None:
    status, document = http(lab, deed, keys)
    assert (status, document["error"]["code"]) == (502, "node_failed")
    assert keys.remark in document["error"]["message"]
    done = command(deed, keys)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert keys.remark in line
    for secret in ("12345678", "87654321"):
        assert secret not in line + json.dumps(document)


@pytest.mark.parametrize("deed", CHANGES, ids=lambda deed: deed.words)
def test_changes_need_the_account_of_an_administrator(lab: Lab, deed: Deed) -> None:
    status, document = http(lab, deed, NO_ADMIN)
    assert (status, NO_ADMIN.remark in document["error"]["message"]) == (502, True), document
    done = command(deed, NO_ADMIN)
    assert (done.exit_code, NO_ADMIN.remark in done.stderr) == (1, True), done.stderr


def test_an_account_without_administration_reads(lab: Lab) -> None:
    for deed in (one for one in DEEDS if one.request.startswith("GET") and "team" not in one.request):
        assert http(lab, deed, NO_ADMIN)[0] == 200, deed
        assert command(deed, NO_ADMIN).exit_code == 0, deed


@pytest.mark.parametrize("keys", [RIGHT, *REJECTED], ids=["right", "none", "wrong secret", "unknown"])
@pytest.mark.parametrize("deed", UNSIGNED, ids=lambda deed: deed.words)
def test_name_servers_have_no_access_control(lab: Lab, deed: Deed, keys: Keys) -> None:
    assert http(lab, deed, keys)[0] == 200
    assert command(deed, keys).exit_code == 0


@pytest.mark.usefixtures("lab")
def test_lists_name_the_brokers_that_reject_the_keys(lab: Lab) -> None:
    for path, words in (("/v1/topics", "topics list"), ("/v1/offsets?group=shop", "offsets show shop")):
        deed = Deed(f"GET {path}", None, words)
        assert http(lab, deed, RIGHT)[1]["unreachable"] == {}
        for keys in REJECTED:
            unreachable = http(lab, deed, keys)[1]["unreachable"]
            assert all(keys.remark in why for why in unreachable.values())
            assert unreachable == json.loads(command(deed, keys).stdout)["unreachable"] != {}
