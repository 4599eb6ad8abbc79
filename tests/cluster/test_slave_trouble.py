"""A slave with a full disk on real processes, named in remarks and `status`."""

from pathlib import Path
from typing import Any

import pytest

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.topology import ClusterSpec
from rmqlab.faults import DiskFull

pytestmark = pytest.mark.timeout(300)

PATIENT: dict[str, Any] = {"send_timeout": 100.0, "retries": 0}


def test_the_remark_of_a_send_and_the_status_name_the_full_disk_of_the_slave(tmp_path: Path) -> None:
    """Issue 16, part 3. The long slave timeout excludes timeouts of a busy machine."""
    settings = {"slave_timeout": 3_600_000}
    spec = ClusterSpec(name="x", role="SYNC_MASTER", profile="hardened", broker_settings=settings)

    with BlockingCluster(spec, ClusterDirectory(tmp_path / "lab", is_lasting=False)) as cluster:

        def send() -> tuple[str, str]:
            (event,) = cluster.produce("orders", 1, **PATIENT)
            return event["outcome"], event.get("remark", "")

        def trouble() -> str | None:
            (row,) = cluster.status()["replication"]
            text: str | None = row["trouble"]
            return text

        cluster.wait_until("slave-in-sync broker-a")
        full = cluster.fault(DiskFull(target="broker-a-s"))
        outcome, remark = send()
        assert outcome == "SLAVE_NOT_AVAILABLE"
        assert remark.startswith("slave broker-a-s: cannot append ")
        assert remark.endswith(": No space left on device")
        assert trouble() == remark.removeprefix("slave broker-a-s: ")
        cluster.heal(full)
        cluster.wait_until("slave-caught-up broker-a")
        while send() != ("SEND_OK", ""):
            cluster.wait_until("slave-in-sync broker-a")
        assert trouble() is None
        assert [entry.node for entry in cluster.journal() if entry.kind == "slave_recovered"] == ["broker-a"]
