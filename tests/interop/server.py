"""One server process, real or ours, with its own files and ports.

Tests start, stop, kill and start it again.
"""

import abc
import contextlib
import random
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.interop import rawrequest
from tests.interop.topology import Broker
from tests.interop.waiting import wait_until

if TYPE_CHECKING:
    from tests.interop.child import Child

CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"

_PORTS = range(20_000, 32_000, 10)  # below the ephemeral ones; a block of ten for each server
_VIP, _HA = -2, +1  # a broker's other ports, from its listen port
_CLAIM = +5  # not a server's: its holder owns the block
_claims: list[socket.socket] = []


def free_port() -> int:
    """A listen port free on all addresses, with those that a broker derives from it.

    The block is this process's until it ends: a server may be started again, and others may test at the same time.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            claim = stack.enter_context(socket.socket())
            claim.bind(("0.0.0.0", port + _CLAIM))
            for used in (port + _VIP, port, port + _HA):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", used))
            stack.pop_all()
            _claims.append(claim)
            return port
    raise OSError("no free port")


def is_listening(address: str) -> bool:
    with socket.create_connection(rawrequest.split_address(address), 1):
        return True


class Server(abc.ABC):
    """A `with` block starts it and kills it at the end, if it still runs."""

    def __init__(self, directory: Path, name: str, address: str, properties: Mapping[str, object]) -> None:
        self.name = name
        self.address = address
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self._config = self.directory / "server.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._child: Child | None = None

    @abc.abstractmethod
    def spawn(self, config: Path) -> "Child":
        """Start the process with this properties file."""

    @abc.abstractmethod
    def wait_ready(self) -> None:
        """Return when it serves."""

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def start(self) -> None:
        self._child = self.spawn(self._config)
        self.wait_ready()

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        assert self._child is not None
        self._child.terminate()
        self.kill()

    def kill(self) -> None:
        """kill -9; harmless if it does not run."""
        if self._child is not None:
            self._child.__exit__(None, None, None)
            self._child = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class BrokerServer(Server):
    """A broker of either kind from a properties file: brokerId 0 is the given master.

    Other ids are slaves.
    """

    def __init__(
        self,
        directory: Path,
        kind: str,
        namesrv: str,
        *,
        broker_id: int = 0,
        role: str = "SYNC_MASTER",
        ip: str = "127.0.0.1",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        port = free_port()
        name = f"{kind}-{BROKER_NAME}-{broker_id}"
        store = directory / name / "store"
        properties: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER_NAME,
            "brokerId": broker_id,
            "brokerRole": role if broker_id == 0 else "SLAVE",
            "namesrvAddr": namesrv,
            "brokerIP1": ip,
            "brokerIP2": ip,
            "listenPort": port,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "diskMaxUsedSpaceRatio": 95,
            **(settings or {}),
        }
        super().__init__(directory, name, f"{ip}:{port}", properties)
        self.namesrv, self.broker_id = namesrv, broker_id
        self.ha_address = f"{ip}:{port + _HA}"
        self.store = store

    def wait_ready(self) -> None:
        """Wait until it listens and the nameserver has it in the topic of its name."""
        wait_until(lambda: self._is_alive() and is_listening(self.address), f"{self.name} listens")
        wait_until(lambda: self._is_alive() and self.is_in_route(), f"{self.name} in the route")

    def is_in_route(self) -> bool:
        known = rawrequest.route_of(self.namesrv, BROKER_NAME).get(BROKER_NAME, {})
        return known.get(self.broker_id) == self.address

    def describe(self) -> Broker:
        return Broker(self.address, self.ha_address, self.store)

    def _is_alive(self) -> bool:
        assert self._child is not None
        self._child.check_running()
        return True


def wait_replicating(master: str, timeout: float = 40.0) -> None:
    """Wait until the SYNC_MASTER returns SUCCESS for a send.

    A slave is connected and acknowledges then. The topic named like the cluster exists on every broker and is writable.
    """
    wait_until(
        lambda: rawrequest.send(master, CLUSTER, b"does the slave acknowledge?").code == rawrequest.SUCCESS,
        f"sends to {master} acknowledged by a slave",
        timeout,
    )
