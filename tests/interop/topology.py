"""Facts about a cluster that tests need, independent of its builder."""

from pathlib import Path
from typing import Protocol

import attrs


@attrs.frozen
class Broker:
    """One running broker, as the outside sees it."""

    address: str
    ha_address: str
    store: Path  # RocketMQ's storePathRootDir

    def commit_log(self) -> list[Path]:
        """Its files in order of their offsets, which are their names."""
        return sorted((self.store / "commitlog").glob("*"))


class Cluster(Protocol):
    """A nameserver, one SYNC_MASTER and its slave, which acknowledges."""

    namesrv: str
    cluster_name: str
    broker_name: str
    master: Broker
    slave: Broker
    pids: dict[str, int]
    """Of the nameserver, the master, the slave, in this order."""

    def kill_master(self) -> None:
        """kill -9; returns when the process is gone."""
