"""What operators do, over HTTP: each endpoint beside its command, on one cluster."""

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from rmqlab.cluster.cli.commands import PURPOSES, LazyCommand
from rmqlab.cluster.control.endpoints import ENDPOINTS
from tests.cluster.control.labs import NAME, Lab, controlled_lab, rmqlab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a cluster with five messages in the one queue of `orders`.

    The group `shop` consumed them.
    """
    with controlled_lab(tmp_path_factory.mktemp("home")) as lab:
        lab.done("POST", "/v1/topics", {"topic": "orders", "queues": 1})
        made = rmqlab("produce", "-n", NAME, "-t", "orders", "--count", "5", "--rate-per-second", "0")
        assert made.exit_code == 0, made.output
        assert rmqlab("consume", "-n", NAME, "-t", "orders", "-g", "shop", "--count", "5").exit_code == 0
        for condition in ("topic-known broker-a:slave orders", "slave-caught-up broker-a", "metadata-synced broker-a"):
            lab.done("POST", "/v1/wait", {"condition": condition})
        yield lab


def printed(words: str) -> Any:
    done = rmqlab(*words.split(), "-n", NAME, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_every_command_of_operators_has_an_endpoint_that_names_it() -> None:
    words = set[str]()
    for name, entry in PURPOSES["What operators do"].items():
        command = LazyCommand(name, entry).load()
        words |= {f"{name} {one}" for one in command.commands} if isinstance(command, click.Group) else {name}
    named = " ".join(endpoint.summary for endpoint in ENDPOINTS)
    assert {one for one in words if f"`rmqlab {one}`" not in named} == set()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/topics/orders/status", "topics status orders"),
        ("/v1/messages/at?queue=orders@broker-a:0&offset=1&count=2", "messages at orders@broker-a:0 1 --count 2"),
        (
            "/v1/messages/at?queue=orders@broker-a:0&offset=0&at=broker-a-s",
            "messages at orders@broker-a:0 0 --at broker-a-s",
        ),
        ("/v1/config/broker-a?key=brokerId&key=brokerRole", "config get broker-a brokerId brokerRole"),
        ("/v1/config/broker-a-s?key=brokerId", "config get broker-a-s brokerId"),
        ("/v1/config/namesrv", "config get namesrv"),
    ],
)
def test_a_read_returns_what_its_command_prints(lab: Lab, path: str, words: str) -> None:
    document = lab.done("GET", path)
    assert document == printed(words)
    assert document != []


def test_a_message_is_found_by_each_of_its_ids(lab: Lab) -> None:
    (message,) = lab.done("GET", "/v1/messages/at?queue=orders@broker-a:0&offset=3")
    assert lab.done("GET", f"/v1/messages/id/{message['offset_message_id']}")[0]["queue_offset"] == 3
    (copy,) = lab.done("GET", f"/v1/messages/id/{message['offset_message_id']}?at=broker-a:slave")
    assert copy["body"] == message["body"]
    unique = f"topic=orders&key={message['message_id']}"
    assert lab.done("GET", f"/v1/messages/unique-key?{unique}") == [message]
    key = message["keys"].split()[0]
    assert lab.done("GET", f"/v1/messages/key?topic=orders&key={key}&end=now") == [message]
    assert lab.done("GET", f"/v1/messages/key?topic=orders&key={key}&begin=now") == []


def test_a_topic_is_created_updated_and_deleted(lab: Lab) -> None:
    made = lab.done("POST", "/v1/topics", {"topic": "fresh", "queues": 4, "permission": "r", "brokers": ["broker-a"]})
    assert (made["topic"], made["brokers"][0]["read_queues"], made["brokers"][0]["permission"]) == ("fresh", 4, 4)
    status, document = lab.ask("POST", "/v1/topics", {"topic": "fresh"})
    assert (status, document["error"]["code"]) == (409, "conflict")
    changed = lab.done("PATCH", "/v1/topics/fresh", {"write_queues": 6, "permission": 6})
    assert [(one["read_queues"], one["write_queues"], one["permission"]) for one in changed["brokers"]] == [(4, 6, 6)]
    assert printed("topics route fresh")[0]["write_queues"] == 6
    assert lab.done("DELETE", "/v1/topics/fresh")["brokers"] == ["broker-a"]
    assert lab.ask("DELETE", "/v1/topics/fresh")[0] == 404


def test_an_order_topic_is_made_and_unmade(lab: Lab) -> None:
    made = lab.done("POST", "/v1/topics", {"topic": "ordered", "queues": 3, "order": True})
    assert (made["order_config"], made["brokers"][0]["order"]) == ("broker-a:3", True)
    (listed,) = (one for one in printed("topics list")["topics"] if one["topic"] == "ordered")
    assert listed["order_config"] == "broker-a:3"
    assert lab.done("PATCH", "/v1/topics/ordered", {"order": False})["order_config"] is None
    assert lab.done("PATCH", "/v1/topics/ordered", {"order": True})["order_config"] == "broker-a:3"
    lab.done("DELETE", "/v1/topics/ordered")


def test_a_group_is_created_updated_and_deleted(lab: Lab) -> None:
    made = lab.done("POST", "/v1/groups", {"group": "fresh", "when_slow": 1, "retries": 3})
    assert (made["brokers"][0]["when_slow"], made["brokers"][0]["retries"]) == (1, 3)
    assert lab.ask("POST", "/v1/groups", {"group": "fresh"})[1]["error"]["code"] == "conflict"
    changed = lab.done("PATCH", "/v1/groups/fresh", {"broker_id": 1, "consume": False})
    assert [(one["broker_id"], one["retries"], one["consume"]) for one in changed["brokers"]] == [(1, 3, False)]
    (listed,) = (one for one in printed("groups list") if one["group"] == "fresh")
    assert listed["brokers"] == changed["brokers"]
    deleted = lab.done("DELETE", "/v1/groups/fresh?offsets=true")
    assert (deleted["brokers"], deleted["offsets_deleted"]) == (["broker-a"], True)
    assert lab.ask("PATCH", "/v1/groups/fresh", {"retries": 1})[0] == 404


def test_offsets_are_reset_to_a_time_and_to_an_offset(lab: Lab) -> None:
    whose = {"group": "shop", "topic": "orders"}
    (moved,) = lab.done("POST", "/v1/offsets/reset", {**whose, "time": "first"})["queues"]
    assert (moved["before"], moved["after"]) == (5, 0)
    assert lab.done("GET", "/v1/lag/shop?topic=orders")[0]["lag"] == 5
    (moved,) = lab.done("POST", "/v1/offsets/reset", {**whose, "offset": 2, "queue": "broker-a:0"})["queues"]
    assert (moved["before"], moved["after"]) == (0, 2)
    assert lab.done("POST", "/v1/offsets/reset", {**whose, "time": "now", "only_back": True})["queues"] == []
    assert lab.done("POST", "/v1/offsets/reset", {**whose, "time": "now"})["queues"][0]["after"] == 5


def test_the_write_permission_is_wiped_and_added(lab: Lab) -> None:
    for name, can_write, permission in (("wipe-write-perm", False, 4), ("add-write-perm", True, 6)):
        result = lab.done("POST", f"/v1/{name}", {"broker": "broker-a"})
        assert (result["broker"], result["can_write"]) == ("broker-a", can_write)
        assert lab.done("GET", "/v1/topics/orders")[0]["permission"] == permission


def test_settings_are_changed_at_one_broker(lab: Lab) -> None:
    (changed,) = lab.done("PATCH", "/v1/config/broker-a-s", {"settings": {"slaveReadEnable": True}})
    assert (changed["server"], changed["before"], changed["after"]) == ("broker-a:1", "false", "true")
    assert printed("config get broker-a slaveReadEnable")[0]["settings"] == {"slaveReadEnable": "false"}


def test_a_mark_is_in_the_logs_and_events(lab: Lab) -> None:
    assert lab.done("POST", "/v1/mark", {"text": "test of marks"}) == ["namesrv-1", "broker-a", "broker-a-s"]
    while "mark: test of marks" not in rmqlab("logs", "broker-a-s", "-n", NAME).stdout:
        pass  # a process writes it when it runs next
    assert "test of marks" in rmqlab("events", "-n", NAME).stdout


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("PATCH", "/v1/topics/ordrs", {"queues": 2}, 404, "unknown topic 'ordrs'; did you mean orders?"),
        ("PATCH", "/v1/topics/orders", {}, 422, "nothing to change at topic orders"),
        ("PATCH", "/v1/topics/orders", {"queues": 0}, 422, "queues: Expected integer >= 1"),
        ("PATCH", "/v1/topics/orders", {"queues": 2, "read_queues": 2}, 422, "expected either `queues` or these"),
        ("PATCH", "/v1/topics/orders", {"permision": "rw"}, 422, "did you mean permission?"),
        ("PATCH", "/v1/topics/orders", {"permission": "q"}, 422, "'q'; expected none, r, rw, w, 0 to 7"),
        ("POST", "/v1/topics", {"topic": "x", "brokers": ["broker-b"]}, 404, "did you mean broker-a?"),
        ("POST", "/v1/topics", {"topic": "x y"}, 422, "topic 'x y' has a character other than"),
        ("POST", "/v1/topics", {"topic": "x" * 200}, 422, "127"),
        ("GET", "/v1/topics/ordrs/status", None, 404, "did you mean orders?"),
        ("DELETE", "/v1/topics/ordrs", None, 404, "did you mean orders?"),
        ("DELETE", "/v1/topics/orders", {"x": 1}, 422, "expected no body"),
        ("PATCH", "/v1/groups/shp", {"retries": 1}, 404, "did you mean shop?"),
        ("PATCH", "/v1/groups/shop", {"retries": -1}, 422, "retries: Expected integer >= 0"),
        ("DELETE", "/v1/groups/shp", None, 404, "did you mean shop?"),
        ("DELETE", "/v1/groups/CID_ONSAPI_OWNER", None, 409, "RocketMQ's own"),
        ("POST", "/v1/offsets/reset", {"group": "shop", "topic": "orders"}, 422, "expected either time or offset"),
        (
            "POST",
            "/v1/offsets/reset",
            {"group": "shop", "topic": "orders", "offset": 99},
            409,
            "offset 99 is outside of orders@broker-a:0, which has 0 to 5",
        ),
        ("POST", "/v1/offsets/reset", {"group": "shop", "topic": "orders", "time": "soon"}, 422, "time 'soon'"),
        (
            "POST",
            "/v1/offsets/reset",
            {"group": "shop", "topic": "orders", "offset": 1, "queue": "broker-a:7"},
            404,
            "did you mean broker-a:0?",
        ),
        ("GET", "/v1/messages/id/zzz", None, 422, "zzz"),
        ("GET", f"/v1/messages/id/7F000001{'0' * 24}", None, 404, "which is not registered"),
        ("GET", "/v1/messages/unique-key?topic=orders&key=nothing", None, 404, "no message of the unique key"),
        ("GET", "/v1/messages/key?topic=orders&key=a%20b", None, 422, "key"),
        ("GET", "/v1/messages/at?queue=orders@broker-a:0&offset=99", None, 404, "has no offset 99"),
        (
            "GET",
            "/v1/messages/at?queue=orders@broker-a:0&offset=0&count=33",
            None,
            422,
            "count: Expected integer <= 32",
        ),
        ("GET", "/v1/messages/at?queue=orders&offset=0", None, 422, "expected TOPIC@BROKER:QUEUE"),
        ("POST", "/v1/wipe-write-perm", {"broker": "broker-aa"}, 404, "did you mean broker-a?"),
        ("GET", "/v1/config/broker-b", None, 404, "did you mean broker-a?"),
        ("GET", "/v1/config/broker-a?key=slaveReadEnabel", None, 404, "did you mean slaveReadEnable?"),
        ("PATCH", "/v1/config/broker-a", {"settings": {}}, 422, "settings: Expected object of length >= 1"),
        ("PATCH", "/v1/config/broker-a", {"settings": {"slaveReadEnabel": 1}}, 404, "did you mean slaveReadEnable?"),
        ("PATCH", "/v1/config/broker-a", {"settings": {"flushInterval": "a\nb=1"}}, 422, "line break"),
        ("POST", "/v1/mark", {"text": "  "}, 422, "a mark of 0 characters"),
        ("POST", "/v1/mark", {"text": "x" * 201}, 422, "text: Expected string of length <= 200"),
    ],
)
def test_an_impossible_operation_returns_its_reason(
    lab: Lab, method: str, path: str, body: Any, status: int, text: str
) -> None:
    found, document = lab.ask(method, path, body)
    assert found == status, document
    assert text in document["error"]["message"]
