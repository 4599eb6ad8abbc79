"""Whole brokers over loopback sockets, with a nameserver of a few lines."""

import contextlib
import resource
import socket
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

import rmqlab.broker.main as broker_main
from rmqlab.broker.main import _close_store, _serve_group, main
from rmqlab.broker.testing import pull_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.runtime.boundary import FatalError
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.server import open_listener
from rmqlab.runtime.node.control import ControlLink
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import truncate
from tests.broker.brokerprocess import HOSTS, PATIENCE, RATE, Link, Running, World


async def test_a_broker_is_ready_when_its_nameserver_has_it(world: World) -> None:
    """store-ha#34: it registers its replication port, which is listen port + 1."""
    broker = await world.start("a")
    header = world.nameserver.brokers[0]
    assert header.broker_addr == broker.address == f"{HOSTS[0]}:10911"
    assert header.ha_server_addr == f"{HOSTS[0]}:10912"
    socket.create_connection((HOSTS[0], 10912)).close()
    await broker.stop()
    assert world.nameserver.left == [0]


async def test_a_failing_broker_reports_its_failure_before_it_closes_its_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.5: closing takes seconds, in which `status` must not show it as ready."""
    link, seen = Link(), list[bool]()
    close_store = _close_store

    async def die(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(link.is_stopping)
        raise FatalError("no descriptor is left")

    async def close(store: MessageStore, events: ControlLink) -> None:
        seen.append(link.is_stopping)
        await close_store(store, events)

    monkeypatch.setattr(broker_main, "run_broker", die)
    monkeypatch.setattr(broker_main, "_close_store", close)
    with pytest.raises(ExceptionGroup) as group:
        await main(world.settings("a"), link)
    assert group.group_contains(FatalError)
    assert seen == [False, True]


@pytest.mark.parametrize(("descriptors", "connections"), [(1024, 64), (65_536, 1024)])
def test_the_port_of_a_group_accepts_what_a_partition_leaves_behind(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, connections: int
) -> None:
    """Members connect again after each timeout.

    The ends of lost connections stay until they are idle for 120 s.
    """
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (descriptors, descriptors))
    reactor = Reactor()
    node = SimpleNamespace(routes=dict)
    link = SimpleNamespace(errors=reactor.errors, emit=None)
    broker = SimpleNamespace(server_channel_max_idle_time_seconds=120)
    env = SimpleNamespace(
        link=link, reactor=reactor, replication=reactor.meter, settings=SimpleNamespace(broker=broker)
    )
    server = _serve_group(cast("Any", SimpleNamespace(node=node)), cast("Any", env), open_listener("127.0.0.1", 0))
    assert server._max_connections == connections
    server.close()
    reactor.close()


async def test_the_vip_port_serves_all_but_pulls(world: World) -> None:
    broker = await world.start("a")
    assert (await world.send(broker)).code == ResponseCode.SUCCESS
    pull = request(RequestCode.PULL_MESSAGE, pull_fields("BenchmarkTest"))
    assert (await world.client.request(f"{HOSTS[0]}:10909", pull, 60)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    config = request(RequestCode.GET_BROKER_CONFIG)
    assert (await world.client.request(f"{HOSTS[0]}:10909", config, 60)).code == ResponseCode.SUCCESS
    await broker.stop()


async def test_a_slave_finds_its_master_replicates_its_log_and_serves_pulls(
    world: World, fast_clock: trio.testing.MockClock
) -> None:
    """store-ha#48: the slave's queues end where the master's do.

    store-ha#66: it serves pulls by default.
    """
    fast_clock.rate = RATE / 5  # requests between the two have 3 s of it
    patience: dict[str, Any] = {"slave_timeout": 600_000, "ha_housekeeping_interval": 600_000}
    master = await world.start("a", broker_role="SYNC_MASTER", **patience)
    assert (await world.send(master)).code == ResponseCode.SLAVE_NOT_AVAILABLE
    slave = await world.start("s", HOSTS[1], broker_role="SLAVE", broker_id=1)
    await world.until(lambda: any(one["in_sync"] for one in master.link.snapshot()["ha"]["connections"]))
    for _ in range(20):
        assert (await world.send(master)).code == ResponseCode.SUCCESS
    ends = [(one.link.snapshot()["commit_log"]["max"]) for one in (master, slave)]
    assert ends[0] == ends[1]
    await world.until(lambda: slave.link.snapshot()["commit_log"]["dispatched"] == ends[1])
    responses = [
        await world.client.request(
            one.address, request(RequestCode.PULL_MESSAGE, pull_fields("BenchmarkTest")), PATIENCE
        )
        for one in (master, slave)
    ]
    assert responses[0].body == responses[1].body
    assert responses[1].ext_fields["maxOffset"] == "21"
    refused = await world.send(slave)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    await slave.stop()
    await master.stop()
    logs = [(world.tmp_path / name / "commitlog" / f"{0:020d}").read_bytes() for name in ("a", "s")]
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("profile", "offset"), [pytest.param("4.9", 10, id="4.9"), pytest.param("hardened", 15, id="hardened")]
)
async def test_a_group_has_the_expected_offset_after_its_master_returns(
    world: World, fast_clock: trio.testing.MockClock, profile: str, offset: int
) -> None:
    """Scenario 7, store-ha#69: 4.9 falls back, the switches keep the progress.

    4.9 returns to the offset that the master knew.
    """
    assert fast_clock.rate == RATE

    async def commit(broker: Running, offset: int) -> None:
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
        await world.client.request(broker.address, request(RequestCode.UPDATE_CONSUMER_OFFSET, fields), PATIENCE)

    def offsets(broker: Running) -> int:
        return int(broker.link.snapshot()["consumer_offsets"].get("T@g", {}).get(0, -1))

    async def until_offset(broker: Running, wanted: int) -> None:
        while offsets(broker) != wanted:  # noqa: ASYNC110 - what is waited for lies in another task's state
            await trio.sleep(0.2)

    master = await world.start("a", profile=profile)
    slave = await world.start("s", HOSTS[1], broker_role="SLAVE", broker_id=1, profile=profile)
    await commit(master, 10)
    await until_offset(slave, 10)
    await master.stop()
    await commit(slave, 15)
    master = await world.start("a", profile=profile)
    for broker in (slave, master):
        await until_offset(broker, offset)
    await slave.stop()
    await master.stop()


@pytest.mark.parametrize(
    ("profile", "is_same"), [pytest.param("4.9", False, id="4.9"), pytest.param("hardened", True, id="hardened")]
)
async def test_a_slave_ahead_of_a_master_that_lost_its_last_messages(
    world: World, fast_clock: trio.testing.MockClock, profile: str, *, is_same: bool
) -> None:
    """Scenario 16, section 4.9: the logs differ for good in 4.9, the switches mend it.

    In 4.9 both brokers look healthy.
    """
    assert fast_clock.rate == RATE

    def end_of(broker: Running) -> int:
        return int(broker.link.snapshot()["commit_log"]["max"])

    async def until_caught_up() -> None:
        await world.until(lambda: end_of(slave) == end_of(master) and master.link.snapshot()["ha"]["connections"])

    master = await world.start("a", profile=profile)
    slave = await world.start("s", HOSTS[1], broker_role="SLAVE", broker_id=1, profile=profile)
    for _ in range(3):
        await world.send(master, b"on disk")
    kept = end_of(master)
    for _ in range(3):
        await world.send(master, b"not on disk")
    await until_caught_up()
    await master.stop()
    store = MessageStore.open(world.settings("a").store, now_millis=lambda: 0)
    truncate(store, kept)  # as a power loss does
    store.close()
    master = await world.start("a", profile=profile)
    for _ in range(9):
        await world.send(master, b"new, and longer than what was lost")
    await until_caught_up()
    await slave.stop()
    await master.stop()
    logs = [(world.tmp_path / name / "commitlog" / f"{0:020d}").read_bytes() for name in ("a", "s")]
    assert (logs[0] == logs[1]) is is_same


async def test_a_master_ignores_ha_master_address(world: World, fast_clock: trio.testing.MockClock) -> None:
    """Section 4.1: haMasterAddress is a slave's key.

    A master that obeyed it would write another's log into its own.
    """
    assert fast_clock.rate == RATE
    with open_listener(HOSTS[2], 10912) as other:
        master = await world.start("a", ha_master_address=f"{HOSTS[2]}:10912")
        await trio.sleep(15)
        with pytest.raises(BlockingIOError):
            other.accept()
        await master.stop()


async def test_an_async_master_never_speaks_of_slaves(world: World) -> None:
    """store-ha#54."""
    master = await world.start("a", broker_role="ASYNC_MASTER")
    assert (await world.send(master)).code == ResponseCode.SUCCESS
    with contextlib.closing(socket.create_connection((HOSTS[0], 10912))):  # a slave that says nothing
        await world.until(lambda: master.link.snapshot()["ha"]["connections"])
        assert (await world.send(master)).code == ResponseCode.SUCCESS
    await master.stop()


async def test_a_silent_slave_costs_three_to_four_seconds(world: World, fast_clock: trio.testing.MockClock) -> None:
    """store-ha#51: five sends at once, all with replies within that time."""
    assert fast_clock.rate == RATE
    master = await world.start("a", broker_role="SYNC_MASTER", ha_housekeeping_interval=6_000_000)
    with contextlib.closing(socket.create_connection((HOSTS[0], 10912))):
        await world.until(lambda: master.link.snapshot()["ha"]["connections"])
        codes: list[int] = []

        async def send() -> None:
            codes.append((await world.send(master)).code)

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send)
        assert codes == [ResponseCode.FLUSH_SLAVE_TIMEOUT] * 5
        assert trio.current_time() - began >= 3.0
    await master.stop()


async def test_sync_flush_answers_when_it_is_on_disk(world: World) -> None:
    master = await world.start("a", flush_disk_type="SYNC_FLUSH", sync_flush_timeout=60_000)
    reply = await world.send(master)
    facts = master.link.snapshot()["commit_log"]
    assert reply.code == ResponseCode.SUCCESS
    assert facts["flushed"] == facts["max"]
    await master.stop()


async def test_stored_messages_survive_a_restart(world: World) -> None:
    for start in range(3):
        broker = await world.start("a")
        assert int((await world.send(broker)).ext_fields["queueOffset"]) == start
        await broker.stop()


async def test_a_slowly_closing_store_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the supervisor would take it for one that hangs, and kill it."""

    class SlowStore:
        offset = 0
        was_looked_at, was_seen = threading.Event(), threading.Event()

        @property
        def indexed_offset(self) -> int:
            self.was_looked_at.set()
            return self.offset

        def close(self) -> None:
            assert self.was_looked_at.wait(60)  # what is there at the first look is no news
            self.offset = 7
            assert self.was_seen.wait(60)

    store, events = SlowStore(), []

    def emit(kind: str, **fields: object) -> None:
        events.append((kind, fields))
        if fields["offset"] == 7:
            store.was_seen.set()

    monkeypatch.setattr("rmqlab.broker.main.PROGRESS_PERIOD", 0.01)
    link = Link()
    monkeypatch.setattr(link, "emit", emit)
    await _close_store(cast("MessageStore", store), link)
    assert events[-1] == ("indexing", {"offset": 7})
