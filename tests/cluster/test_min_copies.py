"""`MIN_COPIES` on real processes: graded messages at an asynchronous master."""

from pathlib import Path
from typing import Any

import pytest

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.topology import ClusterSpec

pytestmark = pytest.mark.timeout(300)

PATIENT: dict[str, Any] = {"count": 3, "send_timeout": 100.0, "retries": 0}


def test_a_graded_message_waits_for_the_slave_and_others_do_not(tmp_path: Path) -> None:
    """Issue 16, part 3. The long slave timeout excludes timeouts of a busy machine."""
    settings = {"obey_min_copies": True, "slave_timeout": 3_600_000}
    spec = ClusterSpec(name="x", role="ASYNC_MASTER", broker_settings=settings)

    with BlockingCluster(spec, ClusterDirectory(tmp_path / "lab", is_lasting=False)) as cluster:

        def outcomes(min_copies: int) -> set[str]:
            return {event["outcome"] for event in cluster.produce("orders", min_copies=min_copies, **PATIENT)}

        cluster.wait_until("slave-in-sync broker-a")
        assert outcomes(0) == outcomes(2) == {"SEND_OK"}
        assert outcomes(3) == {"SLAVE_NOT_AVAILABLE"}
        cluster.kill("broker-a-s")
        cluster.wait_until("killed broker-a-s")
        assert outcomes(0) == {"SEND_OK"}
        assert outcomes(2) == {"SLAVE_NOT_AVAILABLE"}
