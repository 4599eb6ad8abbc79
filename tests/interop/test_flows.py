"""Flows of the Java client, compared with what they print at a real broker.

`flows.txt` has the lines that a master and a nameserver of 4.9.7 cause. A flow prints no times, ids or addresses.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.conftest import SYSTEMS
from tests.interop.java import Java
from tests.interop.lonemaster import lone_master
from tests.interop.server import BrokerServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # the first test of all runs the flows

CORE = (
    "assigned", "byHand", "broadcasting", "deadLetters", "filtered", "directly", "offsets", "queries", "tables",
    "refused", "properties", "namespaces",
)  # fmt: skip
REST = (
    "subscribed", "bySql", "fromTimestamp", "orderly", "strategies", "thresholds", "unitMode", "disabledGroup",
    "suspended", "reset", "runningInfo", "compressed", "requests", "traces", "deadNameserver",
)  # fmt: skip
RECORDED = Path(__file__).with_name("flows.txt")

Lines = Mapping[str, list[str]]
_runs = itertools.count()


@pytest.fixture(scope="module", params=SYSTEMS)
def master(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerServer]:
    with lone_master(request.param, java, tmp_path_factory.mktemp("flows")) as server:
        yield server


@pytest.fixture(scope="module")
def core(java: Java, master: BrokerServer) -> Lines:
    return run(java, master, CORE)


@pytest.fixture(scope="module")
def rest(java: Java, master: BrokerServer) -> Lines:
    return run(java, master, REST)


@pytest.mark.parametrize("flow", CORE)
def test_a_flow_goes_as_with_4_9(core: Lines, flow: str) -> None:
    assert core[flow] == recorded()[flow]


@pytest.mark.long
@pytest.mark.parametrize("flow", REST)
def test_a_longer_flow_goes_as_with_4_9(rest: Lines, flow: str) -> None:
    assert rest[flow] == recorded()[flow]


def run(java: Java, master: BrokerServer, flows: tuple[str, ...]) -> Lines:
    """Return the lines of each flow; a failed one is named by its last line."""
    target = [f"namesrv={master.namesrv}", f"broker={master.address}", f"run=-r{next(_runs)}"]
    with java.start("Flows", *target, f"flows={','.join(flows)}") as program:
        program.wait_exit(120)
        return by_flow(program.lines)


def recorded() -> Lines:
    return by_flow(RECORDED.read_text().splitlines())


def by_flow(lines: list[str]) -> Lines:
    """Sort lines by the word before the first colon."""
    found: dict[str, list[str]] = {flow: [] for flow in (*CORE, *REST)}
    for line in lines:
        flow, _, _ = line.partition(":")
        if flow in found:
            found[flow].append(line)
    return found
