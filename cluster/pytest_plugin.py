"""The pytest plugin: a RocketMQ cluster as a fixture for tests of applications.

    def test_no_order_is_lost(rmq_cluster):
        rmq_cluster.kill("broker-a:master")
        ...

`rmq_cluster` is a `rmqlab.cluster.blocking.BlockingCluster` for each test: one nameserver, a master and a slave, in
real time. `@pytest.mark.rmq_cluster(role="SYNC_MASTER", groups=2)` sets keys of
`rmqlab.cluster.supervisor.plan.topology.ClusterSpec`. For another scope, make a fixture of your own in conftest.py:

    from rmqlab.cluster.pytest_plugin import cluster_fixture

    shop_cluster = cluster_fixture(scope="module", role="SYNC_MASTER")

`rmq_trio_cluster` is the same as a `rmqlab.cluster.lab.Cluster`, for tests that run in trio (pytest-trio).

Each cluster has a directory below pytest's temporary directory and addresses of its own, so parallel pytest processes
do not disturb each other. The report of a failed test includes the latest events of its clusters.
"""

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:  # pytest loads this file in every suite of the environment: its import must be cheap
    from rmqlab.cluster.blocking import BlockingCluster
    from rmqlab.cluster.lab import Cluster
    from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
    from rmqlab.cluster.supervisor.plan.topology import ClusterSpec

Scope = Literal["session", "package", "module", "class", "function"]

MARK = "rmq_cluster"
_EVENT_LINES = 40
_LINE_WIDTH = 120
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", f"{MARK}(**keys): the cluster of this test; keys of ClusterSpec")


def cluster_fixture(scope: Scope = "function", **keys: Any) -> Callable[..., Any]:
    """Return a fixture that yields a `BlockingCluster`.

    Keys are those of ClusterSpec; a mark of the test adds to them.

    An invalid key fails the test with its name and what was expected.
    """

    @pytest.fixture(scope=scope)
    def cluster(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> "Iterator[BlockingCluster]":
        from rmqlab.cluster.blocking import BlockingCluster  # noqa: PLC0415 -- see above

        spec, directory = _place(request, tmp_path_factory, keys)
        with _settings_named(), BlockingCluster(spec, directory) as running:
            yield running

    return cluster


rmq_cluster = cluster_fixture()


@pytest.fixture
async def rmq_trio_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "AsyncIterator[Cluster]":
    """A cluster for a test that runs in trio."""
    from rmqlab.cluster.lab import open_cluster  # noqa: PLC0415 -- see above

    spec, directory = _place(request, tmp_path_factory, {})
    with _settings_named():
        async with open_cluster(spec, directory=directory) as cluster:
            yield cluster


@contextlib.contextmanager
def _settings_named() -> Iterator[None]:
    """Fail a test with invalid broker settings by their names, without a traceback."""
    from rmqlab.cluster.supervisor.check_settings import BadSettingsError  # noqa: PLC0415 -- see above

    try:
        yield
    except BadSettingsError as exc:
        raise _failure(str(exc)) from None


def _failure(text: str) -> BaseException:
    """Return the failure of a test because of its mark."""
    failure: BaseException = pytest.fail.Exception(f"{MARK}: {text}", pytrace=False)
    return failure


def _place(
    request: pytest.FixtureRequest, factory: pytest.TempPathFactory, keys: dict[str, Any]
) -> "tuple[ClusterSpec, ClusterDirectory]":
    import attrs  # noqa: PLC0415 -- see above

    from rmqlab.cluster.supervisor.files.directory import ClusterDirectory  # noqa: PLC0415 -- see above
    from rmqlab.cluster.supervisor.plan.topology import ClusterSpec  # noqa: PLC0415 -- see above
    from rmqlab.runtime.text.nearmiss import near_miss  # noqa: PLC0415 -- see above

    mark = request.node.get_closest_marker(MARK)
    if mark and mark.args:
        raise _failure(f"{mark.args[0]!r}: expected keys of ClusterSpec, such as slaves=2")
    given = {"name": f"rmq-{next(_numbers)}", **keys, **(mark.kwargs if mark else {})}
    known = [field.name for field in attrs.fields(ClusterSpec)]
    for key in given.keys() - known:
        hint = near_miss(key, known) or f"; expected {', '.join(known)}; broker settings go to broker_settings"
        raise _failure(f"unknown key {key}{hint}")
    try:
        spec = ClusterSpec(**given)
    except (TypeError, ValueError) as exc:
        raise _failure(exc.args[0]) from None
    return spec, ClusterDirectory(factory.mktemp(spec.name), is_lasting=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the latest events of its clusters to the report of a failed test."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            directory = _directory_of(value)
            if directory is not None:
                report.sections.append((f"what happened in {name}, see {directory.path}", _history(directory)))
    return report


def _directory_of(value: object) -> "ClusterDirectory | None":
    """Return the directory of a cluster from one of our fixtures.

    None for another value.
    """
    supervisor = getattr(value, "supervisor", None)
    found = getattr(value, "directory", None) or getattr(supervisor, "directory", None)
    return found if type(found).__name__ == "ClusterDirectory" else None


def _history(directory: "ClusterDirectory") -> str:
    from rmqlab.cluster.scenario.history import history_lines  # noqa: PLC0415 -- see above
    from rmqlab.runtime.journals.journalreader import read_journals  # noqa: PLC0415 -- see above

    lines = list(history_lines(read_journals(directory.journal_dir)))[-_EVENT_LINES:]
    return "\n".join(line if len(line) <= _LINE_WIDTH else f"{line[: _LINE_WIDTH - 1]}…" for line in lines)
