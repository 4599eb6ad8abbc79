"""mqadmin 5.3.3 and our cluster: requests unknown to 4.9 get usable responses."""

import re
from collections.abc import Iterator

import pytest

from tests.interop import rawrequest
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC = "TopicOfTools5"


@pytest.fixture(scope="module")
def tools(java: Java) -> Iterator[Mqadmin]:
    with Mqadmin(java, "5.3.3") as running:
        yield running


@pytest.fixture
def consumed(java: Java, tools: Mqadmin, shared: Cluster) -> str:
    """A topic with six messages, all consumed by the group that this returns.

    Made once a cluster.
    """
    group = f"{TOPIC}-readers"
    if not rawrequest.route_of(shared.namesrv, TOPIC):
        printed = tools.run(shared.namesrv, "updateTopic", "-c", shared.cluster_name, "-t", TOPIC, "-r", "2", "-w", "2")
        assert "success" in printed
        wait_until(lambda: rawrequest.route_of(shared.namesrv, TOPIC), f"route of {TOPIC}")
        target = [f"namesrv={shared.namesrv}", f"topic={TOPIC}", "count=6"]
        with java.start("Producer", *target, client="5.3.3") as producer:
            producer.finish()
        with java.start("Consumer", *target, f"group={group}", client="5.3.3") as consumer:
            consumer.finish()
    return group


def test_topic_status_shows_every_queue(tools: Mqadmin, shared: Cluster, consumed: str) -> None:
    """broker-requests#62"""
    del consumed
    rows = _rows(tools.run(shared.namesrv, "topicStatus", "-t", TOPIC), shared.broker_name)
    assert sorted((row[1], row[2], row[3]) for row in rows) == [("0", "0", "3"), ("1", "0", "3")]


def test_consumer_progress_shows_what_is_left(tools: Mqadmin, shared: Cluster, consumed: str) -> None:
    """broker-requests#62"""

    def printed() -> str:
        return tools.run(shared.namesrv, "consumerProgress", "-g", consumed)

    wait_until(lambda: "Consume Diff Total: 0" in printed(), "a group without lag", 30)
    rows = [row for row in _rows(printed(), TOPIC) if row[1] == shared.broker_name]
    assert sorted((row[2], row[3], row[4]) for row in rows) == [("0", "3", "3"), ("1", "3", "3")]


def test_cluster_list_shows_both_brokers(tools: Mqadmin, shared: Cluster) -> None:
    """broker-requests#55"""
    rows = _rows(tools.run(shared.namesrv, "clusterList"), shared.cluster_name)
    assert [(row[1], row[2], row[3]) for row in rows] == [
        (shared.broker_name, "0", shared.master.address),
        (shared.broker_name, "1", shared.slave.address),
    ]
    assert all(row[4].startswith("V4_9_") for row in rows)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("topicRoute", "-t", TOPIC), '"brokerName"'),
        (("topicList",), TOPIC),
        (("statsAll", "-t", TOPIC), TOPIC),
        (("brokerStatus", "-b", "{master}"), "brokerVersionDesc"),
        (("getBrokerConfig", "-b", "{master}"), "brokerName"),
        (("updateSubGroup", "-b", "{master}", "-g", "GroupOfTools5"), "success"),
        (("updateTopicPerm", "-b", "{master}", "-t", TOPIC, "-p", "6"), "success|equals to the old"),
        (("queryMsgByOffset", "-t", TOPIC, "-b", "{name}", "-i", "0", "-o", "0"), "OffsetID"),
        (("sendMessage", "-t", "{name}", "-p", "hello"), "SEND_OK"),
        (("deleteSubGroup", "-b", "{master}", "-g", "GroupOfTools5"), "success"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_of_every_day_work(
    tools: Mqadmin, shared: Cluster, consumed: str, command: tuple[str, ...], expected: str
) -> None:
    del consumed
    words = [word.format(master=shared.master.address, name=shared.broker_name) for word in command]
    printed = tools.run(shared.namesrv, *words)
    assert re.search(expected, printed), printed
    assert "Exception" not in printed


def test_nameserver_commands_work(tools: Mqadmin, shared: Cluster) -> None:
    """remoting#41."""

    def run(*words: str) -> str:
        return tools.run(shared.namesrv, *words)

    for topic, order in (("Plain5", ()), ("Ordered5", ("-o", "true"))):
        assert "create topic to" in run(
            "updateTopic", "-c", shared.cluster_name, "-t", topic, "-r", "2", "-w", "2", *order
        )
        assert run("topicClusterList", "-t", topic).strip().endswith(shared.cluster_name)
        assert topic in run("topicList", "-c")
        assert "success" in run("deleteTopic", "-c", shared.cluster_name, "-t", topic)
    assert re.search(r"OK, \d+", run("wipeWritePerm", "-b", shared.broker_name))
    assert re.search(r"OK, \d+", run("addWritePerm", "-b", shared.broker_name))
    assert "success" in run("updateKvConfig", "-s", "Tools5", "-k", "k", "-v", "a value")
    assert "success" in run("deleteKvConfig", "-s", "Tools5", "-k", "k")
    assert "success" in run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false")
    assert re.search(r"orderMessageEnable\s+=\s+false", run("getNamesrvConfig"))


def _rows(text: str, first: str) -> list[list[str]]:
    """Rows of a table whose first column is this."""
    return [row for line in text.splitlines() if (row := line.split())[:1] == [first]]
