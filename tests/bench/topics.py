"""Common parts of measurements with clients: the topic's shape, the clients' JVMs."""

import functools
from collections.abc import Iterable

from tests.interop import rawrequest
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

BODY_SIZE = 128
QUEUES = 16
JVM = [
    "-Xmx1g",
    "-Drocketmq.serialize.type=ROCKETMQ",  # as the benchmark of 4.9 sets it itself
]


def make_topic(java: Java, clusters: Iterable[Cluster], topic: str) -> None:
    """Make the topic in each of them, and wait until clients find it."""
    with Mqadmin(java) as mqadmin:
        for cluster in clusters:
            where = ["-c", cluster.cluster_name, "-t", topic]
            mqadmin.run(cluster.namesrv, "updateTopic", *where, "-r", str(QUEUES), "-w", str(QUEUES))
            wait_until(functools.partial(rawrequest.route_of, cluster.namesrv, topic), f"route of {topic}")
