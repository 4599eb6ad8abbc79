"""Brokers that tests register, and how."""

import sys

import attrs

from rmqlab.nameserver.lookup import find_route
from rmqlab.nameserver.route import Registered, Registration, RouteTable
from rmqlab.remoting.bodies.route import QueueData
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig

TEMPLATE = TopicConfig(topic_name="TBW102", read_queue_nums=8, write_queue_nums=8, perm=7)
ORDERS = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)
EIGHT_ORDERS = TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8)
MOVED = DataVersion(timestamp=2000, counter=2)

MASTER = Registration(
    cluster="DefaultCluster",
    broker_name="broker-a",
    broker_id=0,
    address="10.0.0.1:10911",
    ha_address="10.0.0.1:10912",
    data_version=DataVersion(timestamp=1000, counter=1),
    topics=[TEMPLATE, ORDERS],
)
SLAVE = attrs.evolve(MASTER, broker_id=1, address="10.0.0.2:10911", ha_address="10.0.0.2:10912")
OTHER = attrs.evolve(
    MASTER,
    broker_name="broker-b",
    address="10.0.0.3:10911",
    ha_address="10.0.0.3:10912",
    topics=[ORDERS],
)


def queue_data(broker_name: str, topic: TopicConfig) -> QueueData:
    """Give the queues of a topic at a broker name as a route has them."""
    return QueueData(
        broker_name=broker_name,
        perm=topic.perm,
        read_queue_nums=topic.read_queue_nums,
        topic_sys_flag=topic.topic_sys_flag,
        write_queue_nums=topic.write_queue_nums,
    )


def connection_of(broker: Registration) -> str:
    """Return the connection of an address; connections differ by identity."""
    return sys.intern(f"connection of {broker.address}")


def register(table: RouteTable, broker: Registration, *, now: float = 0.0, connection: object = None) -> Registered:
    """Take one heartbeat of a broker."""
    return table.register(broker, connection or connection_of(broker), now=now)


def pair() -> RouteTable:
    """Give a table that knows a master and its slave."""
    table = RouteTable()
    register(table, MASTER)
    register(table, SLAVE)
    return table


def addresses(table: RouteTable, topic: str = "orders") -> dict[str, dict[int, str]]:
    """Give the addresses in a topic's route, by broker name."""
    route = find_route(table, topic)
    return {} if route is None else {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
