"""The operators' commands on a cluster of the lab, as a user types them."""

import base64
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.cluster.__main__ import app

pytestmark = pytest.mark.timeout(300)

JSON_BODY, TEXT_BODY, BINARY_BODY = b'{"total": 7}', "für den Laden".encode(), bytes(range(250, 256))


@attrs.frozen
class Lab:
    """A running cluster named `x`."""

    namesrv_addr: str

    def run(self, *words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, [*words, "--name", "x"], prog_name="rmqlab")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr

    def text(self, *words: str) -> str:
        status, out, error = self.run(*words)
        assert (status, error) == (0, "")
        assert max(map(len, out.splitlines()), default=0) <= 80
        return out

    def json(self, *words: str) -> Any:
        status, out, error = self.run(*words, "--json")
        assert status == 0, error
        return json.loads(out)

    def error(self, *words: str) -> str:
        """Return the one line on stderr of a command that fails."""
        status, out, error = self.run(*words)
        assert status != 0
        assert out == ""
        assert error.startswith("rmqlab: ")
        assert len(error.splitlines()) == 1
        return error.removeprefix("rmqlab: ").strip()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master and a slave, with the topic `orders`: three messages in its one queue."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_HOME", str(home))
        options = ("--role", "ASYNC_MASTER", "--detach", "--json", "--set", "brokerFastFailureEnable=false")
        started = CliRunner().invoke(app, ["up", "-n", "x", *options])
        assert started.exit_code == 0, started.stderr
        try:
            lab = Lab(json.loads(started.stdout)["namesrv_addr"])
            lab.json("topics", "create", "orders", "--queues", "1")
            trio.run(_send, lab.namesrv_addr)
            yield lab
        finally:
            CliRunner().invoke(app, ["down", "-n", "x"])


async def _send(namesrv_addr: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = Producer(client, "test")
        for number, body in enumerate([JSON_BODY, TEXT_BODY, BINARY_BODY]):
            await producer.send(Message(topic="orders", body=body, keys=f"k{number}"))


@pytest.fixture
def topic(lab: Lab, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, with 2 queues."""
    name = f"of-{abs(hash(request.node.name)):x}"
    lab.json("topics", "create", name, "--queues", "2")
    return name


# ---- topics ----------------------------------------------------------------------------------------------


def test_an_order_topic_has_its_queues_at_the_name_servers(lab: Lab) -> None:
    made = lab.json("topics", "create", "ordered", "--queues", "4", "--order")
    assert (made["order_config"], made["brokers"][0]["order"]) == ("broker-a:4", True)
    (listed,) = (one for one in lab.json("topics", "list")["topics"] if one["topic"] == "ordered")
    assert listed["order_config"] == "broker-a:4"
    assert lab.json("topics", "update", "ordered", "--write-queues", "6")["order_config"] == "broker-a:6"
    assert lab.json("topics", "update", "ordered", "--permission", "r")["order_config"] == "broker-a:6"
    plain = lab.json("topics", "update", "ordered", "--no-order")
    assert (plain["order_config"], plain["brokers"][0]["order"]) == (None, False)
    assert lab.json("topics", "update", "ordered", "--order")["order_config"] == "broker-a:6"
    lab.json("topics", "delete", "ordered")
    assert lab.json("topics", "create", "ordered")["order_config"] is None, "the deletion left its queues"
    lab.json("topics", "delete", "ordered")


def test_a_topic_is_created_updated_and_deleted(lab: Lab) -> None:
    made = lab.json("topics", "create", "fresh", "--queues", "4", "--permission", "r")
    assert made["brokers"] == [
        {"broker": "broker-a", "read_queues": 4, "write_queues": 4, "permission": 4, "order": False}
    ]
    changed = lab.json("topics", "update", "fresh", "--read-queues", "2")
    assert changed["brokers"] == [
        {"broker": "broker-a", "read_queues": 2, "write_queues": 4, "permission": 4, "order": False}
    ]
    (route,) = lab.json("topics", "route", "fresh")
    assert (route["read_queues"], route["write_queues"], route["permission"]) == (2, 4, 4)
    assert [*route["addresses"]] == ["0", "1"]
    deleted = lab.json("topics", "delete", "fresh")
    assert deleted == {
        "topic": "fresh",
        "brokers": ["broker-a"],
        "messages": 0,
        "name_servers": [lab.namesrv_addr],
        "without_master": [],
    }
    assert lab.error("topics", "route", "fresh").startswith("unknown topic 'fresh'")


def test_the_list_leaves_out_the_topics_of_rocketmq(lab: Lab) -> None:
    shown = lab.text("topics", "list")
    assert "orders" in shown
    assert "TBW102" not in shown
    assert "TBW102" in lab.text("topics", "list", "--all")


def test_the_status_has_every_queue(lab: Lab) -> None:
    (queue,) = lab.json("topics", "status", "orders")
    assert (queue["broker"], queue["queue"], queue["min_offset"], queue["max_offset"]) == ("broker-a", 0, 0, 3)
    assert lab.text("topics", "status", "orders").endswith("3 messages\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("topics create orders", "topic orders already exists at broker-a: `rmqlab topics update` changes it"),
        ("topics update ordrs --queues 2", "unknown topic 'ordrs'; did you mean orders?"),
        ("topics update orders", "nothing to change at topic orders: expected a number of queues, a permission or order"),
        ("topics update orders --permission 9", "permission '9': expected a number from 0 to 7 (4 read, 2 write, 1 inherit), or rw, r, w, none"),
        ("topics update orders --queues 0", "number of read queues '0': expected a whole number from 1 to 32768"),
        ("topics update orders --queues 2 --broker broker-x", "unknown broker name 'broker-x'; did you mean broker-a?"),
        ("topics create new --cluster Default", "unknown cluster 'Default'; did you mean DefaultCluster?"),
        ("topics delete ordrs", "unknown topic 'ordrs'; did you mean orders?"),
        ("topics update zzz --queues 2", "unknown topic 'zzz'; there are: o"),
        ("topics delete zzz", "unknown topic 'zzz'; there are: o"),
        ("topics route zzz", "unknown topic 'zzz'; there are: o"),
        ("topics status ordrs", "unknown topic 'ordrs'; did you mean orders?"),
        ("groups update shp --retries 1", "unknown group 'shp'; there are none"),
        ("groups delete shp", "unknown group 'shp'; there are none"),
        ("groups update shop", "nothing to change at group shop: expected a setting"),
        ("groups lag nobody", "unknown group 'nobody'; there are"),
        ("groups delete CID_ONSAPI_PULL", "CID_ONSAPI_PULL is a group of RocketMQ's own"),
        ("offsets reset nobody orders --time now", "unknown group 'nobody'"),
        ("offsets reset nobody orders", "expected either --time or --offset"),
        ("offsets reset nobody orders --time now --offset 3", "expected either --time or --offset"),
        ("offsets reset nobody orders --offset x", "offset 'x': expected a whole number from 0 to "),
        ("offsets reset nobody orders --time soon", "time 'soon': expected first, now, -10m"),
        ("offsets reset nobody orders --time now --queue broker-a:0", "--queue needs --offset"),
        ("offsets reset nobody orders --offset 1 --queue 0", "queue '0': expected BROKER:QUEUE"),
        ("wipe-write-perm broker-b", "unknown broker name 'broker-b'; did you mean broker-a?"),
        ("config get broker-b", "unknown broker 'broker-b'; did you mean broker-a?"),
        ("config get namesrv-1", "unknown broker 'namesrv-1'; did you mean namesrv?"),
        ("config get 127.0.0.1:9", "unknown broker '127.0.0.1:9'; there are: broker-a, namesrv"),
        ("config get broker-a:7", "no broker 'broker-a:7' is registered; there are: broker-a:0 ("),
        ("config get broker-a brokerRol", "unknown setting 'brokerRol' of broker-a:0; did you mean brokerRole?"),
        ("config set broker-a foo", "setting 'foo': expected KEY=VALUE"),
        ("config set broker-a deleteWhen=99", "returned code 1: delete_when = "),
        ("messages id xyz", "message id 'xyz' is not hexadecimal"),
        ("messages id 7F00000100002A9F0000000000000000", "which is not registered; there are: broker-a:0 ("),
        ("messages key orders nobody --count 0", "count '0': expected a whole number from 1 to 64"),
        ("messages unique-key orders nobody", "topic orders has no message of the unique key 'nobody'"),
        ("messages at orders@broker-a:0 3", "orders@broker-a:0 has no offset 3 at broker-a:0: it has 0 to 2"),
        ("messages at orders@broker-a:7 0", "topic orders has no queue 7 at broker-a: it has 1, from 0 on"),
        ("messages at orders 0", "queue 'orders': expected TOPIC@BROKER:QUEUE"),
        ("topics list --namesrv nowhere", "nameserver 'nowhere': expected HOST:PORT"),
        ("topics list --namesrv 127.0.0.1:1", "no nameserver can be reached: no connection to 127.0.0.1:1"),
        ("topics list --access-key abc", "the access key has 3 characters"),
    ],
)  # fmt: skip
def test_a_failed_command_is_reported_in_one_line(lab: Lab, words: str, text: str) -> None:
    assert text in lab.error(*words.split())


def test_an_empty_nameserver_is_no_cluster_of_the_lab(lab: Lab) -> None:
    assert "nameserver '': expected HOST:PORT" in lab.error("topics", "list", "--namesrv", "")


@pytest.mark.parametrize("words", ["config get broker-a brokerRol", "config set broker-a brokerRol=SLAVE"])
def test_an_unknown_setting_is_an_invalid_command_line(lab: Lab, words: str) -> None:
    assert lab.run(*words.split())[0] == 2


def test_a_cluster_that_does_not_run_is_one_line(lab: Lab) -> None:
    assert lab.namesrv_addr
    done = CliRunner().invoke(app, ["topics", "list", "--name", "other"])
    assert done.exit_code == 1
    assert "no cluster other" in done.stderr


# ---- groups and offsets ----------------------------------------------------------------------------------


def test_a_group_is_created_reset_and_deleted(lab: Lab, topic: str) -> None:
    made = lab.json("groups", "create", "shop", "-w", "0", "--no-broadcast")
    assert made["brokers"][0] | {"when_slow": 0, "broadcast": False, "retries": 16} == made["brokers"][0]
    changed = lab.json("groups", "update", "shop", "-i", "1")
    assert changed["brokers"][0] == made["brokers"][0] | {"broker_id": 1}
    assert "shop" in lab.text("groups", "list")
    assert lab.text("offsets", "show", "shop").endswith("no committed offset\n")

    moved = lab.json("offsets", "reset", "shop", "orders", "--time", "now")
    assert moved["queues"] == [{"broker": "broker-a", "queue": 0, "before": None, "after": 3}]
    moved = lab.json("offsets", "reset", "shop", "orders", "--offset", "1", "--queue", "broker-a:0")
    assert [one["after"] for one in moved["queues"]] == [1]
    found = lab.json("offsets", "show", "shop")
    (shown,) = found["queues"]
    assert (shown["min_offset"], shown["max_offset"], shown["committed"]["0"]) == (0, 3, 1)
    assert found["replied"] == {"broker-a": [0, 1]}
    header = lab.text("offsets", "show", "shop").splitlines()[0]
    assert header.split() == ["QUEUE", "MIN", "MAX", "MASTER", "SLAVE", "1"]  # the slave copies it 10 s later
    assert "outside of orders@broker-a:0, which has 0 to 3" in lab.error(
        "offsets", "reset", "shop", "orders", "--offset", "4"
    )
    assert f"unknown queue 'broker-a:7' of topic {topic}" in lab.error(
        "offsets", "reset", "shop", topic, "--offset", "0", "--queue", "broker-a:7"
    )
    assert "did you mean shop?" in lab.error("groups", "lag", "shp")

    deleted = lab.json("groups", "delete", "shop", "--offsets")
    assert (deleted["brokers"], deleted["offsets_deleted"], deleted["members"]) == (["broker-a"], True, 0)
    assert "unknown group 'shop'" in lab.error("groups", "lag", "shop")


def test_the_lag_of_a_group_that_consumed(lab: Lab) -> None:
    status, _, error = lab.run("consume", "--topic", "orders", "--group", "reader", "--count", "3", "--json")
    assert (status, error) == (0, "")
    (lag,) = lab.json("groups", "lag", "reader")
    assert [(one["consumer_offset"], one["lag"]) for one in lag["queues"] if one["topic"] == "orders"] == [(3, 0)]
    lab.json("offsets", "reset", "reader", "orders", "--time", "first")
    (lag,) = lab.json("groups", "lag", "reader", "--topic", "orders")
    assert lag["lag"] == 3
    assert "orders@broker-a:0" in lab.text("groups", "lag", "reader")
    assert "reader" in lab.text("groups", "lag")
    assert lab.json("groups", "delete", "reader")["topics"] == ["%RETRY%reader"]


# ---- brokers ---------------------------------------------------------------------------------------------


def test_the_write_permission_is_wiped_and_added(lab: Lab, topic: str) -> None:
    wiped = lab.json("wipe-write-perm", "broker-a")
    assert lab.json("topics", "route", topic)[0]["permission"] == 4
    added = lab.json("add-write-perm", "broker-a")
    assert added["topics"] == wiped["topics"]
    assert lab.json("topics", "route", topic)[0]["permission"] == 6


def test_offsets_are_shown_while_the_master_does_not_reply(lab: Lab, topic: str) -> None:
    lab.json("groups", "create", "paused")
    lab.json("offsets", "reset", "paused", topic, "--time", "first")
    for condition in ("slave-connected broker-a", "metadata-synced broker-a"):
        assert lab.run("wait", *condition.split())[0] == 0
    lab.json("pause", "broker-a:master")
    try:
        shown = lab.json("offsets", "show", "paused")
        assert [(one["committed"], one["max_offset"]) for one in shown["queues"]] == [({"1": 0}, None)] * 2
        (address,) = shown["unreachable"]
        lines = " ".join(lab.text("offsets", "show", "paused").split()).split("not included: ")[1:]
        assert [line.count(address) for line in lines] == [1]
    finally:
        lab.json("resume", "broker-a:master")


def test_settings_of_each_broker_are_shown_and_set(lab: Lab) -> None:
    assert [one["settings"] for one in lab.json("config", "get", "broker-a", "brokerRole")] == [
        {"brokerRole": "ASYNC_MASTER"}
    ]
    for slave in ("broker-a-s", "broker-a:slave", "broker-a:1"):
        (shown,) = lab.json("config", "get", slave, "brokerRole")
        assert (shown["server"], shown["settings"]) == ("broker-a:1", {"brokerRole": "SLAVE"})
    (changed,) = lab.json("config", "set", "broker-a-s", "slaveReadEnable=TRUE")
    assert (changed["server"], changed["before"], changed["after"]) == ("broker-a:1", "false", "true")
    assert lab.json("config", "get", "namesrv", "listenPort")[0]["settings"] == {"listenPort": "9876"}
    assert "slaveReadEnable" in lab.text("config", "get", "broker-a")


# ---- messages --------------------------------------------------------------------------------------------


def test_a_message_is_found_in_every_way_and_at_every_copy(lab: Lab) -> None:
    lab.run("wait", "slave-caught-up", "broker-a")
    (message,) = lab.json("messages", "at", "orders@broker-a:0", "1")
    assert base64.b64decode(message["body"]) == TEXT_BODY
    assert (message["text"], message["keys"], message["queue_offset"]) == ("für den Laden", "k1", 1)
    for words in (
        ("messages", "id", message["offset_message_id"]),
        ("messages", "id", message["offset_message_id"], "--at", "broker-a-s"),
        ("messages", "unique-key", "orders", message["message_id"]),
        ("messages", "key", "orders", "k1"),
        ("messages", "at", "orders@broker-a:0", "1", "--at", "broker-a:slave"),
    ):
        assert lab.json(*words) == [message], words
    assert len(lab.json("messages", "at", "orders@broker-a:0", "0", "--count", "9")) == 3
    assert lab.json("messages", "key", "orders", "k1", "--end", "first") == []


@pytest.mark.parametrize(
    ("offset", "form", "text"),
    [
        (0, "auto", 'body        12 bytes, json\n  {\n    "total": 7\n  }\n'),
        (0, "text", 'body        12 bytes, text\n  {"total": 7}\n'),
        (0, "hex", "body        12 bytes, hex\n  000000  7b 22 74 6f 74 61 6c 22 3a 20 37 7d"),
        (1, "auto", "body        14 bytes, text\n  für den Laden\n"),
        (1, "json", "body        14 bytes, text, not JSON\n  für den Laden\n"),
        (2, "auto", "body        6 bytes, hex\n  000000  fa fb fc fd fe ff"),
        (2, "text", "body        6 bytes, text\n  \\xfa\\xfb\\xfc\\xfd\\xfe\\xff\n"),
    ],
)
def test_a_body_is_shown_as_asked(lab: Lab, offset: int, form: str, text: str) -> None:
    shown: Callable[..., str] = lab.text
    assert text in shown("messages", "at", "orders@broker-a:0", str(offset), "--body", form)


# ---- other clusters --------------------------------------------------------------------------------------


def test_requests_are_signed_where_the_cluster_has_access_control(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "home"))
    (tmp_path / "conf").mkdir()
    account = "{accessKey: operator, secretKey: '12345678', admin: true}"
    (tmp_path / "conf" / "plain_acl.yml").write_text(f"accounts: [{account}]")
    settings = ("--set", "aclEnable=true", "--set", f"rocketmqHome={tmp_path}")
    started = CliRunner().invoke(app, ["up", "-n", "x", "--slaves", "0", *settings, "--detach"])
    assert started.exit_code == 0, started.stderr
    lab = Lab("")
    try:
        assert "No accessKey is configured" in lab.error("topics", "create", "orders")
        lab.json("topics", "create", "orders", "--access-key", "operator", "--secret-key", "12345678")
        monkeypatch.setenv("RMQLAB_ACCESS_KEY", "operator")
        monkeypatch.setenv("RMQLAB_SECRET_KEY", "87654321")
        assert "Check signature failed" in lab.error("config", "get", "broker-a")
        monkeypatch.setenv("RMQLAB_SECRET_KEY", "12345678")
        assert [one["topic"] for one in lab.json("topics", "list")["topics"]] == ["orders"]
    finally:
        CliRunner().invoke(app, ["down", "-n", "x"])


def test_without_a_master_nothing_is_changed_and_the_slave_is_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    options = ("--role", "ASYNC_MASTER", "--rate", "4", "--detach", "--json")
    started = CliRunner().invoke(app, ["up", "-n", "x", *options])
    assert started.exit_code == 0, started.stderr
    lab = Lab(json.loads(started.stdout)["namesrv_addr"])
    try:
        lab.json("topics", "create", "orders", "--queues", "1")
        lab.json("groups", "create", "shop")
        trio.run(_send, lab.namesrv_addr)
        for condition in ("slave-caught-up broker-a", "topic-known broker-a-s orders", "metadata-synced broker-a"):
            assert lab.run("wait", *condition.split())[0] == 0
        lab.json("kill", "broker-a:master")
        assert lab.run("wait", "route-gone", "broker-a:master")[0] == 0
        text = "broker-a has no master now"
        assert text in lab.error("topics", "create", "new")
        assert text in lab.error("topics", "delete", "orders")
        assert text in lab.error("groups", "update", "shop", "--retries", "3")
        assert text in lab.error("offsets", "reset", "shop", "orders", "--offset", "1")
        assert text in lab.error("offsets", "reset", "shop", "orders", "--time", "now")
        assert [one["max_offset"] for one in lab.json("topics", "status", "orders")] == [3]
        assert [one["text"] for one in lab.json("messages", "at", "orders@broker-a:0", "1")] == ["für den Laden"]
        assert lab.json("config", "get", "broker-a", "brokerRole")[0]["settings"] == {"brokerRole": "SLAVE"}
        assert "no broker 'broker-a:master' is registered" in lab.error("config", "get", "broker-a:master")
        lab.json("restart", "namesrv-1")
        assert lab.run("wait", "route-has", "broker-a:slave")[0] == 0
        text = " ".join(lab.text("wipe-write-perm", "broker-a").split())
        assert text.endswith("it has no topic of broker-a, because only masters register topics")
    finally:
        CliRunner().invoke(app, ["down", "-n", "x"])
