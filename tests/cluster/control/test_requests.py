"""Requests to the control API, and its errors."""

from typing import Any

import pytest
import trio

from rmqlab.cluster.control import endpoints, operations
from rmqlab.cluster.control.endpoint import Endpoint
from rmqlab.cluster.control.inputs import Fields, Target
from rmqlab.cluster.control.messages import SendItem
from rmqlab.cluster.control.outputs import Fault
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.operate import groups
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.supervisor.plan.process_state import WrongStateError
from tests.cluster.control.conftest import TOKEN, Api, request_bytes

PLACES = ("/v1/status", "/v1/nothing", "/v1/actions/kill", "/", "*", "//x", "/v1/topics/%00")


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1]])
async def test_without_the_token_nothing_is_said_about_the_cluster(api: Api, target: str, token: str | None) -> None:
    responses = [await api.ask(method, target, token=token) for method in ("GET", "POST", "DELETE")]
    assert {got.status for got in responses} == {401}
    assert len({got.body for got in responses}) == 1
    assert responses[0].error["message"] == "expected the header Authorization: Bearer TOKEN"
    assert responses[0].headers["www-authenticate"] == "Bearer"


async def test_two_tokens_are_no_token(api: Api) -> None:
    data = request_bytes("GET", "/v1/faults").replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer x\r\n\r\n")
    assert (await api.send(data)).status == 401


async def test_a_wrong_host_is_rejected_even_with_the_token(api: Api) -> None:
    assert (await api.ask("GET", "/v1/faults", host="evil.example:8080")).status == 421
    assert (await api.ask("GET", "/openapi.json", host="evil.example:8080")).status == 421
    assert (await api.ask("GET", "/v1/faults", host="localhost:8080")).document == []


async def test_an_unknown_path_gets_the_near_miss(api: Api) -> None:
    got = await api.ask("POST", "/v1/actions/kil", {"target": "broker-a"})
    assert (got.status, got.error["code"]) == (404, "unknown_path")
    assert got.error["message"] == "no such path; did you mean /v1/actions/kill?"
    assert "/openapi.json lists all paths" in (await api.ask("GET", "/zzz")).error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/actions/kill", "POST"),
        ("PUT", "/v1/faults", "DELETE, GET, POST"),
        ("OPTIONS", "/v1/status", "GET"),
        ("POST", "/openapi.json", "GET"),
    ],
)
async def test_a_wrong_method_gets_those_that_are_possible(api: Api, method: str, path: str, allowed: str) -> None:
    got = await api.ask(method, path)
    assert (got.status, got.headers["allow"]) == (405, allowed)
    assert f"expected {allowed}" in got.error["message"]
    assert not any(name.startswith("access-control") for name in got.headers)


async def test_the_response_to_head_has_no_body(api: Api) -> None:
    got = await api.ask("HEAD", "/v1/status")
    assert (got.status, got.body) == (405, b"")


@pytest.mark.parametrize(
    ("body", "status", "field", "words"),
    [
        (b"", 400, None, "not valid JSON"),
        (b"{", 400, None, "not valid JSON"),
        (b"\xff", 400, None, "not valid JSON"),
        (b'{"target": "\xff"}', 400, None, "not valid JSON"),
        (b'{"\xed\xa0\x80": "x"}', 400, None, "not valid JSON"),
        (b"[" * 100_000, 400, None, "recursion"),
        (b'{"target": NaN}', 400, None, "not valid JSON"),
        (b"[]", 422, None, "Expected object, got array"),
        (b"null", 422, None, "Expected object, got null"),
        (b"{}", 422, "target", "target: Object missing required field target"),
        (b'{"target": 7}', 422, "target", "target: Expected string, got integer"),
        (b'{"target": null}', 422, "target", "target: Expected string, got null"),
        (b'{"target": ""}', 422, "target", "target: Expected string of length >= 1"),
        (b'{"targt": "x"}', 422, "targt", "targt: unknown field; expected target; did you mean target?"),
        (b'{"target": "broker-b"}', 404, "target", "did you mean broker-a?"),
        (b'{"target": "broker-a", "target": "broker-a-s"}', 422, "target", "target: given more than once"),
    ],
)
async def test_an_invalid_body_is_rejected_with_the_fields_name(
    api: Api, body: bytes, status: int, field: str | None, words: str
) -> None:
    got = await api.ask("POST", "/v1/actions/kill", body)
    assert (got.status, got.error["field"]) == (status, field)
    assert words in got.error["message"]
    assert not api.supervisor.processes.errors.counts


async def test_a_long_name_of_a_field_is_cut(api: Api) -> None:
    got = await api.ask("POST", "/v1/actions/kill", {"x" * 500_000: 1})
    assert got.status == 422
    assert len(got.body) < 1000


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
async def test_a_body_is_json_by_its_content_type(api: Api, content_type: str) -> None:
    """A web page can send other types to any server without asking it first."""
    got = await api.ask("POST", "/v1/actions/kill", {"target": "broker-a"}, Content_Type=content_type)
    assert got.status == 415


@pytest.mark.parametrize(
    ("target", "field", "words"),
    [
        ("/v1/status?x=1", "x", "x: unknown parameter; expected none"),
        ("/v1/events?lst=1", "lst", "did you mean last?"),
        ("/v1/events?last=-1", "last", "last: Expected integer >= 0"),
        ("/v1/events?last=x", "last", "last: Expected integer, got string"),
        ("/v1/events?follow=maybe", "follow", "follow: Expected boolean, got string"),
        ("/v1/events?last=1&last=2", "last", "last: given more than once"),
        ("/v1/events?kind=node_redy&follow=false", "kind", "did you mean node_ready?"),
        ("/v1/offsets", "group", "group: Object missing required field group"),
        ("/v1/offsets?group=%ff", None, "the query is invalid"),
        ("/v1/events?" + "&".join(f"a{n}=1" for n in range(60)), None, "the query is invalid"),
        ("/v1/check?metric=", "metric[0]", "Expected string of length >= 1"),
    ],
)
async def test_an_invalid_query_is_rejected_with_the_parameters_name(
    api: Api, target: str, field: str | None, words: str
) -> None:
    got = await api.ask("GET", target)
    assert (got.status, got.error["field"]) == (422, field)
    assert words in got.error["message"]


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        ([], 422, "Expected object"),
        ({}, 422, "a fault needs a type"),
        ({"type": []}, 422, "type: Expected string"),
        ({"type": "link", "kind": {}}, 422, "kind: Expected string"),
        ({"type": "lnk"}, 422, "did you mean link?"),
        (
            {"type": "link", "kind": "latency", "src": "a", "dst": "b", "millis": "x"},
            422,
            "millis = 'x': expected a number",
        ),
        (
            {"type": "link", "kind": "latency", "src": "a", "dst": "b", "millis": -5},
            422,
            "millis = -5: expected at least",
        ),
        (
            {"type": "link", "kind": "latency", "src": "a", "dst": "b", "millis": 10**400},
            422,
            "expected a number below 2**63",
        ),
        ({"type": "isolate", "target": "broker-x"}, 404, "did you mean broker-a?"),
    ],
)
async def test_an_invalid_fault_is_rejected_with_the_values_name(
    api: Api, values: Any, status: int, words: str
) -> None:
    got = await api.ask("POST", "/v1/faults", values)
    assert got.status == status
    assert words in got.error["message"]
    assert not api.supervisor.processes.errors.counts


async def test_a_wrong_state_gets_what_is_possible(api: Api) -> None:
    got = await api.ask("POST", "/v1/actions/resume", {"target": "broker-a:slave"})
    assert (got.status, got.error["code"]) == (409, "wrong_state")
    assert got.error["message"] == "broker-a-s is stopped: it has no process"
    (possible,) = got.error["possible"]
    assert (possible["node"], possible["state"]) == ("broker-a-s", "stopped")
    assert {"start", "promote", "wipe"} <= {*possible["actions"]}
    assert not {"stop", "kill", "pause", "resume", "demote"} & {*possible["actions"]}


async def test_a_role_that_another_request_changes_meanwhile_is_no_defect(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change_role(_cluster: Cluster, _arguments: Any, _send: SendItem) -> None:
        await trio.lowlevel.checkpoint()
        del api.supervisor.nodes["broker-a-s"]
        raise WrongStateError("broker-a-s is a master")

    overtaken = Endpoint(
        name="stop",
        method="POST",
        path="/v1/stop",
        summary="Stops.",
        call=change_role,
        returns=Fault,
        body=Fields(Target),
    )
    monkeypatch.setattr(api.server.app, "endpoints", (overtaken,))
    got = await api.ask("POST", "/v1/stop", {"target": "broker-a:slave"})
    assert (got.status, got.error["code"], got.error["possible"]) == (409, "wrong_state", [])
    assert not api.supervisor.processes.errors.counts


async def test_a_metric_that_no_argument_can_have_is_not_found(api: Api) -> None:
    got = await api.ask("GET", "/v1/check?metric=%00")
    assert (got.status, got.error["field"]) == (404, "metric")
    assert not api.supervisor.processes.errors.counts


async def test_an_unknown_fault_is_not_found_and_a_known_one_ends(api: Api) -> None:
    applied = await api.ask("POST", "/v1/faults", {"type": "isolate", "target": "broker-a-s"})
    assert (applied.status, applied.document["id"]) == (200, "f1")
    got = await api.ask("DELETE", "/v1/faults/f2")
    assert (got.status, got.error["message"]) == (404, "no fault 'f2' in force; in force: f1")
    assert (await api.ask("GET", "/v1/faults")).document == [applied.document]
    assert (await api.ask("DELETE", "/v1/faults/f1")).document == applied.document
    assert (await api.ask("DELETE", "/v1/faults")).document == []


async def test_a_wait_that_is_not_true_in_time_is_504_and_a_near_miss_is_named(api: Api) -> None:
    got = await api.ask("POST", "/v1/wait", {"condition": "killed broker-a", "seconds": 0})
    assert (got.status, got.error["message"]) == (
        504,
        "'killed broker-a' is not true after 0 s; last seen: broker-a is starting",
    )
    got = await api.ask("POST", "/v1/wait", {"condition": "kiled broker-a"})
    assert (got.status, got.error["field"]) == (422, "condition")
    assert "did you mean killed?" in got.error["message"]


async def test_a_defect_is_counted_and_the_next_request_is_served(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_cluster: Cluster, _arguments: Any, _send: SendItem) -> None:
        await trio.lowlevel.checkpoint()
        async with trio.open_nursery():
            raise ZeroDivisionError("by zero")

    broken = Endpoint(name="bad", method="GET", path="/v1/bad", summary="Fails.", call=fail, returns=Fault)
    monkeypatch.setattr(api.server.app, "endpoints", (broken, *endpoints.ENDPOINTS))
    got = await api.ask("GET", "/v1/bad")
    assert (got.status, got.error["message"]) == (500, "internal error in bad: ZeroDivisionError: by zero")
    assert api.supervisor.processes.errors.counts == {"control API bad": 1}
    assert (await api.ask("GET", "/v1/faults")).status == 200


@pytest.mark.parametrize(
    "path", ["/v1/topics", "/v1/topics/orders", "/v1/groups", "/v1/lag/shop", "/v1/offsets?group=shop"]
)
async def test_servers_that_do_not_reply_are_502(api: Api, path: str) -> None:
    """The supervisor of these tests runs no process."""
    got = await api.ask("GET", path)
    assert (got.status, got.error["code"]) == (502, "node_failed")
    assert got.error["message"].startswith("no nameserver can be reached")
    assert not api.supervisor.processes.errors.counts


async def test_an_operation_without_end_is_502(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_for_ever(_operator: Operator) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(operations, "OPERATION_SECONDS", 0.01)
    monkeypatch.setattr(groups, "all_lags", ask_for_ever)
    got = await api.ask("GET", "/v1/lag")
    assert (got.status, got.error["message"]) == (502, "no result within 0.01 s")


@pytest.mark.parametrize(
    ("path", "body", "status", "field", "message"),
    [
        ("add/slave", {}, 422, "group", "missing required field"),
        ("add/slave", {"group": ""}, 422, "group", "length >= 1"),
        ("add/slave", {"group": "broker-aa"}, 404, "group", "broker-a"),
        ("add/slave", {"group": "broker-a", "settings": {"a": None}}, 422, "settings[...]", "Expected"),
        ("add/slave", {"group": "broker-a", "settings": ["a"]}, 422, "settings", "Expected `object`"),
        ("add/group", {"group": "broker-a"}, 409, None, "`add slave broker-a` adds a slave to it"),
        ("add/group", {"grup": "broker-b"}, 422, "grup", "group"),
        ("add/nameserver", {"nameserver": "namesrv-9"}, 404, "nameserver", "namesrv-9"),
        ("remove", {"target": "broker-z"}, 404, "target", "broker-z"),
        ("remove", {"target": "namesrv-1"}, 409, None, "namesrv-1 is the last nameserver"),
    ],
)
async def test_invalid_additions_and_removals_are_rejected_without_changes(
    api: Api, path: str, body: Any, status: int, field: str | None, message: str
) -> None:
    before = api.supervisor.spec, [*api.supervisor.nodes]
    got = await api.ask("POST", f"/v1/{path}", body)
    assert (got.status, got.error["field"]) == (status, field), got.error
    assert message.replace("`", "") in got.error["message"].replace("`", "")
    assert (api.supervisor.spec, [*api.supervisor.nodes]) == before
    assert not api.supervisor.processes.errors.counts


@pytest.mark.parametrize(
    "value", ["accesskey", "short:secretkey", "accesskey:short", ":", "access key:secretkey", "a" * 500]
)
async def test_an_account_of_another_form_is_rejected_without_repeating_it(api: Api, value: str) -> None:
    got = await api.ask("GET", "/v1/topics", RocketMQ_Account=value)
    assert (got.status, got.error["field"]) == (422, "RocketMQ-Account")
    assert value not in got.error["message"] or value == ":"
    data = request_bytes("GET", "/v1/topics", RocketMQ_Account="accesskey:secretkey").replace(
        b"\r\n\r\n", b"\r\nRocketMQ-Account: accesskey:secretkey\r\n\r\n"
    )
    assert (await api.send(data)).status == 422


async def test_an_account_signs_the_requests_of_a_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    async def listed(operator: Operator) -> list[groups.Group]:
        used.append(operator.connection)
        await trio.lowlevel.checkpoint()
        return []

    monkeypatch.setattr(groups, "list_groups", listed)
    assert (await api.ask("GET", "/v1/groups", RocketMQ_Account="accesskey:secret:key")).status == 200
    assert (await api.ask("GET", "/v1/groups")).status == 200
    assert [(one.access_key, one.secret_key) for one in used] == [("accesskey", "secret:key"), ("", "")]
