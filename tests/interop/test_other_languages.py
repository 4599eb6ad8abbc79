"""The C++ and the JavaScript client, against real RocketMQ and ours."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import rawrequest
from tests.interop.child import Child
from tests.interop.conftest import SYSTEMS
from tests.interop.java import Java
from tests.interop.lonemaster import lone_master
from tests.interop.server import BrokerServer
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

HERE = Path(__file__).parent
COUNT = 40
DELAY_MILLIS = 5000
"""Level 2."""
INSTALL_SECONDS = 300


@attrs.frozen
class Client:
    """A program that sends or consumes with the client of a language."""

    name: str
    command: tuple[str, ...]
    home: Path

    def start(self, namesrv: str, action: str, topic: str, feature: str, count: int = COUNT) -> Child:
        """Start it; see the program for its arguments."""
        argv = [*self.command, namesrv, action, topic, feature, str(count)]
        return Child(f"{self.name} {action}", argv, env={"HOME": str(self.home)})


@pytest.fixture(scope="session")
def cpp_client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The client in a virtual environment. The package has it as a library."""
    if platform.machine() != "x86_64":
        pytest.skip("the package rocketmq has a library for x86_64 only")
    home = tmp_path_factory.mktemp("cpp")
    install(sys.executable, "-m", "venv", str(home / "venv"))
    python = home / "venv" / "bin" / "python"
    install(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "rocketmq==0.4.4")
    return Client("C++", (str(python), str(HERE / "cppclient" / "client.py")), home)


@pytest.fixture(scope="session")
def js_client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    if shutil.which("npm") is None:
        pytest.skip("needs Node.js and npm")
    home = tmp_path_factory.mktemp("js")
    program = shutil.copytree(HERE / "jsclient", home / "program")
    install("npm", "install", "--prefix", str(program), "--no-audit", "--no-fund", "--silent")
    return Client("JavaScript", ("node", str(program / "client.js")), home)


@pytest.fixture(scope="module", params=SYSTEMS)
def master(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerServer]:
    with lone_master(request.param, java, tmp_path_factory.mktemp("languages")) as broker:
        yield broker


def install(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("feature", ["sync", "async", "oneway", "orderly", "tag", "delay"])
def test_the_cpp_client_gets_what_it_sent(cpp_client: Client, master: BrokerServer, feature: str) -> None:
    check_feature(cpp_client, master, f"Cpp-{feature}", feature)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("feature", ["sync", "orderly", "tag", "delay", "retry"])
def test_the_javascript_client_gets_what_it_sent(js_client: Client, master: BrokerServer, feature: str) -> None:
    check_feature(js_client, master, f"Js-{feature}", feature)


def check_feature(client: Client, master: BrokerServer, topic: str, feature: str) -> None:
    rawrequest.create_topic(master.address, topic)
    with client.start(master.namesrv, "send", topic, feature) as sending:
        sending.finish()
    wanted = range(1, COUNT, 2) if feature == "tag" else range(COUNT)
    with client.start(master.namesrv, "consume", topic, feature, len(wanted)) as consuming:
        rows = received(consuming)
    assert sorted(body for body, *_ in rows) == sorted(f"m-{number}" for number in wanted)
    if feature == "delay":
        assert min(stored - born for _, born, stored, _ in rows) >= DELAY_MILLIS
    if feature == "orderly":
        for queue in {queue for *_, queue in rows}:
            numbers = [int(body[2:]) for body, _, _, own in rows if own == queue]
            assert numbers == sorted(numbers)


def received(consuming: Child) -> list[tuple[str, int, int, int]]:
    """Return body, born time, store time and queue of each message."""
    rows = [line.split()[1:] for line in consuming.finish() if line.startswith("GOT ")]
    return [(body, int(born), int(stored), int(queue)) for body, born, stored, queue in rows]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["cpp_client", "js_client"])
def test_a_consumer_reads_all_from_the_slave_of_a_killed_master(
    request: pytest.FixtureRequest, mortal: Cluster, name: str
) -> None:
    """broker-requests#66: a consumer that starts after the kill. As with Java."""
    client: Client = request.getfixturevalue(name)
    rawrequest.create_topic(mortal.master.address, "Orphans")
    with client.start(mortal.namesrv, "send", "Orphans", "sync") as sending:
        sending.finish()
    wait_until(lambda: rawrequest.knows_topic(mortal.slave.address, "Orphans"), "the slave knows the topic")
    mortal.kill_master()
    wait_until(
        lambda: rawrequest.route_of(mortal.namesrv, "Orphans") == {mortal.broker_name: {1: mortal.slave.address}},
        "the route has the slave only",
        timeout=30,
    )
    with client.start(mortal.namesrv, "consume", "Orphans", "sync") as consuming:
        assert {body for body, *_ in received(consuming)} == {f"m-{number}" for number in range(COUNT)}
