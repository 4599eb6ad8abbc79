"""Clusters to test: ours, and beside it a real one to compare with.

With RMQLAB_INTEROP_BASELINE=both every check that can runs against the real cluster as well, with =only against
that alone: a check that real RocketMQ fails proves nothing about us.

`make interop` runs the core, which fits into CI. Tests marked `long` are in `make interop-all` only.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import maven
from tests.interop.java import Java, Mqadmin
from tests.interop.ours import OurCluster, our_cluster
from tests.interop.realrocketmq import RealCluster, real_cluster
from tests.interop.topology import Cluster

SYSTEMS = {"": ["ours"], "both": ["real", "ours"], "only": ["real"]}[os.environ.get("RMQLAB_INTEROP_BASELINE", "")]
MIXED = {
    "": [("ours", "real"), ("real", "ours")],
    "both": [("real", "real"), ("ours", "real"), ("real", "ours")],
    "only": [("real", "real")],
}[os.environ.get("RMQLAB_INTEROP_BASELINE", "")]
MIXED_WITH_5 = {
    "": [("ours", "real5"), ("real5", "ours")],
    "both": [("real", "real5"), ("real5", "real"), ("ours", "real5"), ("real5", "ours")],
    "only": [("real", "real5"), ("real5", "real")],
}[os.environ.get("RMQLAB_INTEROP_BASELINE", "")]
"""Servers of RocketMQ 5 beside ours, or beside those of 4.9."""
MIXED_WITH_ALL = [*MIXED, *(pytest.param(kinds, marks=pytest.mark.long) for kinds in MIXED_WITH_5)]
_TOOLS_MISSING = 3  # exit code: not passed, and no test failed either


def pytest_sessionstart(session: pytest.Session) -> None:
    """End with a message if the machine cannot run the requested tests."""
    if session.config.option.markexpr.split()[:1] == ["interop"] and (missing := maven.missing_tools()):
        pytest.exit(
            f"interop tests not run: {', '.join(missing)} not found (a JDK 11+ and Maven are needed)",
            returncode=_TOOLS_MISSING,
        )


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    return Java(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def mqadmin(java: Java) -> Iterator[Mqadmin]:
    with Mqadmin(java) as running:
        yield running


@pytest.fixture(scope="session")
def real_shared(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A real cluster for tests that change only their own topics and groups."""
    with real_cluster(java, tmp_path_factory.mktemp("real")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def our_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    with our_cluster(tmp_path_factory.mktemp("ours")) as cluster:
        yield cluster


@pytest.fixture(params=SYSTEMS)
def shared(request: pytest.FixtureRequest) -> Cluster:
    """A running cluster that other tests use too."""
    cluster: Cluster = request.getfixturevalue("real_shared" if request.param == "real" else "our_shared")
    return cluster


@pytest.fixture(params=SYSTEMS)
def mortal(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of this test's own, to be broken."""
    with real_cluster(java, tmp_path) if request.param == "real" else our_cluster(tmp_path) as cluster:
        yield cluster
