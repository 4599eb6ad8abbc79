"""Our system: `rmqlab up` for clusters, a process for single servers.

The process is `python -m rmqlab.nameserver|broker`.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.child import Child
from tests.interop.server import CLUSTER, BrokerServer, Server, free_port, is_listening, wait_replicating
from tests.interop.topology import Broker
from tests.interop.waiting import wait_until

_RMQLAB = shutil.which("rmqlab", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
_UP_TIMEOUT = 180.0

_numbers = itertools.count()


class OurNameserver(Server):
    def __init__(self, directory: Path) -> None:
        port = free_port()
        properties = {"listenPort": port, "kvConfigPath": directory / "our-nameserver" / "kvConfig.json"}
        super().__init__(directory, "our-nameserver", f"127.0.0.1:{port}", properties)

    def spawn(self, config: Path) -> Child:
        return Child(self.name, [sys.executable, "-m", "rmqlab.nameserver", str(config)])

    def wait_ready(self) -> None:
        wait_until(lambda: is_listening(self.address), f"{self.name} listens")


class OurBroker(BrokerServer):
    """Our broker from a properties file written for RocketMQ."""

    def __init__(self, directory: Path, namesrv: str, **options: Any) -> None:
        super().__init__(directory, "our", namesrv, **options)

    def spawn(self, config: Path) -> Child:
        return Child(self.name, [sys.executable, "-m", "rmqlab.broker", str(config)])


class OurCluster:
    """See topology.Cluster; built from what `rmqlab up --json` prints."""

    cluster_name = CLUSTER

    def __init__(self, directory: Path, description: dict[str, Any]) -> None:
        self._directory = directory
        self.name: str = description["name"]
        self.namesrv: str = description["namesrv_addr"]
        brokers = {node["broker_id"]: node for node in description["nodes"] if node["kind"] == "broker"}
        self.master, self.slave = (_broker(brokers[broker_id]) for broker_id in (0, 1))
        self.broker_name = str(brokers[0]["name"])
        self.pids: dict[str, int] = {node["name"]: node["pid"] for node in description["nodes"]}

    def kill_master(self) -> None:
        rmqlab(self._directory, "kill", "--name", self.name, f"{self.broker_name}:master")


def rmqlab(directory: Path, *args: str) -> str:
    """Run one command of ours, its clusters kept in `directory`.

    Returns its output.
    """
    if _RMQLAB is None:
        raise FileNotFoundError("no command rmqlab beside this Python or in PATH")
    done = subprocess.run(
        [_RMQLAB, *args],
        cwd=directory,
        env={**os.environ, "RMQLAB_HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=_UP_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"rmqlab {' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def started(directory: Path, role: str = "SYNC_MASTER") -> tuple[str, str]:
    """`rmqlab up` under a name that no other run uses.

    Returns that name and the output.
    """
    name = f"interop-{os.getpid()}-{next(_numbers)}"
    options = ["--slaves", "1", "--role", role, "--set", "serve_requests_of_5x=true"]  # for mqadmin 5.3.3
    return name, rmqlab(directory, "up", "--detach", "--json", "--name", name, *options)


def stopped(directory: Path, name: str) -> None:
    rmqlab(directory, "down", "--name", name)


@contextlib.contextmanager
def our_cluster(directory: Path, *, role: str = "SYNC_MASTER") -> Iterator[OurCluster]:
    """A nameserver, a master and a slave that acknowledges."""
    name, printed = started(directory, role)  # when `up` fails, it has cleaned up after itself
    try:
        cluster = OurCluster(directory, json.loads(printed))
        wait_replicating(cluster.master.address)
        yield cluster
    finally:
        stopped(directory, name)


def _broker(node: dict[str, Any]) -> Broker:
    return Broker(node["address"], node["ha_address"], Path(node["data_dir"]) / "store")
