"""The picture as text: 80 columns, 24 lines."""

import io
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from rmqlab.cluster.cli.live.keys import HELP, Selection
from rmqlab.cluster.cli.live.noderows import size
from rmqlab.cluster.cli.live.view import render_live

Document = dict[str, Any]
SOME_DAY = 1_795_200_000_000


@pytest.fixture(autouse=True, scope="module")
def utc() -> Iterator[None]:
    """Times of day do not depend on where the test runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def shown(
    document: Document, selection: Selection, events: list[Document], width: int = 80, height: int = 24
) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, color_system=None)
    console.print(render_live(document, selection, events, width, height))
    return [line.rstrip() for line in console.export_text().split("\n")[:-1]]


def event(seconds: int, node: str, kind: str, **fields: Any) -> Document:
    return {"at": SOME_DAY - 60_000 + seconds * 1000, "node": node, "kind": kind, **fields}


EVENTS = [
    event(0, "", "cluster_ready"),
    event(1, "consume-2", "pulling_from", queue="orders@broker-a:0", broker_id=0, address="127.77.1.20:10911"),
    event(1, "consume-2", "pulling_from", queue="orders@broker-a:1", broker_id=0, address="127.77.1.20:10911"),
    event(2, "broker-a", "command", command="kill"),
    event(2, "namesrv-1", "broker_connection_lost", cluster="c", broker_name="broker-a", remaining={"1": "x"}),
]


def test_a_cluster_that_is_well(document: Document) -> None:
    assert (
        "\n".join(shown(document, Selection(), EVENTS))
        == """\
 rmqlab default  time x10  NAMESRV_ADDR=127.77.1.1:9876                18:40:00
   NODE          ROLE         STATE     LOG END       REPLICATION
>1 broker-a      SYNC_MASTER  ready        1,234,567
 2 broker-a-s    SLAVE        ready        1,234,567  ░░░░░░░░ in step
 3 namesrv-1     nameserver   ready
   NAMESERVER    ROUTE
   namesrv-1     correct  broker-a broker-a-s
   CLIENT
   produce-1     ready     SEND_OK 1,200  refused 31  failed attempts 3
   consume-2     ready     delivered 1,200  committed 40
   EVENTS
 18:39:00 cluster      cluster_ready
 18:39:01 consume-2    pulling_from x2 queue=orders@broker-a:1 broker_id=0 addr…
 18:39:02 broker-a     command command=kill
 18:39:02 namesrv-1    broker_connection_lost cluster=c broker_name=broker-a








 ↑↓ node  k kill  s start  x stop  p pause  m role  i isolate  h heal  q quit ?"""
    )


def test_a_slave_that_is_ahead_of_its_master(document: Document) -> None:
    document["replication"][0] |= {"lag": -48_000}
    assert "█████░░░ 48 kB ahead" in shown(document, Selection("broker-a-s", ""), [])[3]


def test_a_cluster_in_trouble(document: Document) -> None:
    master, slave = document["nodes"][1:3]
    master |= {"state": "killed", "commit_log": None}
    document["replication"][0] |= {"lag": 48_000, "connected": False}
    document["faults"] = [{"id": "f1", "type": "isolate", "target": "broker-a-s", "applied_at": SOME_DAY - 12_000}]
    lines = shown(document, Selection("broker-a-s", "broker-a is killed: s starts it"), [])
    assert lines[2:5] == [
        " 1 broker-a      SYNC_MASTER  killed               ?",
        ">2 broker-a-s    SLAVE        isolated     1,234,567  █████░░░ 48 kB, cut off",
        " 3 namesrv-1     nameserver   ready",
    ]
    assert lines[6] == "   namesrv-1     WRONG still names broker-a (killed), broker-a-s (isolated)"
    assert lines[10:12] == [
        "   FAULTS        IN FORCE",
        "   f1            isolate target=broker-a-s  for 12 s",
    ]
    assert lines[22] == " broker-a is killed: s starts it"
    assert slave["state"] == "ready"


def test_two_masters_of_a_group_are_below_the_nodes(document: Document) -> None:
    document["nodes"][2] |= {"role": "SYNC_MASTER", "broker_id": 0}
    document |= {"masters": {"broker-a": ["broker-a", "broker-a-s"]}, "replication": []}
    assert shown(document, Selection(), EVENTS)[5:8] == [
        "   broker-a has 2 masters: broker-a, broker-a-s. Each accepts writes; a route",
        "   has the one that registered last",
        "   NAMESERVER    ROUTE",
    ]
    assert shown(document, Selection(), EVENTS, 40, 20)[5:9] == [
        "   broker-a has 2 masters: broker-a,",
        "   broker-a-s. Each accepts writes; a",
        "   route has the one that registered",
        "   last",
    ]


def test_warnings_about_masters_that_do_not_fit_are_counted(document: Document) -> None:
    document["masters"] = {f"broker-{letter}": ["m", "n"] for letter in "abcdef"}
    lines = shown(document, Selection(), EVENTS)
    assert sum("has 2 masters" in line for line in lines) == 2
    assert "   ... and 4 more groups" in lines


def test_a_group_without_a_running_master_has_its_remedy(document: Document) -> None:
    document["nodes"][1]["state"] = "killed"
    document["masters"]["broker-a"] = []
    assert shown(document, Selection(), EVENTS)[5:7] == [
        "   broker-a has no running master: slaves serve reads, and RocketMQ promotes",
        "   none; `start broker-a`, or `promote broker-a-s`",
    ]


def test_a_remedy_is_folded_between_words_and_not_inside_names(document: Document) -> None:
    document["nodes"][1]["state"] = "killed"
    document["masters"]["broker-a"] = []
    for width in range(40, 121):
        text = " ".join(line.strip() for line in shown(document, Selection(), EVENTS, width=width))
        assert "`start broker-a`, or `promote broker-a-s`" in text


def test_a_slave_that_starts_is_not_cut_off(document: Document) -> None:
    document["replication"][0] |= {"lag": 48_000, "connected": False}
    document["nodes"][2]["ha"] = {"connected": False, "has_connected": False}
    assert shown(document, Selection(), [])[3].endswith("  1,234,567  █████░░░ not connected yet")
    document["nodes"][2]["ha"]["has_connected"] = True
    assert shown(document, Selection(), [])[3].endswith("█████░░░ 48 kB, cut off")


def test_missing_routes_and_silent_nameservers_are_shown(document: Document) -> None:
    del document["routes"]["namesrv-1"]["broker-a"]["0"]
    document["routes"]["namesrv-2"] = None
    lines = shown(document, Selection(), [])
    assert lines[6:8] == [
        "   namesrv-1     WRONG leaves out broker-a",
        "   namesrv-2     no response",
    ]


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (66, " 2 broker-a-s    SLAVE        ready     ██████░░ 1.23 MB behind"),
        (65, " 2 broker-a-s ready     1.23 MB"),
    ],
)
def test_narrow_screens_do_not_cut_the_lag(document: Document, width: int, row: str) -> None:
    document["replication"][0]["lag"] = 1_234_567
    assert row in shown(document, Selection(), [], width)


def test_60_columns_keep_states_and_the_last_keys(document: Document) -> None:
    lines = shown(document, Selection(), EVENTS, 60, 20)
    assert " 2 broker-a-s ready     in step" in lines
    assert lines[-1] == " ↑↓ node  k kill  s start  x stop  p pause  m role  q quit ?"


def test_rates_are_beside_clients_and_masters(document: Document) -> None:
    rates = {"broker-a": 12_300.0, "broker-a-s": 12_300.0, "produce-1": 50.4, "namesrv-1": 0.0}
    console = Console(width=80, height=24, file=io.StringIO(), record=True, color_system=None)
    console.print(render_live(document, Selection(), [], rates=rates))
    text = console.export_text()
    assert ">1 broker-a      SYNC_MASTER  ready        1,234,567  +12.3 kB/s" in text
    assert "produce-1     ready     50/s  SEND_OK 1,200" in text


def test_help_lists_every_key(document: Document) -> None:
    lines = shown(document, Selection(is_help=True), EVENTS)
    keys = [line[3:14].strip() for line in lines[2:-2] if line]
    assert keys == [key for key, _ in (*HELP, ("q", ""))]
    assert all(len(line) <= 80 for line in lines)


def test_of_many_nodes_those_around_the_chosen_one_are_shown_and_the_rest_counted(document: Document) -> None:
    for number in range(40):
        group = f"broker-{number:02}"
        document["nodes"].append({**document["nodes"][1], "name": group, "group": group, "address": f"a{number}"})
    document["nodes"][-1]["state"] = "killed"
    lines = shown(document, Selection("broker-20"), EVENTS)
    assert ">  broker-20     SYNC_MASTER  ready        1,234,567" in lines
    assert "   ... and 37 more; 42 of all 43 are ready" in lines
    assert lines[-1].endswith("q quit ?")
    assert len(lines) == 24


def test_the_bar_is_logarithmic_and_sizes_take_four_figures() -> None:
    assert [size(number) for number in (0, 999, 1000, 12_345, 1_234_567, 256 * 2**20, 10**12)] == [
        "0 B", "999 B", "1 kB", "12.3 kB", "1.23 MB", "268 MB", "1000 GB",
    ]  # fmt: skip


def test_forty_columns_show_the_lag_and_the_whole_route(document: Document) -> None:
    document["faults"] = [{"id": "f1", "type": "isolate", "target": "broker-a", "applied_at": SOME_DAY}]
    lines = shown(document, Selection(), [], width=40)
    assert lines[1:4] == [
        "   NODE       STATE     REPLICATION",
        ">1 broker-a   isolated",
        " 2 broker-a-s ready     in step",
    ]
    route = lines.index("   NAMESERVER    ROUTE")
    assert lines[route + 1 : route + 3] == [
        "   namesrv-1     WRONG still names",
        "                 broker-a (isolated)",
    ]
    client = lines.index("   CLIENT")
    assert lines[client + 1 : client + 3] == [
        "   produce-1     ready     SEND_OK 1,200",
        "                 refused 31  failed",
    ]


@pytest.mark.parametrize(
    ("lag", "connected", "text"),
    [(1_234_567, True, "1.23 MB"), (-512, True, "512 B ahead"), (1_234_567, False, "1.23 MB, cut off")],
)
def test_forty_columns_have_room_for_each_lag(document: Document, lag: int, text: str, *, connected: bool) -> None:
    document["replication"][0] |= {"lag": lag, "connected": connected}
    assert shown(document, Selection(), [], width=40)[3] == f" 2 broker-a-s ready     {text}"


def test_a_selected_client_is_shown_though_the_rows_of_all_do_not_fit(document: Document) -> None:
    *servers, client, _ = document["nodes"]
    document["nodes"] = [*servers, *({**client, "name": f"produce-{number}"} for number in range(9))]
    lines = shown(document, Selection(node="produce-5"), [], width=40)
    assert any(line.startswith(">  produce-5") for line in lines)
    assert any("more" in line for line in lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(20, 200), height=st.integers(1, 60), count=st.integers(0, 60), clients=st.integers(0, 30))
def test_every_screen_is_filled_without_overflow(
    document: Document, width: int, height: int, count: int, clients: int
) -> None:
    workload = document["nodes"][-1]
    many = {**document, "nodes": document["nodes"][:3] + [{**workload, "name": f"c-{n}"} for n in range(clients)]}
    events = [event(number, f"n{number}", "kind", text="x" * 300) for number in range(count)]
    lines = shown(many, Selection(), events, width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
