"""Queues and addresses from routes (remoting-and-nameserver sections 6.2 to 6.5)."""

import pytest

from rmqlab.client.routes import (
    MAX_ADDRESSES,
    RouteCache,
    check_route,
    publish_queues,
    route_from_template,
    subscribe_queues,
)
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqlab.remoting.body import BodyError


def route(*, order: str | None = None, **brokers: tuple[dict[int, str], int]) -> TopicRouteData:
    """Brokers by name: addresses, and the permission of the topic there."""
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name=name, cluster="c", broker_addrs=addresses)
            for name, (addresses, _) in brokers.items()
        ],
        queue_datas=[
            QueueData(broker_name=name, perm=perm, read_queue_nums=3, write_queue_nums=2)
            for name, (_, perm) in brokers.items()
        ],
        order_topic_conf=order,
    )


def ids(queues: list[MessageQueue]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


MASTER, SLAVE = {0: "m:1", 1: "s:1"}, {1: "s:1"}


def test_a_producer_gets_no_queue_of_a_broker_without_a_master() -> None:
    both = route(b=(SLAVE, 6), a=(MASTER, 6))
    assert ids(publish_queues("t", both)) == [("a", 0), ("a", 1)]
    assert ids(subscribe_queues("t", both)) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]


def test_permissions_limit_publishing_and_subscribing_per_queue() -> None:
    both = route(r=(MASTER, 4), w=(MASTER, 2))
    assert {name for name, _ in ids(publish_queues("t", both))} == {"w"}
    assert {name for name, _ in ids(subscribe_queues("t", both))} == {"r"}


def test_an_order_topic_has_the_queues_that_its_configuration_lists() -> None:
    assert ids(publish_queues("t", route(order="x:2;a:1", a=(SLAVE, 6)))) == [("x", 0), ("x", 1), ("a", 0)]


def test_a_topic_to_be_created_gets_as_many_queues_as_the_producer_wants_and_the_template_has() -> None:
    template = TopicRouteData(
        queue_datas=[
            QueueData(broker_name="a", perm=7, read_queue_nums=8, write_queue_nums=8),
            QueueData(broker_name="b", perm=7, read_queue_nums=2, write_queue_nums=2),
        ]
    )
    made = route_from_template(template, 4)
    assert [(data.read_queue_nums, data.write_queue_nums) for data in made.queue_datas] == [(4, 4), (2, 2)]


def test_a_pull_goes_to_the_suggested_broker_or_to_its_neighbour_or_to_the_lowest() -> None:
    """store-and-ha section 6.5."""
    cache = RouteCache()
    cache.set_route("t", route(a=({0: "m:1", 2: "s2:1"}, 6), b=({3: "s3:1", 5: "s5:1"}, 6)))

    def asked(name: str, broker_id: int) -> int:
        target = cache.for_pull(name, broker_id)
        assert target is not None
        return target.broker_id

    assert [asked("a", broker_id) for broker_id in (0, 1, 2, 7)] == [0, 2, 2, 0]
    assert [asked("b", broker_id) for broker_id in (0, 4)] == [3, 5]
    assert cache.for_pull("c", 0) is None
    assert cache.master("b") is None


def test_a_route_that_says_the_same_in_another_order_is_no_change() -> None:
    cache = RouteCache()
    assert cache.set_route("t", route(a=(MASTER, 6), b=(SLAVE, 6)))
    assert not cache.set_route("t", route(b=(SLAVE, 6), a=({1: "s:1", 0: "m:1"}, 6)))
    assert cache.set_route("t", route(a=(SLAVE, 6), b=(SLAVE, 6)))


def test_addresses_that_no_route_names_are_purged() -> None:
    cache = RouteCache()
    cache.set_route("t", route(a=(MASTER, 6), b=(SLAVE, 6)))
    cache.set_route("t", route(a=(SLAVE, 6)))
    cache.purge_brokers()
    assert cache.brokers == {"a": SLAVE}


def test_heartbeats_of_a_producer_only_client_skip_the_slaves() -> None:
    cache = RouteCache()
    cache.set_route("t", route(a=(MASTER, 6)))
    assert cache.for_heartbeat(with_slaves=False) == ["m:1"]
    assert cache.for_heartbeat(with_slaves=True) == ["m:1", "s:1"]


def test_queues_to_write_are_those_of_the_present_route() -> None:
    cache = RouteCache()
    assert cache.queues_to_write("t") == []
    cache.set_route("t", route(a=(MASTER, 6)))
    queues = cache.queues_to_write("t")
    assert ids(queues) == [("a", 0), ("a", 1)]
    assert cache.queues_to_write("t") is queues, "they are made once for each route"
    cache.set_route("t", route(b=(MASTER, 6)))
    assert ids(cache.queues_to_write("t")) == [("b", 0), ("b", 1)]
    cache.forget("t")
    assert cache.queues_to_write("t") == []


@pytest.mark.parametrize(
    "claim",
    [
        TopicRouteData(queue_datas=[QueueData(broker_name="a", read_queue_nums=2**31 - 1, write_queue_nums=1, perm=6)]),
        route(order="a:9999999999"),
    ],
)
def test_a_route_that_claims_more_queues_than_memory_is_rejected(claim: TopicRouteData) -> None:
    """Issue 12."""
    with pytest.raises(BodyError, match="at most 100000"):
        check_route(claim)


def test_a_route_with_more_addresses_than_a_full_cluster_is_rejected() -> None:
    addresses = {number: f"10.0.0.1:{number}" for number in range(MAX_ADDRESSES)}
    few = BrokerData(cluster="c", broker_name="a", broker_addrs=addresses)
    route = TopicRouteData(broker_datas=[few], queue_datas=[])
    assert check_route(route) is route
    another = BrokerData(cluster="c", broker_name="b", broker_addrs={0: "10.0.0.2:1"})
    with pytest.raises(BodyError, match="addresses"):
        check_route(TopicRouteData(broker_datas=[few, another], queue_datas=[]))
