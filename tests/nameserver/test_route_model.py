"""The route table and a simple, slow model: a single list of live entries.

The model holds no topic table and no indexes. Brokers keep to what real ones do: one connection for each address,
a data version that moves whenever the topics do, one cluster for each broker name. What the table does beyond that
(two clusters, wrong versions) is in test_route.
"""

import attrs
import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rmqlab.nameserver.lookup import find_route, topics_of_cluster
from rmqlab.nameserver.route import EXPIRY, Registration, RouteTable
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig

NAMES = {"broker-a": "c1", "broker-b": "c1", "broker-c": "c2"}
TOPICS = ("t1", "t2", "t3")


@attrs.define
class Holder:
    """The holder of an id of a broker name, and the time of its last heartbeat."""

    address: str
    seen_at: float


class RouteModel(RuleBasedStateMachine):
    """Random registrations, leaves, losses and scans."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now = 0.0
        self.held: dict[tuple[str, int], Holder] = {}
        self.queues: dict[tuple[str, str], int] = {}
        self.versions: dict[str, int] = {}
        self.topics: dict[str, dict[str, int]] = {}
        self.stored: dict[str, int] = {}

    @rule(
        name=st.sampled_from(sorted(NAMES)),
        broker_id=st.integers(0, 2),
        host=st.integers(0, 2),
        topics=st.none() | st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), max_size=3),
    )
    def register(self, name: str, broker_id: int, host: int, topics: dict[str, int] | None) -> None:
        address = f"{name}-{host}:10911"
        if topics is not None or name not in self.versions:
            self.versions[name] = self.versions.get(name, 0) + 1
            self.topics[name] = topics or {}
        version = self.versions[name]
        self.table.register(
            Registration(
                cluster=NAMES[name],
                broker_name=name,
                broker_id=broker_id,
                address=address,
                ha_address=None,
                data_version=DataVersion(counter=version),
                topics=[TopicConfig(topic_name=t, read_queue_nums=nums) for t, nums in self.topics[name].items()],
            ),
            address,
            now=self.now,
        )
        is_first = (name, broker_id) not in self.held
        for key in [key for key, holder in self.held.items() if holder.address == address and key[1] != broker_id]:
            del self.held[key]
        self.held[name, broker_id] = Holder(address, self.now)
        if broker_id == 0 and (is_first or self.stored.get(address) != version):
            self.queues |= {(topic, name): nums for topic, nums in self.topics[name].items()}
        self.stored[address] = version

    @rule(name=st.sampled_from(sorted(NAMES)), broker_id=st.integers(0, 2), host=st.integers(0, 2))
    def unregister(self, name: str, broker_id: int, host: int) -> None:
        address = f"{name}-{host}:10911"
        self.table.unregister(NAMES[name], address, name, broker_id)
        self.stored.pop(address, None)
        self.held.pop((name, broker_id), None)

    @rule(name=st.sampled_from(sorted(NAMES)), host=st.integers(0, 2))
    def lose_connection(self, name: str, host: int) -> None:
        address = f"{name}-{host}:10911"
        self.table.lose_connection(address, address)
        self._drop(address)

    @rule(seconds=st.floats(0, 100))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        silent = [a for a, live in self.table.live.items() if live.seen_at + EXPIRY < self.now]
        closed, _ = self.table.expire(now=self.now)
        assert closed == silent
        for address in silent:
            self._drop(address)

    def _drop(self, address: str) -> None:
        self.stored.pop(address, None)
        holders = [key for key, holder in self.held.items() if holder.address == address]
        for key in holders[:1]:
            del self.held[key]

    @invariant()
    def tables_agree(self) -> None:
        names = {name for name, _ in self.held}
        self.queues = {key: nums for key, nums in self.queues.items() if key[1] in names}
        assert {
            (name, broker_id): address
            for name, broker in self.table.brokers.items()
            for broker_id, address in broker.addresses.items()
        } == {key: holder.address for key, holder in self.held.items()}
        assert {
            (topic, name): data.read_queue_nums
            for topic, by_name in self.table.queues.items()
            for name, data in by_name.items()
        } == self.queues
        assert set(self.table.live) == set(self.stored)
        clusters: dict[str, set[str]] = {}
        for name in names:
            clusters.setdefault(NAMES[name], set()).add(name)
        assert {cluster: set(members) for cluster, members in self.table.clusters.items()} == clusters

    @invariant()
    def nothing_empty_is_kept(self) -> None:
        for table in (self.table.queues, self.table.clusters):
            assert all(table.values())
        assert all(broker.addresses for broker in self.table.brokers.values())

    @invariant()
    def every_topic_with_queues_has_a_route_and_a_cluster(self) -> None:
        for topic, by_name in self.table.queues.items():
            route = find_route(self.table, topic)
            assert route is not None
            assert {broker.broker_name for broker in route.broker_datas} == set(by_name)
            assert any(topic in topics_of_cluster(self.table, cluster) for cluster in self.table.clusters)


RouteModel.TestCase.settings = hypothesis.settings(max_examples=60, stateful_step_count=40)
test_any_history_leaves_the_tables_as_the_model_says = RouteModel.TestCase
