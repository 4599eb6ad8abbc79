"""The route table: RocketMQ's rules of section 4 of the reference, one by one."""

from collections.abc import Callable

import attrs
import pytest

from rmqlab.nameserver.changes import BrokerChange, BrokerChangeKind, QueueChange
from rmqlab.nameserver.lookup import find_route
from rmqlab.nameserver.route import RouteTable
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig
from tests.nameserver.registrations import (
    EIGHT_ORDERS,
    MASTER,
    MOVED,
    ORDERS,
    OTHER,
    SLAVE,
    TEMPLATE,
    addresses,
    connection_of,
    pair,
    queue_data,
    register,
)

# -- registration --------------------------------------------------------------------------------


def test_a_slave_that_registers_first_is_listed_but_gives_its_topics_no_route() -> None:
    """remoting#24."""
    table = RouteTable()
    reply = register(table, SLAVE)
    assert (reply.master_address, reply.master_ha_address) == (None, None)
    assert list(table.clusters["DefaultCluster"]) == ["broker-a"]
    assert table.brokers["broker-a"].addresses == {1: SLAVE.address}
    assert find_route(table, "orders") is None


def test_a_slave_gets_its_master_after_its_registration() -> None:
    """remoting#25."""
    table = RouteTable()
    register(table, SLAVE)
    assert register(table, MASTER)[:2] == (None, None)
    assert register(table, SLAVE)[:2] == (MASTER.address, MASTER.ha_address)


def test_a_slave_receives_no_address_of_a_master_that_is_not_live() -> None:
    """remoting#25: an old master's leave frees the live entry of its own address only."""
    table = pair()
    del table.live[MASTER.address]
    assert register(table, SLAVE)[:2] == (None, None)


def test_an_unchanged_data_version_touches_no_topic() -> None:
    """remoting#26: not even one that the table lost, or that the broker gained."""
    table = pair()
    table.delete_topic("orders", None)
    more = attrs.evolve(MASTER, topics=[TEMPLATE, ORDERS, TopicConfig(topic_name="new")])
    assert register(table, more).changes == []
    assert set(table.queues) == {"TBW102"}


def test_a_new_data_version_upserts_what_is_listed_and_keeps_what_is_not() -> None:
    """remoting#26."""
    table = pair()
    moved = attrs.evolve(MASTER, data_version=MOVED, topics=[EIGHT_ORDERS])
    assert register(table, moved).changes == [
        QueueChange(broker_name="broker-a", topics=("orders",), reason="registered")
    ]
    assert table.queues == {
        "TBW102": {"broker-a": queue_data("broker-a", TEMPLATE)},
        "orders": {"broker-a": queue_data("broker-a", EIGHT_ORDERS)},
    }


def test_an_incremental_registration_seen_first_hides_the_other_topics_until_the_version_moves() -> None:
    """Section 4.2, a flaw of 4.9 that we keep: the stored version looks complete."""
    table = RouteTable()
    register(table, attrs.evolve(MASTER, topics=[ORDERS]))
    register(table, MASTER)
    assert set(table.queues) == {"orders"}


def test_a_slaves_registration_never_writes_queues() -> None:
    table = pair()
    register(table, attrs.evolve(SLAVE, data_version=MOVED, topics=[TopicConfig(topic_name="slave-only")]))
    assert "slave-only" not in table.queues


def test_an_address_under_a_new_id_leaves_its_old_id() -> None:
    """remoting#27: a slave that was made master."""
    table = pair()
    promoted = attrs.evolve(SLAVE, broker_id=0)
    [change] = register(table, promoted).changes
    assert isinstance(change, BrokerChange)
    assert (change.reason, change.remaining) == ("was broker id 1", {0: SLAVE.address})
    assert table.brokers["broker-a"].addresses == {0: SLAVE.address}


def test_the_last_of_two_masters_of_one_name_wins_and_the_route_flips_with_each_heartbeat() -> None:
    table = pair()
    rival = attrs.evolve(MASTER, address="10.0.0.9:10911")
    for broker, former in [(rival, MASTER), (MASTER, rival), (rival, MASTER)]:
        [change] = register(table, broker).changes
        assert isinstance(change, BrokerChange)
        assert change.reason == f"replaces {former.address}"
        assert addresses(table)["broker-a"][0] == broker.address


def test_a_broker_name_keeps_its_first_cluster_and_is_listed_in_both() -> None:
    """Section 4.2, step 2."""
    table = pair()
    register(table, attrs.evolve(MASTER, cluster="other"))
    assert table.brokers["broker-a"].cluster == "DefaultCluster"
    assert {name: list(members) for name, members in table.clusters.items()} == {
        "DefaultCluster": ["broker-a"],
        "other": ["broker-a"],
    }


def test_filter_servers_are_stored_left_and_removed() -> None:
    """Section 4.2, step 7."""
    table = pair()
    register(table, attrs.evolve(MASTER, filter_servers=["10.0.0.1:5000"]))
    register(table, MASTER)
    route = find_route(table, "orders")
    assert route is not None
    assert route.filter_server_table == {MASTER.address: ["10.0.0.1:5000"]}
    register(table, attrs.evolve(MASTER, filter_servers=[]))
    assert table.filter_servers == {}


@pytest.mark.parametrize(
    "remove",
    [
        lambda table: table.unregister(MASTER.cluster, MASTER.address, MASTER.broker_name, MASTER.broker_id),
        lambda table: table.lose_connection(connection_of(MASTER), "10.0.0.1:40000"),
        lambda table: table.expire(now=121.0),
    ],
    ids=["unregistered", "connection lost", "expired"],
)
def test_filter_servers_go_with_their_broker(remove: Callable[[RouteTable], object]) -> None:
    table = pair()
    register(table, attrs.evolve(MASTER, filter_servers=["10.0.0.1:5000"]))
    remove(table)
    assert table.filter_servers == {}


@pytest.mark.parametrize("version", [DataVersion(timestamp=2000, counter=1), DataVersion(timestamp=1000, counter=2)])
def test_a_data_version_that_differs_in_any_member_brings_its_topics(version: DataVersion) -> None:
    """remoting#26."""
    table = pair()
    register(table, attrs.evolve(MASTER, data_version=version, topics=[TopicConfig(topic_name="new")]))
    assert find_route(table, "new") is not None


def test_heartbeats_that_change_nothing_are_no_changes() -> None:
    table = pair()
    assert register(table, MASTER, now=30.0).changes == []
    assert register(table, SLAVE, now=30.0).changes == []


# -- data version --------------------------------------------------------------------------------


def test_only_an_unchanged_data_version_counts_as_a_heartbeat() -> None:
    """remoting#29."""
    table = pair()
    version = MASTER.data_version
    assert table.query_data_version(MASTER.address, version, now=100.0) == (False, version)
    assert table.query_data_version(SLAVE.address, MOVED, now=100.0) == (True, version)
    assert table.query_data_version("10.9.9.9:10911", version, now=100.0) == (True, None)
    assert {address: live.seen_at for address, live in table.live.items()} == {
        MASTER.address: 100.0,
        SLAVE.address: 0.0,
    }


# -- removal -------------------------------------------------------------------------------------


def test_a_lost_master_leaves_at_once_and_its_topics_stay_with_the_slave() -> None:
    """remoting#30."""
    table = pair()
    [change] = table.lose_connection(connection_of(MASTER), "10.0.0.1:40000")
    assert change == BrokerChange(
        kind=BrokerChangeKind.CONNECTION_LOST,
        cluster="DefaultCluster",
        broker_name="broker-a",
        broker_id=0,
        address=MASTER.address,
        reason="connection lost",
        remaining={1: SLAVE.address},
    )
    assert addresses(table) == {"broker-a": {1: SLAVE.address}}
    assert table.queues["orders"]["broker-a"] == queue_data("broker-a", ORDERS)


def test_the_last_lost_connection_removes_name_cluster_and_topics() -> None:
    """remoting#31."""
    table = pair()
    register(table, attrs.evolve(OTHER, cluster="other"))
    table.lose_connection(connection_of(MASTER), "")
    gone = table.lose_connection(connection_of(SLAVE), "")
    assert gone[1:] == [QueueChange(broker_name="broker-a", topics=("TBW102", "orders"), reason="connection lost")]
    assert list(table.brokers) == ["broker-b"]
    assert list(table.clusters) == ["other"]
    assert table.queues == {"orders": {"broker-b": queue_data("broker-b", ORDERS)}}


def test_the_late_close_of_a_superseded_connection_changes_nothing() -> None:
    """remoting#32."""
    table = pair()
    register(table, MASTER, connection="newer")
    assert table.lose_connection(connection_of(MASTER), "10.0.0.1:40000") == []
    assert addresses(table) == {"broker-a": {0: MASTER.address, 1: SLAVE.address}}


def test_a_lost_client_removes_no_broker_unless_its_address_is_registered() -> None:
    """Section 4.9, step 1."""
    table = pair()
    assert table.lose_connection("a client", "10.0.0.7:40000") == []
    [change] = table.lose_connection("a stranger", SLAVE.address)
    assert isinstance(change, BrokerChange)
    assert change.address == SLAVE.address


def test_a_name_in_two_clusters_leaves_only_the_first_of_them_when_it_is_lost() -> None:
    table = RouteTable()
    register(table, MASTER)
    register(table, attrs.evolve(MASTER, cluster="other"))
    table.lose_connection(connection_of(MASTER), "")
    assert {name: list(members) for name, members in table.clusters.items()} == {"other": ["broker-a"]}
    assert table.brokers == {}


def test_a_broker_is_dropped_after_more_than_its_time_not_at_it() -> None:
    """remoting#33."""
    table = RouteTable()
    register(table, MASTER, now=0.0)
    register(table, SLAVE, now=1.0)
    assert table.expire(now=120.0) == ([], [])
    connections, [change] = table.expire(now=120.5)
    assert connections == [connection_of(MASTER)]
    assert isinstance(change, BrokerChange)
    assert (change.kind, change.reason) == (BrokerChangeKind.EXPIRED, "no registration for 120.5 s")
    assert addresses(table) == {"broker-a": {1: SLAVE.address}}
    assert table.lose_connection(connections[0], "10.0.0.1:40000") == []


def test_an_expired_broker_that_registers_again_brings_its_topics_back() -> None:
    """remoting#35: the re-registration is a first one."""
    table = RouteTable()
    register(table, MASTER)
    table.expire(now=121.0)
    assert table.queues == {}
    register(table, MASTER, now=130.0)
    assert set(table.queues) == {"TBW102", "orders"}


def test_unregistering_is_idempotent() -> None:
    """remoting#34."""
    table = pair()
    leave = (MASTER.cluster, MASTER.address, MASTER.broker_name, MASTER.broker_id)
    [change] = table.unregister(*leave)
    assert isinstance(change, BrokerChange)
    assert (change.kind, change.address) == (BrokerChangeKind.UNREGISTERED, MASTER.address)
    assert table.unregister(*leave) == []
    assert table.unregister("nowhere", "1.1.1.1:1", "broker-z", 0) == []
    assert addresses(table) == {"broker-a": {1: SLAVE.address}}


def test_the_last_unregistration_removes_name_cluster_and_topics() -> None:
    table = pair()
    table.unregister(MASTER.cluster, MASTER.address, MASTER.broker_name, 0)
    table.unregister(SLAVE.cluster, SLAVE.address, SLAVE.broker_name, 1)
    assert (table.brokers, table.clusters, table.queues, table.live) == ({}, {}, {}, {})


def test_a_broker_leaves_without_a_topic_that_was_deleted_before() -> None:
    table = pair()
    table.delete_topic("orders", None)
    table.unregister(SLAVE.cluster, SLAVE.address, SLAVE.broker_name, 1)
    *_, change = table.unregister(MASTER.cluster, MASTER.address, MASTER.broker_name, 0)
    assert isinstance(change, QueueChange)
    assert change.topics == ("TBW102",)
    assert table.queues == {}


def test_a_stale_masters_leave_removes_the_newer_master() -> None:
    """Section 4.4, step 2: the id is freed without a look at the address."""
    table = pair()
    newer = attrs.evolve(MASTER, address="10.0.0.9:10911")
    register(table, newer)
    [change] = table.unregister(MASTER.cluster, MASTER.address, "broker-a", 0)
    assert isinstance(change, BrokerChange)
    assert (change.address, change.reason) == (newer.address, f"unregistered by {MASTER.address}")
    assert addresses(table) == {"broker-a": {1: SLAVE.address}}
    assert newer.address in table.live


# -- administration ------------------------------------------------------------------------------


def test_a_topic_is_deleted_at_the_brokers_of_one_cluster_only() -> None:
    """remoting#35."""
    table = pair()
    register(table, attrs.evolve(OTHER, cluster="other"))
    assert table.delete_topic("orders", "no such cluster") == []
    assert table.delete_topic("no such topic", "other") == []
    table.delete_topic("orders", "other")
    assert table.queues["orders"] == {"broker-a": queue_data("broker-a", ORDERS)}
    table.delete_topic("orders", "DefaultCluster")
    assert "orders" not in table.queues


@pytest.mark.parametrize("cluster", [None, ""])
def test_a_topic_is_deleted_everywhere_without_a_cluster(cluster: str | None) -> None:
    table = pair()
    register(table, attrs.evolve(OTHER, cluster="other"))
    table.delete_topic("orders", cluster)
    assert "orders" not in table.queues
    assert table.delete_topic("orders", cluster) == []


def test_a_deleted_topic_returns_with_a_new_version_or_registration() -> None:
    """remoting#35."""
    for back in (
        lambda table: register(table, attrs.evolve(MASTER, data_version=MOVED)),
        lambda table: (table.lose_connection(connection_of(MASTER), ""), register(table, MASTER)),
    ):
        table = pair()
        table.delete_topic("orders", "DefaultCluster")
        register(table, MASTER)
        assert find_route(table, "orders") is None
        back(table)
        assert find_route(table, "orders") is not None


def test_wiping_clears_the_write_bit_and_adding_sets_exactly_read_and_write() -> None:
    """remoting#36: the inherit bit of a template topic is lost on the way, as in 4.9."""
    table = pair()
    count, changes = table.wipe_write_perm("broker-a")
    assert (count, {topic: by["broker-a"].perm for topic, by in table.queues.items()}) == (
        2,
        {"TBW102": 5, "orders": 4},
    )
    assert changes == [QueueChange(broker_name="broker-a", topics=("TBW102", "orders"), reason="write perm wiped")]
    assert table.wipe_write_perm("broker-a") == (2, [])
    assert table.add_write_perm("broker-a")[0] == 2
    assert {topic: by["broker-a"].perm for topic, by in table.queues.items()} == {"TBW102": 6, "orders": 6}
    assert table.wipe_write_perm("broker-z") == (0, [])


def test_a_wiped_permission_stays_wiped_through_heartbeats() -> None:
    table = pair()
    table.wipe_write_perm("broker-a")
    register(table, MASTER)
    assert table.queues["orders"]["broker-a"].perm == 4
