import tomllib
from pathlib import Path
from typing import Any

import pytest

from rmqlab.cluster.supervisor.plan.nodesettings import node_settings, toml_text
from rmqlab.cluster.supervisor.plan.specs import check_spec
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import (
    BROKER_SLOTS,
    MORE_BROKER_SLOTS,
    ClusterSpec,
    Placement,
    UnknownTargetError,
    group_name,
    namesrv_addr,
    node_names,
    nodes_of,
    place,
    workload_host,
)

SPEC = ClusterSpec(groups=2, slaves=2, nameservers=2, role="SYNC_MASTER")
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=5)))


def test_nodes_are_listed_in_the_order_in_which_they_start() -> None:
    assert [node.name for node in NODES] == [
        *("namesrv-1", "namesrv-2"),
        *("broker-a", "broker-b"),
        *("broker-a-s", "broker-b-s", "broker-a-s2", "broker-b-s2"),
    ]


def test_every_node_has_an_address_of_its_own_with_standard_ports() -> None:
    by_name = {node.name: node for node in NODES}
    assert by_name["namesrv-1"].address == "127.77.5.1:9876"
    assert by_name["broker-a"].address == "127.77.5.20:10911"
    assert by_name["broker-a"].ha_address == "127.77.5.20:10912"
    assert by_name["broker-a"].listen_ports == (10909, 10911, 10912)
    assert by_name["namesrv-1"].ha_address is None
    assert len({node.host for node in NODES}) == len(NODES)


def test_nodes_at_a_single_address_never_share_a_port() -> None:
    nodes = nodes_of(SPEC, place(SPEC, Placement(subnet=None, shift=500)))
    ports = [port for node in nodes for port in node.listen_ports]
    assert {node.host for node in nodes} == {"127.0.0.1"}
    assert len(set(ports)) == len(ports)
    assert nodes[0].port == 9876 + 500


def test_a_node_keeps_its_address_when_the_cluster_grows_or_shrinks() -> None:
    small = place(ClusterSpec(), Placement(subnet=1))
    grown = place(SPEC, small)
    again = place(ClusterSpec(), grown)
    assert {name: grown.slots[name] for name in small.slots} == dict(small.slots)
    assert again == grown


def test_more_nodes_than_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match=f"room for {len(BROKER_SLOTS) + len(MORE_BROKER_SLOTS)}"):
        place(ClusterSpec(groups=700), Placement(subnet=1))
    with pytest.raises(ValueError, match="nameservers: a cluster has room for 19"):
        place(ClusterSpec(nameservers=19, added=("namesrv-20",)), Placement(subnet=1))


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        ({"nameservers": 20}, "nameservers = 20: expected 1 to 19"),
        ({"groups": 1233}, "groups = 1233: expected 1 to 1232"),
        ({"slaves": 1232}, "slaves = 1232: expected 0 to 1231"),
    ],
)
def test_the_bounds_of_counts_are_what_a_cluster_has_addresses_for(counts: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ClusterSpec(**counts)
    largest = ClusterSpec(**{"slaves": 0, **{name: count - 1 for name, count in counts.items()}})
    assert len(place(largest, Placement(subnet=1)).slots) == sum(map(len, node_names(largest)))


def test_groups_beyond_z_get_two_letters() -> None:
    assert [group_name(index) for index in (0, 25, 26, 701, 702)] == [
        *("broker-a", "broker-z", "broker-aa", "broker-zz", "broker-aaa"),
    ]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("broker-a", ["broker-a"]),
        ("broker-a:master", ["broker-a"]),
        ("broker-a:slave", ["broker-a-s", "broker-a-s2"]),
        ("broker-a-s", ["broker-a-s"]),
        ("broker-b-s2", ["broker-b-s2"]),
        ("namesrv-1", ["namesrv-1"]),
        ("broker-a:*", ["broker-a", "broker-a-s", "broker-a-s2"]),
        ("broker-b-s,broker-b:slave namesrv-2", ["broker-b-s", "broker-b-s2", "namesrv-2"]),
    ],
)
def test_targets_are_found_by_name_and_by_role(target: str, names: list[str]) -> None:
    assert [node.name for node in find_targets(target, NODES)] == names


@pytest.mark.parametrize(
    "target",
    ["broker-c", "broker-a:leader", "namesrv-1:master", "", ":", "broker-a-s:slave", "broker-a,x", "namesrv:*"],
)
def test_an_unknown_target_lists_what_exists(target: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        find_targets(target, NODES)
    assert "namesrv-1, namesrv-2, broker-a, broker-b, broker-a-s" in str(caught.value)
    assert "broker-b:slave" in str(caught.value)


def test_a_role_that_no_member_has_is_explained_by_the_roles_of_the_members() -> None:
    nodes = nodes_of(spec := ClusterSpec(slaves=0), place(spec, Placement(subnet=5)))
    with pytest.raises(UnknownTargetError, match=r"broker-a has no slave: broker-a is a master$"):
        find_targets("broker-a:slave", nodes)


def test_settings_of_a_slave_name_its_group_and_all_nameservers() -> None:
    slave = find_targets("broker-b-s2", NODES)[0]
    settings = tomllib.loads(toml_text(node_settings(SPEC, slave, NODES, Path('/tmp/a "quoted" place'))))
    assert settings["broker_name"] == "broker-b"
    assert (settings["broker_id"], settings["broker_role"]) == (2, "SLAVE")
    assert settings["namesrv_addr"] == namesrv_addr(NODES) == "127.77.5.1:9876;127.77.5.2:9876"
    assert settings["store_path_root_dir"] == '/tmp/a "quoted" place/store'
    assert settings["broker_ip1"] == settings["listen_address"] == slave.host


def test_settings_given_by_the_user_win() -> None:
    spec = ClusterSpec(broker_settings={"flush_disk_type": "SYNC_FLUSH", "slave_read_enable": True})
    nodes = nodes_of(spec, place(spec, Placement(subnet=1)))
    settings = node_settings(spec, find_targets("broker-a", nodes)[0], nodes, Path("/x"))
    assert (settings["flush_disk_type"], settings["slave_read_enable"]) == ("SYNC_FLUSH", True)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ClusterSpec(slaves=1, broker_settings={"in_sync_replicas": 3}), "a group has 2 logs"),
        (ClusterSpec(broker_settings={"listen_port": 1}), "listen_port: each node has its own"),
        (ClusterSpec(broker_settings={"broker_role": "SLAVE"}), "say --role"),
    ],
)
def test_incompatible_cluster_settings_are_rejected(spec: ClusterSpec, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_spec(spec)


def test_as_many_replicas_in_sync_as_there_are_logs_can_be_asked_for() -> None:
    check_spec(ClusterSpec(slaves=2, broker_settings={"in_sync_replicas": 3}))


@pytest.mark.parametrize(("typed", "meant"), [("brokera:master", "broker-a:master"), ("brokr-b", "broker-b")])
def test_a_target_that_is_nearly_one_is_named(typed: str, meant: str) -> None:
    with pytest.raises(UnknownTargetError, match=f"no node '{typed}' here; .*; did you mean {meant}"):
        find_targets(typed, NODES)


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a b", "x" * 65])
def test_a_cluster_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cluster name"):
        ClusterSpec(name=name)


def test_workloads_speak_from_addresses_that_no_node_has() -> None:
    hosts = {workload_host(Placement(subnet=5), index) for index in range(14)}
    assert len(hosts) == 14
    assert not hosts & {node.host for node in NODES}


def test_a_profile_reaches_the_brokers_and_keys_set_by_hand_beside_it() -> None:
    spec = ClusterSpec(profile="hardened", broker_settings={"in_sync_replicas": 3})
    placement = place(spec, Placement(subnet=1))
    nodes = nodes_of(spec, placement)
    for node in nodes[1:]:
        settings = node_settings(spec, node, nodes, Path("/x"))
        assert (settings["profile"], settings["in_sync_replicas"]) == ("hardened", 3)
    assert "profile" not in node_settings(spec, nodes[0], nodes, Path("/x"))
    assert "profile" not in node_settings(ClusterSpec(), nodes[1], nodes, Path("/x"))


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({}, "4.9"),
        ({"profile": "hardened"}, "hardened"),
        ({"broker_settings": {"profile": "hardened"}}, "hardened"),
        ({"profile": "hardened", "broker_settings": {"profile": "4.9"}}, "4.9"),
        ({"profile": "hardened", "node_settings": {"broker-a-s": {"profile": "4.9"}}}, "4.9"),
        ({"profile": "hardened", "node_settings": {"broker-a-s": {"profile": "hardened"}}}, "hardened"),
    ],
)
def test_judges_read_the_profile_that_all_brokers_have(changes: dict[str, Any], profile: str) -> None:
    assert ClusterSpec(**changes).common_profile == profile
