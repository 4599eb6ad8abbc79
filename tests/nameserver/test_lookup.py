"""Questions asked of a route table of two broker names in two clusters."""

import pytest

from rmqlab.nameserver.lookup import (
    cluster_info,
    find_route,
    system_topics,
    topics_of_cluster,
    unit_sub_topics,
    unit_sub_un_unit_topics,
    unit_topics,
)
from rmqlab.nameserver.route import Registration, RouteTable
from rmqlab.remoting.bodies.route import QueueData
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig

ORDERS = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)


def register(table: RouteTable, cluster: str, name: str, broker_id: int, host: str, *topics: TopicConfig) -> None:
    """Register a broker that listens at the usual port of a host."""
    broker = Registration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=f"{host}:10911",
        ha_address=None,
        data_version=DataVersion(),
        topics=topics,
    )
    table.register(broker, host, now=0.0)


@pytest.fixture
def table() -> RouteTable:
    table = RouteTable()
    register(table, "c1", "broker-a", 1, "slave-a", ORDERS)
    register(table, "c1", "broker-a", 0, "master-a", ORDERS, TopicConfig(topic_name="only-a"))
    register(table, "c2", "broker-b", 0, "master-b", ORDERS)
    return table


def test_a_route_lists_every_broker_name_with_all_its_addresses_by_id(table: RouteTable) -> None:
    """Section 4.7."""
    route = find_route(table, "orders")
    assert route is not None
    assert route.queue_datas == [
        QueueData(broker_name=name, perm=6, read_queue_nums=4, topic_sys_flag=0, write_queue_nums=4)
        for name in ("broker-b", "broker-a")
    ]
    assert [
        (broker.broker_name, broker.cluster, list(broker.broker_addrs.items())) for broker in route.broker_datas
    ] == [
        ("broker-b", "c2", [(0, "master-b:10911")]),
        ("broker-a", "c1", [(0, "master-a:10911"), (1, "slave-a:10911")]),
    ]


def test_a_route_is_a_copy_that_later_changes_do_not_reach(table: RouteTable) -> None:
    route = find_route(table, "orders")
    table.lose_connection("master-a", "")
    assert route is not None
    assert route.broker_datas[1].broker_addrs[0] == "master-a:10911"


def test_a_topic_whose_broker_names_are_all_gone_has_no_route(table: RouteTable) -> None:
    """Section 4.7."""
    table.brokers.clear()
    assert find_route(table, "orders") is None
    assert find_route(RouteTable(), "orders") is None


def test_the_cluster_as_a_whole(table: RouteTable) -> None:
    """remoting#19."""
    info = cluster_info(table)
    assert info.cluster_addr_table == {"c1": ["broker-a"], "c2": ["broker-b"]}
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: "master-a:10911", 1: "slave-a:10911"}


def test_topics_are_listed_by_cluster(table: RouteTable) -> None:
    """remoting#20."""
    assert topics_of_cluster(table, "c1") == ["orders", "only-a"]
    assert topics_of_cluster(table, "c2") == ["orders"]
    assert topics_of_cluster(table, "no such cluster") == []


def test_system_topics_are_named_like_clusters_and_brokers(table: RouteTable) -> None:
    """remoting#20."""
    assert system_topics(table) == (["c1", "broker-a", "c2", "broker-b"], "slave-a:10911")
    assert system_topics(RouteTable()) == ([], None)


def test_the_first_broker_name_of_a_topic_speaks_for_its_unit_bits(table: RouteTable) -> None:
    """remoting#20."""
    flags = [TopicConfig(topic_name=f"flag{flag}", topic_sys_flag=flag) for flag in range(4)]
    register(table, "c1", "broker-c", 0, "master-c", *flags)
    register(table, "c1", "broker-a", 0, "master-a", TopicConfig(topic_name="flag0", topic_sys_flag=3))
    assert unit_topics(table) == ["flag1", "flag3"]
    assert unit_sub_topics(table) == ["flag2", "flag3"]
    assert unit_sub_un_unit_topics(table) == ["flag2"]
