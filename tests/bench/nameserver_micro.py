"""Load of hundreds of brokers with thousands of topics on a nameserver.

Run it: `python -m tests.bench.nameserver_micro`. The handlers run as they do in the process, over the dispatcher, on a
clock that is set by hand; only the sockets are missing. Prints milliseconds of CPU; judges nothing.
"""

import argparse
import bisect
import random
import statistics
import time
from collections.abc import Callable, Sequence

import attrs

from rmqlab.nameserver.config import NameserverConfig
from rmqlab.nameserver.handlers import HANDLERS
from rmqlab.nameserver.kvconfig import KvConfig
from rmqlab.nameserver.state import Nameserver
from rmqlab.remoting.bodies.registration import RegisterBrokerBody, body_crc32
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.callthread import Calls, Done
from rmqlab.runtime.net.dispatch import Dispatcher

REGISTER_PERIOD = 30.0


@attrs.define(eq=False)
class Wire:
    """A connection that counts the written bytes."""

    peer: str
    bytes_written: int = 0

    def write(self, *buffers: bytes | memoryview) -> None:
        self.bytes_written += sum(map(len, buffers))

    def close(self, _reason: str) -> None:
        pass


class NoCalls:
    """Makes no calls: no file is written here."""

    def start(self, calls: Calls, done: Done) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class Simulation:
    """One nameserver, and brokers that all have the same topics, as in a big cluster."""

    def __init__(self, brokers: int, topics: int) -> None:
        self.topics = topics
        self.now = 0.0
        kv = KvConfig("never written")
        self.nameserver = Nameserver(
            NameserverConfig(), kv, lambda: self.now, lambda _kind, **_fields: None, lambda _fn: None, NoCalls()
        )
        self.dispatcher = Dispatcher(HANDLERS, self.nameserver)
        self.wires = [Wire(f"10.0.{number // 250}.{number % 250 + 1}:40000") for number in range(brokers)]

    def body(self, counter: int) -> bytes:
        """Give a registration's body of some data version."""
        table = {name: TopicConfig(topic_name=name) for name in (f"topic-{number:05}" for number in range(self.topics))}
        version = DataVersion(counter=counter, timestamp=1)
        wrapper = TopicConfigSerializeWrapper(data_version=version, topic_config_table=table)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()

    def register_all(self, body: bytes) -> list[float]:
        """One round of heartbeats; return the seconds of CPU of each."""
        crc, costs = str(body_crc32(body)), []
        for number, wire in enumerate(self.wires):
            address = wire.peer.replace(":40000", ":10911")
            fields = {
                "brokerName": f"broker-{number:03}",
                "brokerAddr": address,
                "clusterName": "DefaultCluster",
                "haServerAddr": address.replace("10911", "10912"),
                "brokerId": "0",
                "bodyCrc32": crc,
            }
            arrived = bytes(bytearray(body))  # bytes of its own, as from a socket: an object keeps its hash
            command, began = Command(RequestCode.REGISTER_BROKER, body=arrived, raw_fields=fields), time.thread_time()
            self.dispatcher.serve(wire, command)
            costs.append(time.thread_time() - began)
        return costs

    def ask_routes(self, count: int) -> None:
        """Clients ask for routes, each of all brokers."""
        client = Wire("10.9.9.9:50000")
        for number in range(count):
            topic = {"topic": f"topic-{number % self.topics:05}"}
            self.dispatcher.serve(client, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, raw_fields=topic))


def millis(fn: Callable[[], object]) -> float:
    """Time one call."""
    start = time.thread_time()
    fn()
    return (time.thread_time() - start) * 1000


def waits(costs: Sequence[float], period: float, *, seed: int = 1, probes: int = 100_000) -> list[float]:
    """Return how long requests wait for heartbeats, in seconds, in ascending order.

    The requests come at random moments. Each heartbeat of `costs` comes at a random moment of the period, and is served
    in the order of arrival.
    """
    chance = random.Random(seed)
    arrivals = sorted((chance.uniform(0, period), cost) for cost in costs)
    starts, idle_from, free_at = [], [], 0.0
    for arrival, cost in arrivals:
        free_at = max(free_at, arrival) + cost
        starts.append(arrival)
        idle_from.append(free_at)
    found = []
    for _ in range(probes):
        moment = chance.uniform(0, period)
        before = bisect.bisect_right(starts, moment) - 1
        found.append(max(0.0, idle_from[before] - moment) if before >= 0 else 0.0)
    return sorted(found)


def main() -> None:
    """Measure a start, heartbeats, routes, scans, and the loss of every broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=200)
    parser.add_argument("--topics", type=int, default=2000)
    asked = parser.parse_args()
    simulation = Simulation(asked.brokers, asked.topics)
    routes = simulation.nameserver.routes
    body, moved = simulation.body(1), simulation.body(2)
    print(f"{asked.brokers} brokers x {asked.topics} topics, registration body {len(body)} bytes")

    for name, sent in (("first", body), ("unchanged", body), ("new data version", moved)):
        costs = simulation.register_all(sent)
        waited = waits(costs, REGISTER_PERIOD)
        print(
            f"registration, {name}: {statistics.median(costs) * 1000:.3f} ms; one every {REGISTER_PERIOD:g} s of each:"
            f" {sum(costs) / REGISTER_PERIOD:.4f} cores, a request waits {waited[len(waited) * 99 // 100] * 1000:.3f} ms"
            f" (1 in 100 longer), at most {waited[-1] * 1000:.3f} ms"
        )
    wanted = 100
    print(f"route of {asked.brokers} brokers: {millis(lambda: simulation.ask_routes(wanted)) / wanted:.3f} ms")
    print(f"scan with nobody silent: {millis(simulation.nameserver.expire):.3f} ms")
    lost = millis(lambda: routes.lose_connection(simulation.wires[0], ""))
    print(f"loss of one broker: {lost:.3f} ms")
    simulation.now = 121.0
    print(f"scan that drops all others: {millis(simulation.nameserver.expire):.3f} ms")
    assert not routes.queues


if __name__ == "__main__":
    main()
