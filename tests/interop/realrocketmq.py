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
_FAST_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
SMALL_HEAP = "384m"
RELEASE, RELEASE_5 = "4.9.7", "5.3.3"
_BOOT_TIMEOUT = 180.0  # a broker of 5.3 takes 40 s of a machine that has other work

# Files that a test fills and compares; the defaults of 1 GiB are the business of benchmarks.
SMALL_FILES: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 64 * 2**20,
    "mappedFileSizeConsumeQueue": 20 * 20_000,
}

# In 5 a SYNC_MASTER waits for as many logs as this says, its own included, by default for nobody's but its own; and a
# slave refuses pulls (code 2) unless it is told to serve them.
AS_IN_4: Mapping[str, object] = {"inSyncReplicas": 2, "slaveReadEnable": "true"}


class RealNameserver(Server):
    def __init__(self, java: Java, directory: Path, *, release: str = RELEASE) -> None:
        self._java, self._release = java, release
        port = free_port()
        kv_config = directory / "real-nameserver" / "kvConfig.json"
        properties = {"listenPort": port, "kvConfigPath": kv_config}
        super().__init__(directory, "real-nameserver", f"127.0.0.1:{port}", properties)

    def spawn(self, config: Path) -> Child:
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        return self._java.start_server(self.name, main, "-c", str(config), jvm=_NAMESRV_JVM, release=self._release)

    def wait_ready(self) -> None:
        assert self._child is not None
        self._child.wait_line("boot success", _BOOT_TIMEOUT)


class RealBroker(BrokerServer):
    """Keyword arguments as BrokerServer has them."""

    def __init__(
        self,
        java: Java,
        directory: Path,
        namesrv: str,
        *,
        heap: str = SMALL_HEAP,
        release: str = RELEASE,
        settings: Mapping[str, object] | None = None,
        **options: Any,
    ) -> None:
        self._java, self._release = java, release
        self._jvm = [f"-Xms{heap}", f"-Xmx{heap}", *_BROKER_JVM, *(_FAST_START if release == RELEASE_5 else [])]
        both = {**(AS_IN_4 if release == RELEASE_5 else {}), **(settings or {})}
        super().__init__(directory, "real", namesrv, settings=both, **options)

    def spawn(self, config: Path) -> Child:
        main = "org.apache.rocketmq.broker.BrokerStartup"
        return self._java.start_server(self.name, main, "-c", str(config), jvm=self._jvm, release=self._release)

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
