"""RocketMQ's own benchmark programs: they must report progress without failures."""

import re

import pytest

from tests.interop import rawrequest
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

_PACKAGE = "org.apache.rocketmq.example.benchmark"


@pytest.mark.parametrize("header", ["JSON", "ROCKETMQ"])
def test_stock_benchmark_programs_report_progress_and_no_failure(
    java: Java, mqadmin: Mqadmin, shared: Cluster, header: str
) -> None:
    """Each prints its first line after ten seconds, about those."""
    topic = f"Benchmark{header}Topic"
    mqadmin.run(shared.namesrv, "updateTopic", "-c", shared.cluster_name, "-t", topic, "-r", "4", "-w", "4")
    wait_until(lambda: rawrequest.route_of(shared.namesrv, topic), f"route of {topic}")
    common = ["-n", shared.namesrv, "-t", topic]
    group = ["-g", f"Benchmark{header}Group", "-p", "false"]
    jvm = ["-Xmx512m", f"-Drocketmq.serialize.type={header}"]
    with (
        java.start(f"{_PACKAGE}.Consumer", *common, *group, jvm=jvm) as consumer,
        java.start(f"{_PACKAGE}.Producer", *common, "-w", "4", "-s", "128", jvm=jvm) as producer,
    ):
        sent = producer.wait_line(r"Send TPS: \d+")
        consumed = consumer.wait_line(r"^TPS: [1-9]")
    assert _number("Send TPS", sent) > 0
    assert _number("Send Failed", sent) == 0
    assert _number("Response Failed", sent) == 0
    assert _number("FAIL", consumed) == 0


def _number(name: str, line: str) -> int:
    found = re.search(rf"{name}: (\d+)", line)
    assert found, line
    return int(found[1])
