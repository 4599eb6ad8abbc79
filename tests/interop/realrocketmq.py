"""Real RocketMQ servers as child processes: nameserver, master, slave, each with a small heap and its own store.

A real server listens on all addresses, so servers differ in their ports; a broker takes three: listen port,
VIP (two below) and HA (one above).
"""

import contextlib
import random
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.topology import Broker
from tests.interop.waiting import wait_until

if TYPE_CHECKING:
    from tests.interop.child import Child

CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"

_NAMESRV_JVM = ["-Xms64m", "-Xmx128m", "-XX:+UseSerialGC"]
_BROKER_JVM = [
    *("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=1g"),
    # 4.9 unmaps its files by reflection, when a topic is deleted or a log file destroyed
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED"),
]
_PORTS = range(20_000, 32_000, 10)  # below the ephemeral ones; a block of ten for each server


def free_port() -> int:
    """A listen port whose neighbours -2 and +1 are free as well, on all addresses."""
    for port in random.sample(_PORTS, len(_PORTS)):
        try:
            for used in (port, port - 2, port + 1):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", used))
        except OSError:
            continue
        return port
    raise OSError("no free port")


def is_listening(address: str) -> bool:
    with socket.create_connection(rawrequest.split_address(address), 1):
        return True


class _Server:
    """Start, stop, kill and start again on the same files and ports."""

    def __init__(self, java: Java, directory: Path, name: str) -> None:
        self._java = java
        self.name = name
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self.address = ""
        self.child: Child | None = None

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def stop(self) -> None:
        """SIGTERM, and wait for the end: a broker unregisters."""
        assert self.child is not None
        self.child.terminate()
        self.child.__exit__(None, None, None)
        self.child = None

    def kill(self) -> None:
        """kill -9."""
        if self.child is not None:
            self.child.__exit__(None, None, None)
            self.child = None

    def _write_properties(self, properties: Mapping[str, object]) -> Path:
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def start(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class RealNameserver(_Server):
    def __init__(self, java: Java, directory: Path) -> None:
        super().__init__(java, directory, "real-nameserver")
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        kv_config = self.directory / "kvConfig.json"
        path = self._write_properties({"listenPort": self._port, "kvConfigPath": kv_config})
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self.child = self._java.start_server(self.name, main, "-c", str(path), jvm=_NAMESRV_JVM)
        self.child.wait_line("boot success", 60)


class RealBroker(_Server):
    """A broker with brokerId 0 is a master of the given role, any other one a slave. `settings` override ours."""

    def __init__(
        self,
        java: Java,
        directory: Path,
        namesrv: str,
        *,
        broker_id: int = 0,
        role: str = "SYNC_MASTER",
        broker_name: str = BROKER_NAME,
        ip: str = "127.0.0.1",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(java, directory, f"real-{broker_name}-{broker_id}")
        port = free_port()
        self.address, self.ha_address = f"{ip}:{port}", f"{ip}:{port + 1}"
        self.store = self.directory / "store"
        self.broker_name, self.broker_id, self.namesrv = broker_name, broker_id, namesrv
        self._properties: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": broker_name,
            "brokerId": broker_id,
            "brokerRole": role if broker_id == 0 else "SLAVE",
            "namesrvAddr": namesrv,
            "brokerIP1": ip,
            "brokerIP2": ip,
            "listenPort": port,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "mappedFileSizeCommitLog": 64 * 2**20,
            "mappedFileSizeConsumeQueue": 20 * 20_000,
            "diskMaxUsedSpaceRatio": 95,
            **(settings or {}),
        }

    def start(self) -> None:
        """Returns when it listens and its nameserver has it in the route of its own topic."""
        main = "org.apache.rocketmq.broker.BrokerStartup"
        path = self._write_properties(self._properties)
        self.child = self._java.start_server(self.name, main, "-c", str(path), jvm=_BROKER_JVM)
        self.child.wait_line("boot success", 60)
        wait_until(lambda: is_listening(self.address), f"{self.name} listens")
        wait_until(self.is_in_route, f"{self.name} in the route")

    def is_in_route(self) -> bool:
        """A master registers a topic named like itself; a slave joins its route."""
        return rawrequest.route_of(self.namesrv, self.broker_name).get(self.broker_name, {}).get(self.broker_id) == (
            self.address
        )

    def describe(self) -> Broker:
        return Broker(self.address, self.ha_address, self.store)


class RealCluster:
    """See topology.Cluster."""

    cluster_name = CLUSTER
    broker_name = BROKER_NAME

    def __init__(self, nameserver: RealNameserver, master: RealBroker, slave: RealBroker) -> None:
        self.namesrv = nameserver.address
        self.master, self.slave = master.describe(), slave.describe()
        self._master = master

    def kill_master(self) -> None:
        self._master.kill()


@contextlib.contextmanager
def real_cluster(
    java: Java, directory: Path, *, role: str = "SYNC_MASTER", settings: Mapping[str, object] | None = None
) -> Iterator[RealCluster]:
    """A nameserver, a master and a slave that acknowledges."""
    with contextlib.ExitStack() as running:
        nameserver = running.enter_context(RealNameserver(java, directory))
        master = RealBroker(java, directory, nameserver.address, role=role, settings=settings)
        running.enter_context(master)
        slave = RealBroker(java, directory, nameserver.address, broker_id=1, settings=settings)
        running.enter_context(slave)
        wait_replicating(master.address)
        yield RealCluster(nameserver, master, slave)


def wait_replicating(master: str, timeout: float = 40.0) -> None:
    """Until the SYNC_MASTER answers a send with SUCCESS: a slave is connected and acknowledges.

    The topic named like the cluster exists on every broker and is writable.
    """
    wait_until(
        lambda: rawrequest.send(master, CLUSTER, b"does the slave acknowledge?").code == rawrequest.SUCCESS,
        f"sends to {master} acknowledged by a slave",
        timeout,
    )
