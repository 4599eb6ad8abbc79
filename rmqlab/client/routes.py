"""Use of topic routes in clients: queues to write and read, broker addresses.

Pure: no I/O, no clock. Rules: remoting-and-nameserver sections 6.2 to 6.5, store-and-ha section 6.5; class
MQClientInstance.
"""

import re
from collections.abc import Iterator, Mapping

import attrs
import msgspec

from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.route import QueueData, TopicRouteData
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.names import MASTER_ID

PERM_READ = 4
PERM_WRITE = 2
MAX_QUEUES = 100_000
"""Queues of one topic that a client makes objects of. A route that claims more is rejected (issue 12)."""
MAX_ADDRESSES = 20_000
"""Addresses of brokers in a route: twice those of a full nameserver of ours. A client sends heartbeats to them."""


def check_route(route: TopicRouteData) -> TopicRouteData:
    """Return the route.

    BodyError if it claims more queues or addresses than a client can handle.
    """
    addresses = sum(len(data.broker_addrs) for data in route.broker_datas)
    if addresses > MAX_ADDRESSES:
        raise BodyError(f"the route has {addresses} addresses of brokers: at most {MAX_ADDRESSES} are expected")
    claimed = sum(max(data.read_queue_nums, data.write_queue_nums, 0) for data in route.queue_datas)
    if route.order_topic_conf:
        claimed += sum(count for _, count in _order_counts(route.order_topic_conf))
    if claimed > MAX_QUEUES:
        raise BodyError(f"the route claims {claimed} queues: at most {MAX_QUEUES} are expected")
    return route


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues of brokers with a master, from which a producer may choose."""
    if route.order_topic_conf:
        return list(_order_queues(topic, route.order_topic_conf))
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return [
        MessageQueue(topic=topic, broker_name=data.broker_name, queue_id=queue_id)
        for data in sorted(route.queue_datas, key=_broker_name)
        if data.perm & PERM_WRITE and data.broker_name in masters
        for queue_id in range(data.write_queue_nums)
    ]


def _order_queues(topic: str, conf: str) -> Iterator[MessageQueue]:
    """Parse the queues of an order topic, as in `broker-a:4;broker-b:2`.

    They are fixed, independent of the brokers' reports.
    """
    for broker_name, count in _order_counts(conf):
        for queue_id in range(count):
            yield MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)


def _order_counts(conf: str) -> Iterator[tuple[str, int]]:
    for part in conf.split(";"):
        broker_name, _, count = part.partition(":")
        yield broker_name, int(count) if re.fullmatch("[0-9]{1,10}", count) else 0


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues that a group shares. A broker name needs no master for it."""
    return [
        MessageQueue(topic=topic, broker_name=data.broker_name, queue_id=queue_id)
        for data in sorted(route.queue_datas, key=_broker_name)
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    ]


def _broker_name(data: QueueData) -> str:
    return data.broker_name


def route_from_template(template: TopicRouteData, queue_nums: int) -> TopicRouteData:
    """Return the route of a topic that its first send creates (section 6.5, step 3)."""
    queue_datas = []
    for data in template.queue_datas:
        count = min(queue_nums, data.read_queue_nums)
        queue_datas.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return msgspec.structs.replace(template, queue_datas=queue_datas)


@attrs.frozen
class BrokerAddress:
    """The address for a request, and the broker id there."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


@attrs.define(eq=False)
class RouteCache:
    """The routes of an instance, and the broker addresses in them."""

    routes: dict[str, TopicRouteData] = attrs.field(factory=dict, init=False)
    brokers: dict[str, dict[int, str]] = attrs.field(factory=dict, init=False)
    """Addresses by broker name and broker id."""
    _published: dict[str, tuple[TopicRouteData, list[MessageQueue]]] = attrs.field(factory=dict, init=False)
    """Queues to write of topics, and the routes from which they were made."""

    def set_route(self, topic: str, route: TopicRouteData) -> bool:
        """Store a route; return True if it has changed."""
        known = self.routes.get(topic)
        if known is not None and _sorted(known) == _sorted(route):
            return False
        self.routes[topic] = route
        for data in route.broker_datas:
            self.brokers[data.broker_name] = dict(data.broker_addrs)
        return True

    def forget(self, topic: str) -> None:
        """Drop a route that is not used any more."""
        self.routes.pop(topic, None)
        self._published.pop(topic, None)

    def queues_to_write(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `publish_queues`; none without a route."""
        route = self.routes.get(topic)
        if route is None:
            return []
        known = self._published.get(topic)
        if known is None or known[0] is not route:
            known = self._published[topic] = (route, publish_queues(topic, route))
        return known[1]

    def purge_brokers(self) -> None:
        """Drop addresses that are in no route any longer (section 6.2, last line)."""
        live = {
            (data.broker_name, address)
            for route in self.routes.values()
            for data in route.broker_datas
            for address in data.broker_addrs.values()
        }
        for name, addresses in list(self.brokers.items()):
            kept = {broker_id: address for broker_id, address in addresses.items() if (name, address) in live}
            if kept:
                self.brokers[name] = kept
            else:
                del self.brokers[name]

    def master(self, broker_name: str) -> str | None:
        """Return the master only: for sends, locks, send-back, and queue bounds."""
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def for_pull(self, broker_name: str, broker_id: int) -> BrokerAddress | None:
        """Return the suggested broker.

        If it is missing: for a slave the next id, else the lowest id.
        """
        addresses = self.brokers.get(broker_name)
        if not addresses:
            return None
        for wanted in (broker_id, broker_id + 1) if broker_id != MASTER_ID else (broker_id,):
            if wanted in addresses:
                return BrokerAddress(addresses[wanted], wanted)
        lowest = min(addresses)
        return BrokerAddress(addresses[lowest], lowest)

    def for_topic(self, topic: str, choice: int) -> BrokerAddress | None:
        """Return a broker of a topic, chosen by a number: its master, else a slave.

        For member lists and admin reads.
        """
        datas = self.routes[topic].broker_datas if topic in self.routes else []
        if not datas:
            return None
        return self.for_pull(datas[choice % len(datas)].broker_name, MASTER_ID)

    def for_heartbeat(self, *, with_slaves: bool) -> list[str]:
        """Return the addresses for heartbeats. Slaves only matter to consumers."""
        return [
            address
            for addresses in self.brokers.values()
            for broker_id, address in sorted(addresses.items())
            if with_slaves or broker_id == MASTER_ID
        ]


def _sorted(route: TopicRouteData) -> tuple[object, ...]:
    queues = sorted(msgspec.structs.astuple(data) for data in route.queue_datas)
    brokers = sorted((data.cluster, data.broker_name, sorted(_pairs(data.broker_addrs))) for data in route.broker_datas)
    return queues, brokers, route.order_topic_conf


def _pairs(addresses: Mapping[int, str]) -> list[tuple[int, str]]:
    return list(addresses.items())
