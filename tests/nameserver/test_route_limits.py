"""What a route table holds at most, and what its changes cost (issue 12.6)."""

import sys
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.nameserver import queuetable, route
from rmqlab.nameserver.limits import RouteTableFullError
from rmqlab.nameserver.route import Registration, RouteTable
from rmqlab.remoting.bodies.topic import TopicConfig
from tests.nameserver.registrations import MASTER, MOVED, OTHER, SLAVE, connection_of, pair, register

if TYPE_CHECKING:
    from _collections_abc import dict_items


def set_limit(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """Change a limit in the modules that check it."""
    users = [module for module in (route, queuetable) if hasattr(module, limit)]
    assert users
    for module in users:
        monkeypatch.setattr(module, limit, value)


@pytest.mark.parametrize(
    ("limit", "value", "fresh"),
    [
        ("MAX_BROKER_NAMES", 1, OTHER),
        ("MAX_ADDRESSES", 1, SLAVE),
        ("MAX_IDS", 1, SLAVE),
        ("MAX_CLUSTERS", 1, attrs.evolve(OTHER, cluster="C")),
        ("MAX_MEMBERSHIPS", 1, OTHER),
        ("MAX_QUEUE_DATA", 2, OTHER),
        ("MAX_FILTER_SERVERS", 1, attrs.evolve(OTHER, filter_servers=["a:1", "b:2"])),
        ("MAX_NAME_SIZE", 20, attrs.evolve(OTHER, cluster="C" * 21)),
        ("MAX_NAME_SIZE", 20, attrs.evolve(OTHER, topics=[TopicConfig(topic_name="T" * 21)])),
        ("MAX_NAME_SIZE", 20, attrs.evolve(OTHER, filter_servers=["a" * 21])),
    ],
)
def test_a_full_table_rejects_new_entries_and_stays_unchanged(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, fresh: Registration
) -> None:
    table = RouteTable()
    register(table, MASTER)
    set_limit(monkeypatch, limit, value)
    before = repr(table)
    with pytest.raises(RouteTableFullError):
        register(table, fresh)
    assert repr(table) == before
    register(table, attrs.evolve(MASTER, data_version=MOVED), now=1.0)  # a registered broker may renew its entries
    assert table.live[MASTER.address].seen_at == 1.0


def test_an_unregistered_broker_frees_space_in_a_full_table(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limit(monkeypatch, "MAX_QUEUE_DATA", 2)
    table = RouteTable()
    for _ in range(3):
        register(table, MASTER)
        table.unregister(MASTER.cluster, MASTER.address, MASTER.broker_name, MASTER.broker_id)
    register(table, MASTER)
    table.delete_topic("orders", None)
    register(table, OTHER)
    table.delete_topic("orders", OTHER.cluster)
    assert table._queue_table._topics_of == {"broker-a": {"TBW102": None}}


def test_very_many_silent_brokers_expire_in_several_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.nameserver.route.MAX_EXPIRED_AT_ONCE", 2)
    table = RouteTable()
    for broker in (MASTER, SLAVE, OTHER):
        register(table, broker)
    assert [len(table.expire(now=200.0)[0]) for _ in range(3)] == [2, 1, 0]


class CountedAddresses(dict[int, str]):
    """Addresses of a broker name; counts how often all of them are read."""

    reads = 0

    def items(self) -> "dict_items[int, str]":
        """Read all."""
        CountedAddresses.reads += 1
        return super().items()


def test_a_closed_connection_costs_nothing_for_brokers_that_are_not_behind_it() -> None:
    table = pair()
    register(table, OTHER)
    for broker in table.brokers.values():
        broker.addresses = CountedAddresses(broker.addresses)
    CountedAddresses.reads = 0
    for port in range(100):
        assert table.lose_connection(object(), f"10.0.0.9:{port}") == []
    assert CountedAddresses.reads == 0
    assert len(table.lose_connection(connection_of(OTHER), "")) == 2  # the broker, its queues


def test_the_reverse_indexes_forget_what_the_table_forgets() -> None:
    table = pair()
    register(table, attrs.evolve(MASTER, broker_id=5), connection="another")
    register(table, attrs.evolve(SLAVE, address="10.0.0.8:1"))
    register(table, attrs.evolve(OTHER, address=SLAVE.address))
    table.unregister("DefaultCluster", MASTER.address, "broker-a", 5)
    table.lose_connection(sys.intern("connection of 10.0.0.8:1"), "")
    table.lose_connection(connection_of(SLAVE), "")
    assert not table.brokers
    assert not table.live
    assert len(table._registered_by) == len(table._names_at) == 0


def test_topic_names_of_a_table_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limit(monkeypatch, "MAX_TOPIC_CHARACTERS", 20)
    table = pair()
    more = attrs.evolve(OTHER, topics=[TopicConfig(topic_name="x" * 9)])
    with pytest.raises(RouteTableFullError, match="characters"):
        register(table, more)
    table.delete_topic("orders", None)
    register(table, more)
    assert "x" * 9 in table.queues
