"""Clients beside those of Java 4.9 and 5: Java 4.2.0 and 4.7.1, Spring, Go."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import SYSTEMS
from tests.interop.java import OLD_CLIENTS, Java
from tests.interop.lonemaster import lone_master
from tests.interop.test_suites_of_applications import run_suite

pytestmark = [pytest.mark.interop, pytest.mark.long]

HERE = Path(__file__).parent
COUNT = 40
DELAY_MILLIS = 5000
"""Level 2."""
FEATURES = ("sync", "async", "oneway", "batch", "delay", "orderly", "tag", "sql")


@pytest.fixture(scope="module", params=SYSTEMS)
def namesrv(request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lone_master(request.param, java, tmp_path_factory.mktemp("older")) as broker:
        yield broker.namesrv


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("release", OLD_CLIENTS)
def test_an_older_java_client_gets_what_it_sent(java: Java, namesrv: str, release: str, feature: str) -> None:
    with java.start_old_client(release, namesrv, feature, str(COUNT)) as client:
        rows = [line.split()[1:] for line in client.finish() if line.startswith("GOT ")]
    wanted = {"sql": range(10, 20), "tag": range(1, COUNT, 2)}.get(feature, range(COUNT))
    assert sorted(body for body, *_ in rows) == sorted(f"m-{number}" for number in wanted)
    if feature == "delay":
        assert min(int(stored) - int(born) for _, _, born, stored in rows) >= DELAY_MILLIS
    if feature == "orderly":
        for key in ("k0", "k1", "k2"):
            numbers = [int(body[2:]) for body, own, *_ in rows if own == key]
            assert numbers == sorted(numbers)


def test_a_spring_application_sends_and_listens(java: Java, namesrv: str) -> None:
    """rocketmq-spring-boot-starter 2.2.3 with the client of 4.9.8.

    Sync, async, orderly and delayed sends, SQL92, transactions, request and reply.
    """
    arguments = [f"--rocketmq.name-server={namesrv}", "--rocketmq.producer.group=spring-shop"]
    with java.start_spring(*arguments, "--rocketmq.producer.send-message-timeout=20000") as shop:
        lines = shop.finish(300)
    got: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("GOT "):
            _, listener, payload = line.split()
            got.setdefault(listener, []).append(payload)
    assert got["orderly"] == [f"o-{number}" for number in range(10)]
    assert sorted(got["sync"]) == sorted([f"{kind}-{number}" for kind in "as" for number in range(10)] + ["d-0"])
    assert sorted(got["sql"]) == [f"q-{number}" for number in range(5, 10)]
    assert sorted(got["transaction"]) == ["commit", "late-commit"]
    assert "REPLY ping-pong" in lines


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_the_go_client_does_what_it_can_through_a_kill(tmp_path: Path) -> None:
    """Sends of all kinds, transactions, orderly, SQL92, traces, a killed master."""
    shutil.copytree(HERE.parents[1] / "examples" / "go", tmp_path / "examples" / "go")
    folder = shutil.copytree(HERE / "goclient", tmp_path / "tests" / "interop" / "goclient")
    rmqlab = str(Path(sys.executable).with_name("rmqlab"))
    output = run_suite(folder, ["go", "test", "-v", "-count=1", "./..."], {"RMQLAB_COMMAND": rmqlab})
    assert output.count("    --- PASS: TestTheGoClient/") == 10
