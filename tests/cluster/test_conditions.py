"""Conditions judge a status document.

Both are pure, so they are tested together, from the facts that nodes report.
"""

import io
from typing import Any

import attrs
import pytest
from rich.console import Console

from rmqlab.cluster.cli.output.tables import render_status
from rmqlab.cluster.conditions import UnknownConditionError, parse_condition
from rmqlab.cluster.supervisor.command import COMMANDS, CommandResult
from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.status import Document, Facts, is_cluster_ready, masters_behind, status_document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, UnknownTargetError, nodes_of, place
from rmqlab.runtime.node.mapcodec import MAX_MESSAGE

SPEC = ClusterSpec(nameservers=2)
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=9)))
MASTER, SLAVE = "127.77.9.20:10911", "127.77.9.21:10911"
READY = ProcessState(is_alive=True, pid=7, ready={})
ALL_READY = {node.name: READY for node in NODES}


def routes(**addresses: str) -> dict[str, Any]:
    return {"routes": {"broker-a": {"cluster": "DefaultCluster", "addresses": addresses}}, "unserved": {}}


def broker(max_offset: int, *connections: dict[str, Any]) -> dict[str, Any]:
    return {"commit_log": {"min": 0, "max": max_offset}, "ha": {"connections": list(connections)}}


CONNECTION = {
    "address": "127.77.9.21:40000",
    "slave_ack_offset": 90,
    "diff": 10,
    "transferred_bytes_per_second": 5,
    "in_sync": True,
    "transfer_from_where": 100,
    "state": "TRANSFER",
}
WHOLE: dict[str, Facts] = {
    "namesrv-1": routes(**{"0": MASTER, "1": SLAVE}),
    "namesrv-2": routes(**{"0": MASTER, "1": SLAVE}),
    "broker-a": broker(100, CONNECTION),
    "broker-a-s": {"commit_log": {"min": 0, "max": 90}, "ha": {"master_address": MASTER, "connected": True}},
}


def document(facts: dict[str, Facts] | None = None, **states: ProcessState) -> Document:
    known = {name.replace("_", "-"): process for name, process in states.items()}
    head = {"name": "c", "namesrv_addr": "x", "rate": 1}
    return status_document(head, NODES, ALL_READY | known, WHOLE | (facts or {}), "/dir")


def holds(condition: str, status: Document) -> bool:
    return parse_condition(condition.split(), NODES).holds(status)


def test_replication_is_reported_with_the_labels_of_ha_status() -> None:
    assert document()["replication"] == [
        {
            "group": "broker-a",
            "master": "broker-a",
            "slave": "broker-a-s",
            "connected": True,
            "masterCommitLogMaxOffset": 100,
            "slaveCommitLogMaxOffset": 90,
            "lag": 10,
            "slaveAckOffset": 90,
            "diff": 10,
            "transferredByteInSecond": 5,
            "inSync": True,
            "transferFromWhere": 100,
            "state": "TRANSFER",
            "verdict": None,
            "trouble": None,
            "metadata": None,
        }
    ]


def test_reports_of_a_slave_are_found_by_its_id() -> None:
    """After a promotion by hand, the old master is the slave with id 1."""
    troubles = [{"broker_id": 2, "slave": "x", "text": "its disk fails"}, {"broker_id": 1, "text": "its disk is full"}]
    (row,) = document({"broker-a": {"ha": {"connections": [], "slave_troubles": troubles}}})["replication"]
    assert row["trouble"] == "its disk is full"


def test_values_missing_from_snapshots_are_unknown_and_never_a_number() -> None:
    (row,) = document({"broker-a": None, "namesrv-1": {}})["replication"]
    assert row["connected"] is None
    assert row["lag"] is None
    assert document({"namesrv-1": {}})["routes"]["namesrv-1"] is None


def test_a_slave_that_has_more_than_its_master_is_ahead() -> None:
    facts: dict[str, Facts] = {"broker-a": broker(80, CONNECTION), "broker-a-s": broker(90)}
    ahead = document(facts)
    assert ahead["replication"][0]["lag"] == -10
    assert holds("slave-caught-up broker-a", ahead)
    shown = io.StringIO()
    Console(file=shown, width=100).print(render_status(ahead))
    assert "commit log 0..90  ahead of its master by 10" in shown.getvalue()
    assert masters_behind(NODES, facts) == ["broker-a"]
    assert masters_behind(NODES, facts | {"broker-a": broker(90)}) == []
    assert masters_behind(NODES, facts | {"broker-a": None}) == []


def test_another_slaves_connection_is_not_taken_for_this_ones() -> None:
    stranger = CONNECTION | {"address": "127.77.9.99:1"}
    assert document({"broker-a": broker(100, stranger)})["replication"][0]["connected"] is False


def test_route_has_needs_every_nameserver_and_route_gone_too() -> None:
    assert holds("route-has broker-a:master", document())
    assert not holds("route-gone broker-a:master", document())
    split = document({"namesrv-2": routes(**{"1": SLAVE})})
    assert not holds("route-has broker-a:master", split)
    assert not holds("route-gone broker-a:master", split)
    gone = document({"namesrv-1": routes(**{"1": SLAVE}), "namesrv-2": {"routes": {}}})
    assert holds("route-gone broker-a:master", gone)
    assert holds("route-gone broker-a", gone)
    assert not holds("route-gone broker-a:slave", gone)


def test_a_nameserver_that_does_not_answer_leaves_routes_unknown() -> None:
    silent = document({"namesrv-2": None})
    assert not holds("route-has broker-a", silent)
    assert not holds("route-gone broker-a", silent)


def test_a_nameserver_that_does_not_run_has_no_say() -> None:
    dead = document({"namesrv-2": None}, namesrv_2=READY.ended(-9))
    assert holds("route-has broker-a", dead)


@pytest.mark.parametrize("condition", ["slave-caught-up broker-a", "slave-caught-up broker-a:slave"])
def test_caught_up_means_that_the_running_slaves_have_all(condition: str) -> None:
    assert not holds(condition, document())
    assert holds(condition, document({"broker-a": broker(90)}))
    assert not holds(condition, document({"broker-a": None}))
    assert not holds(condition, document({"broker-a": broker(90)}, broker_a_s=READY.ended(-9)))


def test_connected_is_what_the_master_sees() -> None:
    assert holds("slave-connected broker-a", document())
    assert not holds("slave-connected broker-a", document({"broker-a": broker(100)}))


def test_in_sync_is_what_the_master_sees_of_a_slave_that_has_reported() -> None:
    assert holds("slave-in-sync broker-a", document())
    assert not holds("slave-in-sync broker-a", document({"broker-a": broker(100, CONNECTION | {"in_sync": False})}))
    assert not holds("slave-in-sync broker-a", document({"broker-a": broker(100)}))


def test_states_are_judged_per_target() -> None:
    status = document(broker_a=READY.ended(-9), broker_a_s=attrs.evolve(READY, is_paused=True))
    assert holds("killed broker-a:master", status)
    assert holds("paused broker-a-s", status)
    assert holds("ready namesrv-2", status)
    assert not holds("ready", status)
    assert not is_cluster_ready(status)
    assert holds("ready", document())
    assert is_cluster_ready(document())


def metadata(topics: int, offsets: dict[str, Any], groups: int = 1) -> dict[str, Any]:
    return {"metadata_versions": {"topics": [7, topics], "groups": [7, groups]}, "consumer_offsets": offsets}


@pytest.mark.parametrize(
    ("slave", "expected"),
    [
        (metadata(3, {"orders@shop": {0: 5}}), True),
        (metadata(3, {"orders@shop": {0: 9}, "orders@own": {0: 1}}), True),
        (metadata(2, {"orders@shop": {0: 5}}), False),
        (metadata(3, {"orders@shop": {0: 5}}, groups=2), False),
        (metadata(3, {"orders@shop": {0: 4}}), False),
        (metadata(3, {"orders@shop": {1: 9}}), False),
        (metadata(3, {}), False),
        (metadata(3, {"orders@shop": {0: 5}, "...": 70}), False),
        ({"metadata_versions": 7, "consumer_offsets": {}}, False),
        (metadata(3, {"orders@shop": 5}), False),
        (None, False),
    ],
)
def test_metadata_is_synced_if_topics_groups_and_offsets_are(slave: Facts, expected: bool) -> None:  # noqa: FBT001
    """What is unknown, or left out of a snapshot, is never taken for synced."""
    master = metadata(3, {"orders@shop": {0: 5}})
    assert holds("metadata-synced broker-a", document({"broker-a": master, "broker-a-s": slave})) is expected


def test_the_status_names_the_tables_that_a_slave_has_not_copied() -> None:
    master, slave = metadata(3, {}), metadata(2, {})
    facts: dict[str, Facts] = {"broker-a": broker(80) | master, "broker-a-s": broker(80) | slave}
    console = Console(file=io.StringIO(), width=80)
    console.print(render_status(document(facts)))
    assert "not copied from its master: topics\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_topic_is_known_if_every_named_node_has_it() -> None:
    knows, other = {"topic_names": ["x", "orders"]}, {"topic_names": ["x"]}
    status = document({"broker-a": knows, "broker-a-s": other, "namesrv-1": knows, "namesrv-2": None})
    assert holds("topic-known broker-a:master orders", status)
    assert holds("topic-known namesrv-1 orders", status)
    assert not holds("topic-known broker-a-s orders", status)
    assert not holds("topic-known namesrv-2 orders", status)
    assert holds("topic-known broker-a-s x", status)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("topic-known broker-a", "topic-known needs a target and a topic, such as: topic-known broker-a-s orders"),
        ("topic-known broker-a orders more", "needs a target and a topic"),
        ("topic-known broker-a or/ders", "topic-known: topic 'or/ders' has a character other than"),
        ("metadata-synced", "metadata-synced needs one target"),
    ],
)
def test_an_invalid_metadata_condition_is_rejected(condition: str, text: str) -> None:
    with pytest.raises(UnknownConditionError, match=text):
        parse_condition(condition.split(), NODES)


@pytest.mark.parametrize("condition", ["", "redy", "route-gone", "ready broker-a broker-a-s"])
def test_an_invalid_condition_is_rejected(condition: str) -> None:
    with pytest.raises(UnknownConditionError):
        parse_condition(condition.split(), NODES)


@pytest.mark.parametrize(
    "condition", ["slave-caught-up", "slave-connected", "slave-in-sync", "route-has", "route-gone"]
)
def test_a_condition_impossible_for_its_target_is_rejected(condition: str) -> None:
    """Instead of being waited for in vain."""
    with pytest.raises(UnknownConditionError, match=f"namesrv-1 is a nameserver: {condition} needs a broker"):
        parse_condition([condition, "namesrv-1"], NODES)
    alone = ClusterSpec(slaves=0)
    nodes = nodes_of(alone, place(alone, Placement(subnet=9)))
    if condition.startswith("slave"):
        with pytest.raises(UnknownConditionError, match=f"broker-a has no slave: {condition} would never be true"):
            parse_condition([condition, "broker-a"], nodes)
    else:
        parse_condition([condition, "broker-a"], nodes)


def test_a_condition_with_an_unknown_target_is_rejected() -> None:
    with pytest.raises(UnknownTargetError, match="broker-a-s"):
        parse_condition(["ready", "broker-x"], NODES)


def test_status_shows_a_route_to_a_broker_that_is_not_there() -> None:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as capture:
        console.print(render_status(document({"broker-a": None}, broker_a=READY.ended(-9))))
    shown = capture.get()
    assert f"0={MASTER} (killed)" in shown
    assert "no haStatus: broker-a " in shown
    assert "?" not in shown.partition("no haStatus")[2].splitlines()[0]


STRANGE_FACTS: list[Facts] = [
    {"routes": 7, "commit_log": [], "ha": "x", "unserved": None},
    {"routes": {"a": 3, "b": {"addresses": []}}, "commit_log": {"max": "x"}, "ha": {"connections": {"a": 1}}},
    {"ha": {"connections": [7, None, {"address": 5}], "verdict": []}, "internal_errors": 3},
    {"routes": {f"{n:05} " + "x" * 4000: {"addresses": {"0": "y" * 4000}} for n in range(3000)}},
    {"topics": {n: dict.fromkeys(range(1000), "z" * 100) for n in range(1000)}},
]


@pytest.mark.parametrize("facts", STRANGE_FACTS)
def test_the_status_fits_into_a_reply_for_any_snapshot(facts: Facts) -> None:
    status = document({node.name: facts for node in NODES})
    assert len(COMMANDS.encode(CommandResult(status))) < MAX_MESSAGE
    for condition in ("route-has broker-a", "route-gone broker-a", "slave-caught-up broker-a", "ready"):
        assert holds(condition, status) in {True, False}


def test_truncated_routes_do_not_prove_that_a_route_is_missing() -> None:
    whole = routes(**{"1": SLAVE})
    cut = {"routes": {**whole["routes"], "...": 18_000}}
    assert holds("route-gone broker-a", document({"namesrv-1": whole, "namesrv-2": whole}))
    status = document({"namesrv-1": whole, "namesrv-2": cut})
    assert status["routes_left_out"] == {"namesrv-2": 18_000}
    assert not holds("route-gone broker-a", status)


def shown(status: Document) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_status({**status, "broker_settings": {}}))
    return console.export_text()


def test_a_broker_is_shown_as_what_it_is_and_what_was_planned_is_marked() -> None:
    """After request 25 `brokerRole`, or with a settings file that was edited."""
    other = {**(WHOLE["broker-a-s"] or {}), "role": "ASYNC_MASTER", "broker_id": 0}
    same = {**(WHOLE["broker-a"] or {}), "role": "ASYNC_MASTER", "broker_id": 0}
    status = document({"broker-a-s": other, "broker-a": same})
    nodes = {node["name"]: node for node in status["nodes"]}
    assert (nodes["broker-a-s"]["role"], nodes["broker-a-s"]["broker_id"]) == ("ASYNC_MASTER", 0)
    assert nodes["broker-a-s"]["planned"] == {"role": "SLAVE", "broker_id": 1}
    assert nodes["broker-a"]["planned"] is None
    assert "ASYNC_MASTER id 0, planned: SLAVE id 1" in shown(status)


def test_a_broker_that_does_not_answer_is_shown_as_planned() -> None:
    status = document({"broker-a-s": None})
    (slave,) = [node for node in status["nodes"] if node["name"] == "broker-a-s"]
    assert (slave["role"], slave["broker_id"], slave["planned"]) == ("SLAVE", 1, None)


def test_requests_of_5x_are_shown_with_what_a_real_broker_would_answer() -> None:
    facts = {**(WHOLE["broker-a"] or {}), "served_of_5x": {"10.0.0.7 361": 2}, "unserved": {}}
    text = shown(document({"broker-a": facts}))
    assert "a real 4.9.8 replies code 3" in text
    assert "broker-a: code 361 (LITE_PULL_MESSAGE) from 10.0.0.7, 2 times" in text


def test_a_broker_is_master_by_the_id_that_it_has_now() -> None:
    assert holds("is-master broker-a", document())
    assert not holds("is-master broker-a-s", document())
    taken_over = document({"broker-a": {"role": "SLAVE", "broker_id": 1}, "broker-a-s": {"broker_id": 0}})
    assert not holds("is-master broker-a", taken_over)
    assert holds("is-master broker-a-s", taken_over)
    with pytest.raises(UnknownConditionError, match="is-master needs a broker"):
        parse_condition(["is-master", "namesrv-1"], NODES)


def test_a_broker_that_does_not_run_is_no_master() -> None:
    status = document({"broker-a": None}, broker_a=ProcessState(exit_status=-9))
    judged = parse_condition(["is-master", "broker-a"], NODES)
    assert not judged.holds(status)
    assert judged.explain(status) == "broker-a is killed"


MEMBERS = ClusterSpec(mode="dledger", slaves=2)


def test_lists_of_peers_that_differ_are_shown() -> None:
    """Issue 16, "Bad input"."""
    nodes = nodes_of(MEMBERS, place(MEMBERS, Placement(subnet=9)))
    member = {"role": "FOLLOWER", "leader": None, "term": 1, "begin_index": -1, "end_index": -1, "committed_index": -1}
    faults: dict[str, Facts] = {"broker-a-n1": {"dledger": member | {"peer_faults": {"n2": "lists differ"}}}}
    ready = {node.name: READY for node in nodes}
    status = status_document({"name": "c", "namesrv_addr": "x", "rate": 1}, nodes, ready, faults, "/dir")
    shown = io.StringIO()
    Console(file=shown, width=100).print(render_status(status))
    assert "broker-a-n1: lists differ" in shown.getvalue()


@pytest.mark.parametrize(
    ("condition", "facts", "text"),
    [
        ("stopped broker-a", {}, "broker-a is ready"),
        ("ready", {}, ""),
        ("is-master broker-a-s", {}, "broker-a-s has broker id 1"),
        ("route-has broker-a:master", {"namesrv-2": {"routes": {}}}, f"namesrv-2 has no route to broker-a ({MASTER})"),
        ("route-has broker-a:master", {"namesrv-2": None}, "namesrv-2 does not respond"),
        (
            "route-gone broker-a:slave",
            {"namesrv-1": {"routes": {}}},
            f"namesrv-2 has a route to broker-a-s ({SLAVE})",
        ),
        ("slave-caught-up broker-a", {}, "broker-a-s is 10 bytes behind its master"),
        ("slave-caught-up broker-a", {"broker-a": None}, "broker-a-s has an unknown lag"),
        ("slave-connected broker-a", {"broker-a": broker(100)}, "broker-a-s is not connected to its master"),
        (
            "slave-in-sync broker-a",
            {"broker-a": broker(100, CONNECTION | {"in_sync": False})},
            "broker-a-s is not in sync",
        ),
        ("metadata-synced broker-a", {}, "broker-a-s has unknown metadata"),
        ("topic-known broker-a orders", {}, "broker-a has no topic orders"),
    ],
)
def test_values_that_contradict_a_condition_are_named(condition: str, facts: dict[str, Facts], text: str) -> None:
    judged = parse_condition(condition.split(), NODES)
    status = document(facts)
    assert judged.explain(status) == text
    assert judged.holds(status) == (not text)
