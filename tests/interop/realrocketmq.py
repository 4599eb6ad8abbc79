"""Real RocketMQ servers as child processes, each with a small heap.

They listen on all addresses, so they differ in their ports.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.interop.child import Child
from tests.interop.java import Java
from tests.interop.server import BROKER_NAME, CLUSTER, BrokerServer, Server, free_port, wait_replicating

_NAMESRV_JVM = ["-Xms64m", "-Xmx128m", "-XX:+UseSerialGC"]
_BROKER_JVM = [
    "-XX:MaxDirectMemorySize=1g",
    # 4.9 unmaps its files by reflection, when a topic is deleted or a log file destroyed
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED"),
]
SMALL_HEAP = "384m"
_BOOT_TIMEOUT = 60.0

# Files that a test fills and compares; the defaults of 1 GiB are the business of benchmarks.
SMALL_FILES: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 64 * 2**20,
    "mappedFileSizeConsumeQueue": 20 * 20_000,
}


class RealNameserver(Server):
    def __init__(self, java: Java, directory: Path) -> None:
        self._java = java
        port = free_port()
        kv_config = directory / "real-nameserver" / "kvConfig.json"
        properties = {"listenPort": port, "kvConfigPath": kv_config}
        super().__init__(directory, "real-nameserver", f"127.0.0.1:{port}", properties)

    def spawn(self, config: Path) -> Child:
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        return self._java.start_server(self.name, main, "-c", str(config), jvm=_NAMESRV_JVM)

    def wait_ready(self) -> None:
        assert self._child is not None
        self._child.wait_line("boot success", _BOOT_TIMEOUT)


class RealBroker(BrokerServer):
    """Keyword arguments as BrokerServer has them."""

    def __init__(self, java: Java, directory: Path, namesrv: str, *, heap: str = SMALL_HEAP, **options: Any) -> None:
        self._java = java
        self._jvm = [f"-Xms{heap}", f"-Xmx{heap}", *_BROKER_JVM]
        super().__init__(directory, "real", namesrv, **options)

    def spawn(self, config: Path) -> Child:
        main = "org.apache.rocketmq.broker.BrokerStartup"
        return self._java.start_server(self.name, main, "-c", str(config), jvm=self._jvm)

    def wait_ready(self) -> None:
        assert self._child is not None
        self._child.wait_line("boot success", _BOOT_TIMEOUT)
        super().wait_ready()


class RealCluster:
    """See topology.Cluster."""

    cluster_name = CLUSTER
    broker_name = BROKER_NAME

    def __init__(self, nameserver: RealNameserver, master: RealBroker, slave: RealBroker) -> None:
        self.namesrv = nameserver.address
        self.master, self.slave = master.describe(), slave.describe()
        self.pids = {server.name: server.pid for server in (nameserver, master, slave)}
        self._master = master

    def kill_master(self) -> None:
        self._master.kill()


@contextlib.contextmanager
def real_cluster(
    java: Java,
    directory: Path,
    *,
    role: str = "SYNC_MASTER",
    settings: Mapping[str, object] = SMALL_FILES,
    heap: str = SMALL_HEAP,
) -> Iterator[RealCluster]:
    """A nameserver, a master and a slave that acknowledges."""
    with (
        RealNameserver(java, directory) as nameserver,
        RealBroker(java, directory, nameserver.address, role=role, settings=settings, heap=heap) as master,
        RealBroker(java, directory, nameserver.address, broker_id=1, settings=settings, heap=heap) as slave,
    ):
        wait_replicating(master.address)
        yield RealCluster(nameserver, master, slave)
