"""Wrong calls of the Python API.

Each kind of mistake has one exception, which names it and what was expected.
"""

import asyncio
import math
import os
import pathlib
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.faults.random_player import play_random_faults
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster, ClusterClosedError, WaitTimeoutError, open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.faults import DiskFull, FaultError, Latency, fault_of
from tests.cluster.fakes import FAKES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRODUCE = "rmqlab.cluster.workload.produce"
NOT_TEXTS: list[Any] = [None, 5, math.nan, b"broker-a", ["broker-a"], {}]
OF_TEXTS = ("kill", "isolate", "mark", "snapshot", "add_group", "add_slave", "add_nameserver", "remove")


async def test_a_wrong_type_is_a_type_error_that_names_the_argument(tmp_path: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        given: Any = cluster
        for method in OF_TEXTS:
            for value in NOT_TEXTS:
                with pytest.raises(TypeError, match=r"^(target|text|name|group|nodes) = .*: expected a text$"):
                    await getattr(given, method)(value)
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: given.kill("broker-a", None), "more = None: expected a text"),
            (given.kill, "missing a required argument: 'target'"),
            (lambda: given.act("kill", "broker-a"), "action = 'kill': expected a NodeAction"),
            (lambda: given.fault({"type": "disk"}), "fault = {'type': 'disk'}: expected a Fault"),
            (lambda: given.heal(5), "fault = 5: expected an ActiveFault or a text"),
            (lambda: given.wait_until(None), "condition = None: expected a text or a function"),
            (lambda: given.wait_until("ready", "1"), r"seconds = '1': expected a number of seconds from 0 to 10\*\*9"),
            (lambda: given.wait_until("ready", True), "seconds = True: expected a number"),
            (lambda: given.wait_until(asleep), "condition asleep: returned .*: expected true or false"),
            (lambda: given.change_settings("broker-a", {1: 2}), "settings = {1: 2}: expected a mapping of texts"),
            (
                lambda: given.add_slave("broker-a", []),
                r"settings = \[\]: expected a mapping of texts to values or None",
            ),
            (lambda: given.run_workload(PRODUCE, None), "config = None: expected a mapping"),
            (lambda: play_random_faults(given, given, given), "faults = .*: expected a RandomFaults"),
        ]
        for call, said in calls:
            with pytest.raises(TypeError, match=said):
                await call()
        assert [node["state"] for node in (await cluster.status())["nodes"]] == ["ready"] * 3


async def asleep(_document: object) -> bool:
    await trio.lowlevel.checkpoint()
    return False


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, 10**10])
async def test_a_time_that_cannot_be_waited_is_a_value_error(tmp_path: pathlib.Path, seconds: float) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        with pytest.raises(ValueError, match=rf"seconds = {seconds}: expected a number of seconds from 0 to 10\*\*9"):
            await cluster.wait_until("ready", seconds)
        with pytest.raises(ValueError, match=r"seconds = .*: expected a number of seconds from 0 to 10\*\*9"):
            await cluster.snapshot("broker-a", seconds)


async def test_an_invalid_module_of_a_workload_is_a_value_error(tmp_path: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        for module in ("", "no module", ".x", "x."):
            with pytest.raises(ValueError, match=rf"module = '{module}': expected the name of a Python module"):
                await cluster.run_workload(module, {})
        assert set(cluster.supervisor.nodes) == {"namesrv-1", "broker-a", "broker-a-s"}


async def test_a_stopped_cluster_is_named_by_every_call(tmp_path: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        record = cluster.supervisor.directory.record_path
    kept = record.read_bytes()
    calls: list[Callable[[Cluster], Any]] = [
        lambda closed: closed.restart("broker-a"),
        lambda closed: closed.mark("x"),
        lambda closed: closed.fault(DiskFull(target="broker-a")),
        lambda closed: closed.remove("broker-a-s"),
        lambda closed: closed.status(),
        lambda closed: closed.wait_until("ready", 0),
        lambda closed: closed.run_workload(PRODUCE, {}),
    ]
    for call in calls:
        with pytest.raises(ClusterClosedError, match="cluster x has stopped"):
            await call(cluster)
    assert record.read_bytes() == kept
    assert cluster.journal()
    assert [*cluster.events]


def test_a_cluster_needs_trio(tmp_path: pathlib.Path) -> None:
    async def enter() -> None:
        async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab"):
            pass

    with pytest.raises(RuntimeError, match=r"open_cluster needs trio.*BlockingCluster"):
        asyncio.run(enter())
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("name", None, "name = None: expected a text"),
        ("groups", 1.5, "groups = 1.5: expected a whole number"),
        ("slaves", True, "slaves = True: expected a whole number"),
        ("rate", "5", "rate = '5': expected a number"),
        ("single_address", "no", "single_address = 'no': expected true or false"),
        ("broker_settings", None, "broker_settings = None: expected a mapping of texts to values"),
        ("node_settings", {"broker-a": 5}, "node_settings = {'broker-a': 5}: expected a mapping of texts to mappings"),
        ("added", ["broker-b"], r"added = \['broker-b'\]: expected a tuple of texts"),
    ],
)
def test_a_specification_names_the_key(key: str, value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        ClusterSpec(**{key: value})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"src": None, "dst": "b", "millis": 1}, "link: src = None: expected a text"),
        ({"src": "a", "dst": "b", "millis": "1"}, "link: millis = '1': expected a number"),
        ({"src": "a", "dst": "b", "millis": None}, "link: millis = None: expected a number"),
        ({"src": "a", "dst": "b", "millis": 1, "both_ways": "yes"}, "link: both_ways = 'yes': expected true or false"),
        (
            {"src": "a", "dst": "b", "millis": 1, "jitter_millis": []},
            r"jitter_millis = \[\]: expected a number or None",
        ),
    ],
)
def test_a_fault_names_the_wrong_value(values: dict[str, Any], said: str) -> None:
    with pytest.raises(FaultError, match=said):
        Latency(**values)


@pytest.mark.parametrize("values", [None, 5, "x", [], {1: 2}])
def test_the_values_of_a_fault_are_a_mapping(values: Any) -> None:
    with pytest.raises(TypeError, match=r": expected the values of a fault, such as \{\"type\":"):
        fault_of(values)
    for key in ("type", "kind"):
        with pytest.raises(FaultError, match=r"expected one of"):
            fault_of({"type": "link", key: []})


def test_random_faults_name_the_wrong_value() -> None:
    given: Any = RandomFaults
    for key, value in (("seed", None), ("every", "5"), ("of", "kill"), ("of", None), ("on", 5), ("count", 1.5)):
        with pytest.raises(TypeError, match=f"{key} = .*: expected "):
            given(**{key: value})
    for value in (0.0, math.nan, math.inf):
        with pytest.raises(FaultError, match=r"every = .*: expected more than 0 seconds"):
            RandomFaults(every=value)


# ---- without trio ----------------------------------------------------------------------------------------


def test_a_blocking_cluster_takes_a_path_and_runs_once(tmp_path: pathlib.Path) -> None:
    blocking: Any = BlockingCluster
    for arguments, said in (
        ((None,), "spec = None: expected a ClusterSpec"),
        ((ClusterSpec(), 5), "directory = 5: expected a ClusterDirectory, a text, a PathLike or None"),
        ((ClusterSpec(), b"/tmp"), "directory = b'/tmp': expected"),
    ):
        with pytest.raises(TypeError, match=said):
            blocking(*arguments)
    with pytest.raises(ValueError, match="directory = '': expected a path"):
        BlockingCluster(ClusterSpec(), "")
    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), str(tmp_path / "lab"))
    with pytest.raises(ClusterClosedError, match="cluster x has not been started"):
        lab.kill("broker-a")
    with pytest.raises(ClusterClosedError, match="cluster x has not been started"):
        lab.journal()
    with lab as cluster:
        given: Any = cluster
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: given.kill(None), "target = None: expected a text"),
            (lambda: given.consume("orders", None), "count = None: expected a whole number"),
            (lambda: given.produce(None, 1), "topic = None: expected a text"),
        ]
        for call, said in calls:
            with pytest.raises(TypeError, match=said):
                call()
        for call, said in (
            (lambda: cluster.produce("a b", 1), "topic 'a b' has a character other than"),
            (lambda: cluster.consume("", 1), "the topic is blank"),
            (lambda: cluster.produce("orders", 1, group="a b"), "group 'a b' has a character other than"),
        ):
            with pytest.raises(ValueError, match=said):
                call()
        with pytest.raises(WaitTimeoutError, match="'killed broker-a' is not true"):
            cluster.wait_until("killed broker-a", 0)
        marked: list[list[str]] = []
        other = threading.Thread(target=lambda: marked.append(cluster.mark("from another thread")))
        other.start()
        other.join()
        assert marked == [["namesrv-1", "broker-a"]]
    with pytest.raises(ClusterClosedError, match="cluster x has stopped: expected a call in its `with` block"):
        cluster.status()
    with pytest.raises(ClusterClosedError, match="cluster x was started before"), lab:
        pass
    assert cluster.journal()
    assert cluster.findings()["lost"].missing == "no workload of the journal sent anything"


def test_a_blocking_cluster_keeps_its_clock_for_the_next_start(tmp_path: pathlib.Path) -> None:
    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path / "lab")
    with lab as cluster:
        started_at = cluster.status()["clock_millis"]
    kept = lab.directory.read_record()
    assert kept is not None
    assert kept.clock_millis >= started_at


def test_an_exception_in_the_block_of_a_blocking_cluster_is_raised_after_its_end(tmp_path: pathlib.Path) -> None:
    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path / "lab")
    with pytest.raises(KeyboardInterrupt), lab:
        raise KeyboardInterrupt
    assert lab.journal()[-1].kind in ("journal_closed", "cluster_stopped")
    kept = lab.directory.read_record()
    assert kept is not None
    assert kept.clock_millis > 0


@pytest.fixture
def interruptible() -> "Iterator[None]":
    """Let SIGINT raise KeyboardInterrupt.

    A shell lets what it runs in the background ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_at_the_end_lets_a_blocking_cluster_stop_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_all = Supervisor.stop_all

    async def interrupted(supervisor: Supervisor) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop_all(supervisor)

    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path / "lab")
    monkeypatch.setattr(Supervisor, "stop_all", interrupted)
    with pytest.raises(KeyboardInterrupt), lab:
        pass
    lab._thread.join()
    assert lab.journal()[-1].kind in ("journal_closed", "cluster_stopped")


async def test_a_blocking_cluster_does_not_block_trio(tmp_path: pathlib.Path) -> None:
    lab = BlockingCluster(ClusterSpec(name="x"), tmp_path / "lab")
    with pytest.raises(RuntimeError, match=r"would block trio's event loop: expected open_cluster"), lab:
        pass
    await trio.lowlevel.checkpoint()


def test_an_interrupt_at_the_start_stops_a_blocking_cluster(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path / "lab")
    monkeypatch.setattr(lab, "_ready", Interrupted())
    with pytest.raises(KeyboardInterrupt), lab:
        pass
    assert not lab._thread.is_alive()


class Interrupted:
    """A future whose reader is interrupted by Ctrl-C."""

    def result(self) -> Cluster:
        raise KeyboardInterrupt

    def done(self) -> bool:
        return False

    def set_result(self, _cluster: Cluster) -> None:
        """The cluster has started meanwhile."""

    def set_exception(self, _failure: BaseException) -> None:
        """It has not."""


def test_a_failed_start_is_named_by_later_calls(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lab" / "broker-a" / "store").mkdir(parents=True)
    (tmp_path / "lab" / "broker-a" / "store" / "commitlog").write_text("no directory")
    lab = BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path / "lab")
    with pytest.raises(NodeFailedError, match="broker-a"), lab:
        pass
    with pytest.raises(ClusterClosedError, match="cluster x has not been started"):
        lab.status()
