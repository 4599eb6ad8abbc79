"""What a person sees, at the width of a terminal."""

import io

import pytest
from rich.console import Console
from rich.live import Live

from rmqlab.cluster.cli.output.event_lines import render_event, render_schema
from rmqlab.cluster.cli.output.links import by_master
from rmqlab.cluster.cli.output.screen import live_console
from rmqlab.cluster.cli.output.tables import render_nodes, render_status, render_up
from rmqlab.runtime.journals.schema import EVENT_TYPES

NODES = [
    ("namesrv-1", "nameserver", "ready", None, "127.77.160.1:9876", None, 1234567),
    ("broker-a", "ASYNC_MASTER", "crashed", "exit status 1", "127.77.160.20:10911", "127.77.160.20:10912", None),
    ("broker-a-s", "SLAVE", "ready", None, "127.77.160.21:10911", "127.77.160.21:10912", 1234568),
]


def nodes_at(width: int, nodes: list[tuple[object, ...]]) -> str:
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render_nodes({"nodes": [dict(zip(keys, node, strict=True)) for node in nodes]}))
    return console.export_text()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.77.1.2", "127.77.16.2", "127.77.160.2", "127.177.160.220"])
def test_no_width_cuts_a_status(host: str) -> None:
    node = ("broker-a", "ASYNC_MASTER", "ready", None, f"{host}:10911", f"{host}:10912", 12345)
    for width in range(20, 100):
        assert "ready" in nodes_at(width, [node]), width


def test_80_columns_show_all_of_every_node() -> None:
    text = nodes_at(80, list(NODES))
    assert "…" not in text
    for word in ("1234567", "1234568", "crashed", "(exit", "127.77.160.20:10911", ":10912", "ASYNC_MASTER"):
        assert word in text


def test_a_status_that_is_drawn_again_and_again_is_folded_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "group": "broker-a",
        "master": "broker-a",
        "slave": "broker-a-s",
        "connected": True,
        "lag": 0,
        "slaveAckOffset": 1234567890123,
        "diff": 12345678,
        "transferredByteInSecond": 123456789,
        "inSync": True,
        "transferFromWhere": 90,
        "state": "TRANSFER",
        "verdict": "the last word",
        "trouble": "the disk is full",
    }
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    nodes = [dict(zip(keys, node, strict=True)) for node in NODES]
    document = {
        "name": "n",
        "namesrv_addr": "a",
        "rate": 1,
        "nodes": nodes,
        "masters": {},
        "replication": [row],
        "routes": {},
    }
    shown = io.StringIO()
    monkeypatch.setattr(live_console, "_file", shown)  # the property would keep the file of now
    monkeypatch.setattr(live_console, "_width", 80)
    with Live(render_status(document), console=live_console, auto_refresh=False):
        pass
    assert "123456789 " in shown.getvalue()
    words = " ".join(shown.getvalue().split())
    assert "the last word" in words
    assert "reported to its master: the disk is full" in words


def test_a_slave_with_long_offsets_fits_into_80_columns() -> None:
    row = {
        "group": "broker-a",
        "master": "broker-a",
        "slave": "broker-a-s",
        "connected": True,
        "lag": 123456789,
        "slaveAckOffset": 123456789012,
        "diff": 123456789,
        "transferredByteInSecond": 123456789,
        "inSync": False,
        "transferFromWhere": 123456789012,
        "state": "TRANSFER",
        "verdict": "",
        "trouble": None,
    }
    nodes = [
        dict(zip(("name", "role", "state", "end", "address", "ha_address", "pid"), node, strict=True)) for node in NODES
    ]
    head = {"name": "default", "namesrv_addr": "127.77.124.1:9876", "rate": 1, "routes": {}}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_status({**head, "profile": "hardened", "nodes": nodes, "replication": [row], "masters": {}}))
    text = console.export_text()
    assert "profile hardened" in text.splitlines()[0]
    shown_line = [
        line.rstrip() for line in text.splitlines() if "slaveAckOffset" in line or "transferFromWhere" in line
    ]
    assert len(shown_line) == 2
    assert max(map(len, shown_line)) <= 80
    console.print(render_status({**head, "profile": "4.9", "nodes": nodes, "replication": [], "masters": {}}))
    assert "profile" not in console.export_text()


def test_unserved_requests_and_a_failing_flush_are_shown() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    unserved = {"127.0.0.1 13": 2, "::1 901": 1}
    node = {
        "name": "broker-a",
        "kind": "broker",
        "role": "SLAVE",
        "state": "ready",
        "address": "",
        "unserved": unserved,
    }
    nodes = [{**node, "end": None, "ha_address": None, "pid": None}]
    head = {
        "name": "default",
        "namesrv_addr": "",
        "rate": 1,
        "masters": {},
        "replication": [],
        "routes": {},
        "faults": [],
    }
    console.print(render_status({**head, "nodes": nodes}))
    text = console.export_text()
    assert "broker-a: code 13 (QUERY_BROKER_OFFSET) from 127.0.0.1, 2 times" in text
    assert "broker-a: code 901 (not of 4.9) from ::1, 1 time" in text
    assert "not synced" not in text
    commit_log = {"min": 0, "max": 9000, "flushed": 4000, "flush_error": "Input/output error"}
    console.print(render_status({**head, "nodes": [{**nodes[0], "commit_log": commit_log}]}))
    assert "broker-a: the commit log is not synced beyond 4000: Input/output error" in console.export_text()


@pytest.mark.parametrize(
    ("event", "shown_line"),
    [
        (
            {"kind": "sent", "number": 7, "outcome": "SEND_OK", "topic": "orders", "broker": "broker-a", "queue": 3,
             "offset": 123456, "began_at": 1795200000000, "took": 12, "message_id": "7F4D", "error": None},
            "sent #7 SEND_OK orders@broker-a:3 at 123456 12 ms",
        ),
        (
            {"kind": "sent", "number": 9, "outcome": "SLAVE_NOT_AVAILABLE", "took": 3, "remark": "no slave is connected"},
            "sent #9 SLAVE_NOT_AVAILABLE 3 ms: no slave is connected",
        ),
        ({"kind": "sent", "number": 8, "outcome": "refused", "error": "no route", "took": 3}, "sent #8 refused 3 ms: no route"),
        (
            {"kind": "attempt_failed", "attempt": 2, "broker": "broker-a", "outcome": "indeterminate", "took": 3000,
             "error": "no answer"},
            "attempt 2 at broker-a indeterminate 3000 ms: no answer",
        ),
        (
            {"kind": "delivered", "number": 7, "topic": "orders", "broker": "broker-a", "queue": 3, "offset": 12,
             "from_broker_id": 1, "reconsume_times": 2},
            "got #7 orders@broker-a:3 at 12 from slave 1 again (2)",
        ),
        (
            {"kind": "committed", "topic": "orders", "broker": "broker-a", "queue": 3, "offset": 12, "broker_id": 0},
            "committed orders@broker-a:3 at 12",
        ),
        (
            {"kind": "rebalanced", "topic": "orders", "added": ["orders@broker-a:0"] * 8, "removed": [],
             "held": ["orders@broker-a:0"] * 8},
            "rebalanced orders: queues held 8, added 8, removed 0",
        ),
        (
            {"kind": "route_believed", "topic": "orders", "brokers": {"a": {"0": "127.1:1", "1": "x"}, "b": {"1": "y"}}},
            "route_believed orders: a 0,1; b 1",
        ),
        ({"kind": "route_believed", "topic": "orders", "brokers": {}}, "route_believed orders: no broker"),
        (
            {"kind": "pull_resumed", "queue": "t@broker-a:0", "broker_id": 1, "address": "127.7.5.2:1"},
            "pull_resumed t@broker-a:0 at broker id 1 127.7.5.2:1",
        ),
        (
            {"kind": "committing_to", "broker_name": "b", "broker_id": 0, "address": "127.77.25.21:10911"},
            "committing_to b at broker id 0 127.77.25.21:10911",
        ),
    ],
)  # fmt: skip
def test_a_single_message_fits_into_one_line_of_80_columns(event: dict[str, object], shown_line: str) -> None:
    shown = render_event({"at": 0, "node": "produce-1", **event}).plain
    assert shown.endswith(f" {shown_line}")
    assert len(shown) <= 80 or event.get("error") or event.get("remark"), "a broker's text is shown in full"


def test_an_error_is_shown_in_full_and_long_lists_are_truncated() -> None:
    event = {"at": 0, "node": "produce-1", "kind": "commit_failed", "error": "e" * 90 + " full", "held": ["queue"] * 90}
    shown = render_event(event).plain
    assert "e full" in shown
    assert shown.endswith("…")


def test_the_schema_of_the_journal_names_every_kind_and_field() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_schema(EVENT_TYPES.values()))
    text = console.export_text()
    for kind in EVENT_TYPES.values():
        assert f"{kind.name}  ({kind.source})" in text
        assert all(f"    {name}: {field.type}" in text for name, field in kind.fields.items())


@pytest.mark.parametrize(
    ("master", "state", "connected", "message"),
    [
        ("broker-a", "ready", False, "no haStatus: broker-a has no connection from it (a slave connects within 5 s)"),
        ("broker-a", "ready", None, "no haStatus: broker-a reports nothing about it"),
        ("broker-a", "killed", None, "no haStatus: broker-a is killed"),
        (None, "ready", None, "no haStatus: its group has no master"),
    ],
)
def test_a_slave_without_connection_has_a_reason(
    *, master: str | None, state: str, connected: bool | None, message: str
) -> None:
    facts = ("slaveAckOffset", "diff", "inSync", "state", "transferredByteInSecond", "transferFromWhere", "trouble")
    row = {
        "group": "broker-a",
        "master": master,
        "slave": "broker-a-s",
        "connected": connected,
        "lag": 0,
        "verdict": "",
    }
    nodes = [
        dict(zip(("name", "role", "state", "end", "address", "ha_address", "pid"), node, strict=True)) for node in NODES
    ]
    nodes[1]["state"] = state
    head = {"name": "default", "namesrv_addr": "127.77.124.1:9876", "rate": 1, "routes": {}, "masters": {}}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_status({**head, "nodes": nodes, "replication": [{**row, **dict.fromkeys(facts)}]}))
    text = console.export_text()
    assert message in text
    assert "slaveAckOffset" not in text


@pytest.mark.parametrize(("has_connected", "note"), [(False, "not connected yet"), (True, "not connected\n")])
def test_a_slave_that_starts_has_not_connected_yet(*, has_connected: bool, note: str) -> None:
    row = dict.fromkeys(("slaveAckOffset", "diff", "transferredByteInSecond", "inSync", "transferFromWhere", "state"))
    row |= {"group": "broker-a", "master": "broker-a", "slave": "broker-a-s", "connected": False, "lag": 0}
    row |= {"verdict": "", "trouble": None}
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    nodes: list[dict[str, object]] = [dict(zip(keys, node, strict=True)) for node in NODES]
    nodes[2]["ha"] = {"connected": False, "has_connected": has_connected}
    head = {"name": "n", "namesrv_addr": "a", "rate": 1, "routes": {}, "masters": {}}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_status({**head, "nodes": nodes, "replication": [row]}))
    assert f"lag 0  {note}" in console.export_text()


def test_a_slave_that_was_added_later_is_below_its_master() -> None:
    places = [("broker-a", "broker-a-s"), ("broker-b", "broker-b-s"), ("broker-a", "broker-a-s2")]
    rows = [{"group": master, "master": master, "slave": slave} for master, slave in places]
    assert [row["slave"] for row in by_master(rows)] == ["broker-a-s", "broker-a-s2", "broker-b-s"]


@pytest.mark.parametrize(
    ("mode", "state", "is_said"), [("", "killed", True), ("", "ready", False), ("dledger", "killed", False)]
)
def test_a_group_whose_master_is_dead_has_a_line_about_the_remedy(mode: str, state: str, *, is_said: bool) -> None:
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    nodes: list[dict[str, object]] = [dict(zip(keys, node, strict=True)) for node in NODES]
    for node, broker_id in zip(nodes, (None, 0, 1), strict=True):
        node |= {"group": "broker-a" if broker_id is not None else None, "broker_id": broker_id}
    nodes[1]["state"] = state
    masters = {"broker-a": ["broker-a"] if state == "ready" else []}
    head = {"name": "n", "namesrv_addr": "a", "rate": 1, "routes": {}, "masters": masters, "mode": mode}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_status({**head, "nodes": nodes, "replication": []}))
    line = "broker-a has no running master: slaves serve reads, and RocketMQ promotes none; `start broker-a`, or"
    assert (line in console.export_text()) is is_said


def test_a_start_with_two_masters_of_a_group_says_so() -> None:
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    nodes: list[dict[str, object]] = [dict(zip(keys, node, strict=True)) for node in NODES]
    for node, group, broker_id in zip(nodes, (None, "broker-a", "broker-a"), (None, 0, 0), strict=True):
        node |= {"group": group, "broker_id": broker_id}
    head = {"name": "n", "namesrv_addr": "a", "rate": 1, "masters": {"broker-a": ["broker-a", "broker-a-s"]}}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_up({**head, "nodes": nodes}))
    assert "broker-a has 2 masters: broker-a, broker-a-s. Each accepts writes" in console.export_text()


def test_masters_without_slaves_have_their_commit_logs_in_the_status() -> None:
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    nodes: list[dict[str, object]] = [dict(zip(keys, node, strict=True)) for node in NODES]
    nodes[1] |= {"commit_log": {"min": 0, "max": 7}}
    nodes[2] |= {"commit_log": {"min": 3, "max": 9}}  # promoted: two masters, and no replication between them
    head = {"name": "n", "namesrv_addr": "a", "rate": 1, "routes": {}, "masters": {}}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_status({**head, "nodes": nodes, "replication": []}))
    lines = console.export_text().splitlines()
    assert "broker-a     commit log 0..7" in lines
    assert "broker-a-s   commit log 3..9" in lines
