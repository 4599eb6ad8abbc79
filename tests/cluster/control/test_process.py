"""`rmqlab up --control`, with requests generated from its OpenAPI document."""

import concurrent.futures
import http.client
import json
import stat
import urllib.request
from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.control.endpoints import ENDPOINTS
from rmqlab.cluster.control.openapi import openapi_document
from tests.cluster.control.labs import NAME, SECONDS, Lab, controlled_lab, rmqlab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with controlled_lab(tmp_path_factory.mktemp("home")) as lab:
        yield lab


def test_address_and_token_are_in_a_private_file(lab: Lab) -> None:
    path = lab.directory / "control.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {"url": lab.url, "token": lab.token}
    assert lab.token not in rmqlab("status", "-n", NAME, "--json").stdout
    assert not any(lab.token.encode() in path.read_bytes() for path in lab.directory.rglob("*.log"))


schema = schemathesis.openapi.from_dict(openapi_document())
OPERATIONS: dict[str, Any] = {found.ok().label: found.ok() for found in cast("Any", schema.get_all_operations())}
CHECKED_LATER = {
    *("POST /v1/faults", "POST /v1/add/group", "POST /v1/add/slave", "POST /v1/actions/start"),
    *("POST /v1/actions/restart", "POST /v1/mark", "POST /v1/offsets/reset", "PATCH /v1/config/{target}"),
    *("GET /v1/messages/id/{id}", "GET /v1/messages/key", "GET /v1/messages/at"),
    *("POST /v1/topics", "PATCH /v1/topics/{topic}", "PATCH /v1/groups/{group}"),
}
STREAMS = {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS if endpoint.is_stream}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("label", sorted(OPERATIONS.keys() - STREAMS))
def test_generated_requests_get_what_the_document_says(lab: Lab, label: str, mode: GenerationMode) -> None:
    """Valid requests are accepted, invalid ones rejected; each response fits.

    Targets may be unknown. Which texts name a request of RocketMQ is not in the schema of faults, nor are the settings
    of brokers in any, the forms of times, ids and queues, and which fields exclude each other.
    """
    beyond = [positive_data_acceptance] if label in CHECKED_LATER else []

    @settings(
        max_examples=3, derandomize=True, suppress_health_check=[*HealthCheck], database=None, phases=[Phase.generate]
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        done = case.call_and_validate(base_url=lab.url, headers=lab.headers, timeout=SECONDS, excluded_checks=beyond)
        if label.startswith("POST /v1/add/") and done.status_code == 200:
            for node in reversed(done.json()):
                assert lab.ask("POST", "/v1/remove", {"target": node["name"]})[0] == 200

    check()


def test_every_action_does_what_its_command_does(lab: Lab) -> None:
    """Each response is that of the document, and each action is tried."""
    tried = []

    def act(name: str, target: str, status: int = 200) -> Any:
        case = OPERATIONS[f"POST /v1/actions/{name}"].Case(body={"target": target}, media_type="application/json")
        response = case.call_and_validate(base_url=lab.url, headers=lab.headers, timeout=SECONDS)
        assert response.status_code == status, response.text
        tried.append(name)
        return response.json()

    assert act("kill", "broker-a:master")[0]["state"] == "killed"
    assert act("kill", "broker-a:master", 409)["error"]["possible"][0]["state"] == "killed"
    assert lab.ask("POST", "/v1/wait", {"condition": "route-gone broker-a"})[0] == 200
    assert act("start", "broker-a")[0]["state"] == "ready"
    assert act("pause", "broker-a-s")[0]["state"] == "paused"
    assert act("resume", "broker-a-s")[0]["state"] == "ready"
    assert act("restart", "namesrv-1")[0]["state"] == "ready"
    assert act("stop", "broker-a-s")[0]["state"] == "stopped"
    assert act("wipe", "broker-a-s")[0]["deleted_files"] > 0
    act("start", "broker-a-s")
    assert lab.ask("POST", "/v1/wait", {"condition": "slave-caught-up broker-a"})[0] == 200
    assert act("promote", "broker-a-s")[0]["other_masters"][0]["name"] == "broker-a"
    assert act("demote", "broker-a-s")[0]["role"] == "SLAVE"
    assert "lost" in act("power-loss", "broker-a-s")[0]
    act("start", "broker-a-s")
    assert act("isolate", "broker-a-s")["type"] == "isolate"
    assert len(lab.ask("DELETE", "/v1/faults")[1]) == 1
    assert {*tried} == {*ACTIONS}, "try the new action here, too"


def test_nodes_are_added_and_removed(lab: Lab) -> None:
    settings = {"slaveReadEnable": True}
    status, added = lab.ask("POST", "/v1/add/slave", {"group": "broker-a", "settings": settings})
    assert (status, [node["state"] for node in added]) == (200, ["ready"])
    name = added[0]["name"]
    assert lab.ask("POST", "/v1/wait", {"condition": "slave-in-sync broker-a"})[0] == 200
    shown = rmqlab("config", "get", name, "slaveReadEnable", "-n", NAME, "--json")
    assert json.loads(shown.stdout)[0]["settings"] == {"slaveReadEnable": "true"}
    status, removed = lab.ask("POST", "/v1/remove", {"target": name})
    assert (status, [node["name"] for node in removed]) == (200, [name])
    assert lab.ask("POST", "/v1/remove", {"target": name})[0] == 404
    status, added = lab.ask("POST", "/v1/add/nameserver", {})
    assert (status, added[0]["kind"]) == (200, "nameserver")
    assert lab.ask("POST", "/v1/remove", {"target": added[0]["name"]})[0] == 200


def test_of_two_clients_that_add_a_removed_slave_one_adds_it(lab: Lab) -> None:
    added = lab.ask("POST", "/v1/add/slave", {"group": "broker-a"})[1]
    name = added[0]["name"]
    assert lab.ask("POST", "/v1/remove", {"target": name})[0] == 200
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(lab.ask, "POST", "/v1/add/slave", {"group": name}) for _ in range(2)]
    assert sorted(one.result()[0] for one in asked) == [200, 409]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(lab.ask, "POST", "/v1/remove", {"target": name}) for _ in range(2)]
    assert sorted(one.result()[0] for one in asked) == [200, 404]


def test_settings_of_a_restart_are_checked_and_stay(lab: Lab) -> None:
    status, document = lab.ask(
        "POST", "/v1/actions/restart", {"target": "broker-a", "settings": {"slaveReadEnabel": 1}}
    )
    assert (status, document["error"]["field"]) == (422, "settings")
    assert "slave_read_enable" in document["error"]["message"], "the near miss"
    restart = {"target": "broker-a", "settings": {"slaveReadEnable": True}}
    assert lab.ask("POST", "/v1/actions/restart", restart)[0] == 200


def test_two_clients_at_once_are_like_two_commands(lab: Lab) -> None:
    """Of two starts one wins, the other gets 409, and there is one process."""
    for _ in range(3):
        assert lab.ask("POST", "/v1/actions/kill", {"target": "broker-a-s"})[0] == 200
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(lab.ask, "POST", "/v1/actions/start", {"target": "broker-a-s"}) for _ in range(2)]
        assert sorted(one.result()[0] for one in asked) == [200, 409]
        _, status = lab.ask("GET", "/v1/status")
        assert [node["state"] for node in status["nodes"]] == ["ready"] * 3
    spawned = [event for event in events(lab, "last=100000&follow=false") if event["kind"] == "node_spawned"]
    ended = [event for event in events(lab, "last=100000&follow=false") if event.get("pid") and "end" in event]
    assert len(spawned) - len(ended) == 3


def events(lab: Lab, query: str) -> list[Any]:
    request = urllib.request.Request(f"{lab.url}/v1/events?{query}", headers=lab.headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        return [json.loads(line.removeprefix(b"data: ")) for line in response if line.startswith(b"data: ")]


def test_events_arrive_while_the_cluster_runs(lab: Lab) -> None:
    host = lab.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=SECONDS)
    connection.request("GET", "/v1/events?last=0", headers=lab.headers)
    response = connection.getresponse()
    assert lab.ask("POST", "/v1/actions/pause", {"target": "broker-a"})[0] == 200
    kinds = set[str]()
    while "node_paused" not in kinds:
        line = response.readline()
        if line.startswith(b"data: "):
            kinds.add(json.loads(line.removeprefix(b"data: "))["kind"])
    connection.close()
    assert lab.ask("POST", "/v1/actions/resume", {"target": "broker-a"})[0] == 200


@pytest.fixture(scope="module")
def shop(lab: Lab) -> None:
    """Send 20 messages to `orders`, and consume them as the group `shop`."""
    assert lab.ask("POST", "/v1/wait", {"condition": "route-has broker-a"})[0] == 200
    made = rmqlab("produce", "-n", NAME, "-t", "orders", "--count", "20", "--rate-per-second", "0")
    assert made.exit_code == 0, made.output
    assert rmqlab("consume", "-n", NAME, "-t", "orders", "-g", "shop", "--count", "20").exit_code == 0
    assert lab.ask("POST", "/v1/wait", {"condition": "topic-known broker-a:slave orders"})[0] == 200


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/topics", "topics list"),
        ("/v1/topics?all=true", "topics list --all"),
        ("/v1/topics/orders", "topics route orders"),
        ("/v1/groups", "groups list"),
        ("/v1/groups?all=true", "groups list --all"),
        ("/v1/lag", "groups lag"),
        ("/v1/lag/shop", "groups lag shop"),
        ("/v1/lag/shop?topic=orders", "groups lag shop --topic orders"),
        ("/v1/offsets?group=shop", "offsets show shop"),
        ("/v1/offsets?group=shop&topic=orders", "offsets show shop --topic orders"),
    ],
)
def test_operator_reads_return_the_output_of_their_command(lab: Lab, path: str, words: str) -> None:
    command = rmqlab(*words.split(), "-n", NAME, "--json")
    status, document = lab.ask("GET", path)
    assert (status, _without_rate(document)) == (200, _without_rate(json.loads(command.stdout)))
    assert "broker-a" in command.stdout
    assert ("TBW102" in command.stdout or "CID_" in command.stdout) == ("--all" in words)


def _without_rate(document: Any) -> Any:
    """Leave out `tps`, which falls between two requests."""
    if isinstance(document, list):
        return [{name: value for name, value in one.items() if name != "tps"} for one in document]
    return document


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/topics/ordrs", 404, "unknown topic 'ordrs'; did you mean orders?"),
        ("/v1/lag/shp", 404, "unknown group 'shp'; did you mean shop?"),
        ("/v1/offsets?group=shp", 404, "unknown group 'shp'; did you mean shop?"),
        ("/v1/offsets?group=shop&topic=ordrs", 404, "unknown topic 'ordrs'; did you mean orders?"),
        ("/v1/topics/x%20y", 422, "topic 'x y' has a character other than"),
        ("/v1/offsets?group=x%20y", 422, "group 'x y' has a character other than"),
        ("/v1/topics?all=maybe", 422, "all: Expected boolean"),
    ],
)
def test_an_unknown_name_has_the_near_miss(lab: Lab, path: str, status: int, words: str) -> None:
    found, document = lab.ask("GET", path)
    assert found == status
    assert words in document["error"]["message"]


@pytest.mark.usefixtures("shop")
def test_the_judgement_is_that_of_the_cluster(lab: Lab) -> None:
    status, judgement = lab.ask("GET", "/v1/check?metric=lost")
    assert (status, [*judgement["findings"]]) == (200, ["lost"])
    status, document = lab.ask("GET", "/v1/check?metric=lots")
    assert (status, document["error"]["field"]) == (404, "metric")
    assert "did you mean lost?" in document["error"]["message"]


@pytest.mark.parametrize(
    ("address", "words"),
    [("x", "--control x: expected HOST:PORT, such as 127.0.0.1:0"), ("127.0.0.1:99999", "the port is 0 to 65535")],
)
def test_an_invalid_address_is_rejected_before_anything_starts(lab: Lab, address: str, words: str) -> None:
    done = rmqlab("up", "-n", "other", "--detach", "--control", address)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (lab.directory.parent / "other").exists()


def test_a_taken_address_is_one_line_and_nothing_is_left(lab: Lab) -> None:
    done = rmqlab("up", "-n", "other", "--detach", "--control", lab.url.removeprefix("http://"))
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [f"rmqlab: --control {lab.url.removeprefix('http://')}: Address already in use"]
    assert (
        "is not running" in rmqlab("status", "-n", "other").stderr
        or "no cluster" in rmqlab("status", "-n", "other").stderr
    )


def test_up_on_a_running_cluster_leaves_its_control_api_alone(lab: Lab) -> None:
    assert rmqlab("up", "-n", NAME, "--detach").exit_code == 1
    assert (lab.directory / "control.json").exists()
    assert lab.ask("GET", "/v1/faults") == (200, [])
