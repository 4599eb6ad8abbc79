"""Queries of the route table: routes, clusters, lists of topics.

Source: remoting-and-nameserver sections 3.10, 3.11, 4.7; class RouteInfoManager.
"""

from collections.abc import Callable

from rmqlab.nameserver.entries import BrokerName
from rmqlab.nameserver.javaorder import in_java_order
from rmqlab.nameserver.route import RouteTable
from rmqlab.remoting.bodies.route import BrokerData, ClusterInfo, TopicRouteData

UNIT = 1
"""Bit of a topic's system flag: the topic belongs to one unit."""
UNIT_SUB = 2
"""Bit of a topic's system flag: other units subscribe to it."""


def find_route(table: RouteTable, topic: str) -> TopicRouteData | None:
    """Return the route of a topic; None if none of its broker names is known.

    A broker name with only a slave left stays in the route, its queues still writable: producers skip it because it
    has no id 0, and consumers continue to read from the slave (remoting#30).
    """
    queues = table.queues.get(topic)
    if not queues:
        return None
    names = in_java_order(queues)
    brokers = [broker for name in names if (broker := table.brokers.get(name)) is not None]
    if not brokers:
        return None
    filter_servers: dict[str, list[str]] = {}
    if table.filter_servers:
        addresses = (address for broker in brokers for address in broker.addresses.values())
        filter_servers = {a: servers for a in addresses if (servers := table.filter_servers.get(a)) is not None}
    return TopicRouteData(
        broker_datas=list(map(_broker_data, brokers)),
        filter_server_table=filter_servers,
        queue_datas=[queues[name] for name in names],
    )


def cluster_info(table: RouteTable) -> ClusterInfo:
    """Return all clusters, and all broker names with their addresses (remoting#19)."""
    return ClusterInfo(
        broker_addr_table={name: _broker_data(broker) for name, broker in table.brokers.items()},
        cluster_addr_table={cluster: list(members) for cluster, members in table.clusters.items()},
    )


def _broker_data(broker: BrokerName) -> BrokerData:
    addresses = dict(sorted(broker.addresses.items()))
    return BrokerData(broker_addrs=addresses, broker_name=broker.broker_name, cluster=broker.cluster)


def topics_of_cluster(table: RouteTable, cluster: str | None) -> list[str]:
    """Return the topics with queues at any broker name of a cluster.

    Empty for an unknown cluster.
    """
    names = {} if cluster is None else table.clusters.get(cluster, {})
    return [topic for topic, by_name in table.queues.items() if not names.keys().isdisjoint(by_name)]


def system_topics(table: RouteTable) -> tuple[list[str], str | None]:
    """Return the topics named like clusters and brokers, and a broker's address.

    That broker can list the other topics.
    """
    names = dict.fromkeys(name for cluster, members in table.clusters.items() for name in (cluster, *members))
    address = next((a for broker in table.brokers.values() for a in broker.addresses.values()), None)
    return list(names), address


def unit_topics(table: RouteTable) -> list[str]:
    """Return the topics that belong to a unit."""
    return _topics_where(table, lambda flag: flag & UNIT != 0)


def unit_sub_topics(table: RouteTable) -> list[str]:
    """Return the topics that other units subscribe to."""
    return _topics_where(table, lambda flag: flag & UNIT_SUB != 0)


def unit_sub_un_unit_topics(table: RouteTable) -> list[str]:
    """Return the topics that other units subscribe to and that belong to no unit."""
    return _topics_where(table, lambda flag: flag & UNIT_SUB != 0 and flag & UNIT == 0)


def _topics_where(table: RouteTable, fits: Callable[[int], bool]) -> list[str]:
    """Return topics by the flag at their first broker name only, as in 4.9."""
    firsts = ((topic, by_name[in_java_order(by_name)[0]]) for topic, by_name in table.queues.items())
    return [topic for topic, data in firsts if fits(data.topic_sys_flag)]
