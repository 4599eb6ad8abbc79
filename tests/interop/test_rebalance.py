"""Two Java consumers of one group, of which one dies without a word: the other gets its queues at once."""

import pytest

from tests.interop.java import CLIENTS, Java
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.interop

PATIENCE = "timeoutMillis=120000"


@pytest.mark.parametrize("line", CLIENTS)
def test_the_queues_of_a_consumer_that_is_killed_go_to_the_other(java: Java, shared: Cluster, line: str) -> None:
    """broker-requests section 3.2: its closed connection is told to the group; its uncommitted messages come again."""
    topic = f"Rebalance{line.replace('.', '_')}"
    target = [f"namesrv={shared.namesrv}", f"topic={topic}"]
    group = [f"group={topic}-readers", "count=1000000", PATIENCE]

    def send(prefix: str) -> set[str]:
        with java.start("Producer", *target, "count=40", f"prefix={prefix}", client=line) as producer:
            producer.finish()
        return {f"{prefix}-{number}" for number in range(40)}

    sent = send("first")
    with java.start("Consumer", *target, *group, client=line) as survivor:
        wait_until(lambda: bodies(survivor.lines) == sent, "the first consumer has all", 60)
        with java.start("Consumer", *target, *group, client=line) as victim:
            wait_until(lambda: send("both") and bodies(victim.lines), "the second consumer has its share", 90)
            victim.kill()
        sent = send("last")
        wait_until(lambda: bodies(survivor.lines) >= sent, "the survivor has all", 60)


def bodies(lines: list[str]) -> set[str]:
    """What was consumed."""
    return {line.split()[-1] for line in lines if line != "STARTED"}
