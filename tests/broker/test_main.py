"""Whole brokers over loopback sockets, with a nameserver of a few lines."""

import contextlib
import os
import pathlib
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

import rmqlab.broker.main as broker_main
from rmqlab.broker.config import BrokerSettings, load_config
from rmqlab.broker.main import _close_store, main
from rmqlab.broker.testing import SMALL_FILES, pull_fields, send_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.headers.nameserver import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rmqlab.runtime.boundary import FatalError
from rmqlab.runtime.control import ControlLink
from rmqlab.runtime.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.process import StartError
from rmqlab.runtime.reactor import open_reactor
from rmqlab.runtime.remoting_client import RemotingClient
from rmqlab.runtime.server import Server, open_listener
from rmqlab.runtime.settings import SettingsError
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import truncate

RATE = 50.0
PATIENCE = 3600.0
"""Seconds for an answer: more than a minute of the machine's, however fast the clock runs."""
HOSTS = tuple(f"{os.environ.get('RMQLAB_NETWORK', '127.77')}.0.{number}" for number in (1, 2, 3))


class Link(ControlLink):
    """A control channel to nobody, whose readiness can be waited for."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.told_ready = trio.Event()
        self.facts: dict[str, Any] = {}
        self.ask: Callable[[], Any] = dict

    def ready(self, **facts: object) -> None:
        self.facts = dict(facts)
        self.told_ready.set()

    def set_snapshot(self, snapshot: Callable[[], Any]) -> None:
        self.ask = snapshot


@attrs.define
class Nameserver:
    """Notes who registers, and tells a slave of the master."""

    brokers: dict[int, RegisterBrokerRequestHeader] = attrs.field(factory=dict)
    left: list[int] = attrs.field(factory=list)
    address: str = ""

    def register(self, _state: object, header: RegisterBrokerRequestHeader, _request: Request) -> Reply:
        self.brokers[header.broker_id] = header
        master = self.brokers.get(0)
        if header.broker_id == 0 or master is None:
            return Reply(header={})
        return Reply(
            header=RegisterBrokerResponseHeader(master_addr=master.broker_addr, ha_server_addr=master.ha_server_addr)
        )

    def unregister(self, _state: object, header: UnRegisterBrokerRequestHeader, _request: Request) -> Reply:
        self.left.append(header.broker_id)
        return Reply()


@attrs.define
class Running:
    """One running broker."""

    link: Link
    scope: trio.CancelScope
    ended: trio.Event

    @property
    def address(self) -> str:
        return str(self.link.facts["address"])

    async def stop(self) -> None:
        self.scope.cancel()
        await self.ended.wait()


@attrs.define
class World:
    """A nameserver, a client, and the brokers that a test starts."""

    nameserver: Nameserver
    client: RemotingClient
    nursery: trio.Nursery
    tmp_path: pathlib.Path

    def settings(self, name: str, host: str = HOSTS[0], **values: Any) -> BrokerSettings:
        path = self.tmp_path / f"{name}.toml"
        lines = {
            "listen_address": host,
            "broker_ip1": host,
            "broker_ip2": host,
            "namesrv_addr": self.nameserver.address,
            "store_path_root_dir": str(self.tmp_path / name),
            "server_channel_max_idle_time_seconds": 6000,
            **SMALL_FILES,
            **values,
        }
        text = (f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in lines.items())
        path.write_text("\n".join(text))
        return load_config(path)

    async def start(self, name: str, host: str = HOSTS[0], **values: Any) -> Running:
        running = Running(Link(), trio.CancelScope(), trio.Event())

        async def live() -> None:
            with running.scope:
                await main(self.settings(name, host, **values), running.link)
            running.ended.set()

        self.nursery.start_soon(live)
        await running.link.told_ready.wait()
        return running

    async def send(self, broker: Running, body: bytes = b"hello", **properties: str) -> Command:
        fields = send_fields("BenchmarkTest", 0, **properties)
        return await self.client.request(broker.address, request(RequestCode.SEND_MESSAGE_V2, fields, body), PATIENCE)

    async def until(self, holds: Callable[[], Any]) -> None:
        while not holds():  # noqa: ASYNC110 - what is waited for lies in another task's state
            await trio.sleep(0.2)


@pytest.fixture
def fast_clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """For tests with minutes to live through. It counts only where the test itself takes it."""
    mock_clock.rate = RATE
    return mock_clock


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    nameserver = Nameserver()
    table = handler_table(
        [
            Route(RequestCode.REGISTER_BROKER, RegisterBrokerRequestHeader, nameserver.register),
            Route(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequestHeader, nameserver.unregister),
        ]
    )
    async with open_reactor() as reactor:
        server = Server(reactor, Dispatcher(table, None))
        nameserver.address = "{}:{}".format(*server.listen("127.0.0.1", 0))
        client = RemotingClient(reactor)
        try:
            async with trio.open_nursery() as nursery:
                yield World(nameserver, client, nursery, tmp_path)
                nursery.cancel_scope.cancel()
        finally:
            client.close()
            server.close()


async def test_a_broker_is_ready_when_its_nameserver_has_it(world: World) -> None:
    """store-ha#34: replication listens at listen port + 1, and that is what is registered."""
    broker = await world.start("a")
    header = world.nameserver.brokers[0]
    assert header.broker_addr == broker.address == f"{HOSTS[0]}:10911"
    assert header.ha_server_addr == f"{HOSTS[0]}:10912"
    socket.create_connection((HOSTS[0], 10912)).close()
    await broker.stop()
    assert world.nameserver.left == [0]


async def test_a_broker_that_dies_says_so_before_it_closes_its_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.5: closing takes seconds, in which `status` must not show it as ready."""
    link, seen = Link(), list[bool]()
    close_store = _close_store

    async def die(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(link.is_stopping)
        raise FatalError("no descriptor is left")

    async def close(store: MessageStore, told: ControlLink) -> None:
        seen.append(link.is_stopping)
        await close_store(store, told)

    monkeypatch.setattr(broker_main, "run_broker", die)
    monkeypatch.setattr(broker_main, "_close_store", close)
    with pytest.raises(ExceptionGroup) as group:
        await main(world.settings("a"), link)
    assert group.group_contains(FatalError)
    assert seen == [False, True]


async def test_the_vip_port_serves_all_but_pulls(world: World) -> None:
    broker = await world.start("a")
    assert (await world.send(broker)).code == ResponseCode.SUCCESS
    pull = request(RequestCode.PULL_MESSAGE, pull_fields("BenchmarkTest"))
    assert (await world.client.request(f"{HOSTS[0]}:10909", pull, 60)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    config = request(RequestCode.GET_BROKER_CONFIG)
    assert (await world.client.request(f"{HOSTS[0]}:10909", config, 60)).code == ResponseCode.SUCCESS
    await broker.stop()


async def test_a_slave_finds_its_master_takes_its_log_and_its_queues_and_serves_them(
    world: World, fast_clock: trio.testing.MockClock
) -> None:
    """store-ha#48: the slave's queues end where the master's do; store-ha#66: it answers pulls by default."""
    fast_clock.rate = RATE / 5  # requests between the two have 3 s of it
    patience: dict[str, Any] = {"slave_timeout": 600_000, "ha_housekeeping_interval": 600_000}
    master = await world.start("a", broker_role="SYNC_MASTER", **patience)
    assert (await world.send(master)).code == ResponseCode.SLAVE_NOT_AVAILABLE
    slave = await world.start("s", HOSTS[1], broker_role="SLAVE", broker_id=1)
    await world.until(lambda: any(one["in_sync"] for one in master.link.ask()["ha"]["connections"]))
    for _ in range(20):
        assert (await world.send(master)).code == ResponseCode.SUCCESS
    ends = [(one.link.ask()["commit_log"]["max"]) for one in (master, slave)]
    assert ends[0] == ends[1]
    await world.until(lambda: slave.link.ask()["commit_log"]["dispatched"] == ends[1])
    answers = [
        await world.client.request(
            one.address, request(RequestCode.PULL_MESSAGE, pull_fields("BenchmarkTest")), PATIENCE
        )
        for one in (master, slave)
    ]
    assert answers[0].body == answers[1].body
    assert answers[1].ext_fields["maxOffset"] == "21"
    refused = await world.send(slave)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    await slave.stop()
    await master.stop()
    logs = [(world.tmp_path / name / "commitlog" / f"{0:020d}").read_bytes() for name in ("a", "s")]
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("profile", "offset"), [pytest.param("4.9", 10, id="4.9"), pytest.param("hardened", 15, id="hardened")]
)
async def test_where_a_group_stands_when_its_master_is_back(
    world: World, fast_clock: trio.testing.MockClock, profile: str, offset: int
) -> None:
    """Scenario 7, store-ha#69: 4.9 falls back to what the master knew, the switches carry the progress over."""
    assert fast_clock.rate == RATE

    async def commit(broker: Running, offset: int) -> None:
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
        await world.client.request(broker.address, request(RequestCode.UPDATE_CONSUMER_OFFSET, fields), PATIENCE)

    def offsets(broker: Running) -> int:
        return int(broker.link.ask()["consumer_offsets"].get("T@g", {}).get(0, -1))

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
    """Scenario 16, section 4.9: in 4.9 their logs differ for good while both look healthy; the switches mend it."""
    assert fast_clock.rate == RATE

    def end_of(broker: Running) -> int:
        return int(broker.link.ask()["commit_log"]["max"])

    async def until_caught_up() -> None:
        await world.until(lambda: end_of(slave) == end_of(master) and master.link.ask()["ha"]["connections"])

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


async def test_a_master_follows_nobody_even_if_an_address_is_set(
    world: World, fast_clock: trio.testing.MockClock
) -> None:
    """Section 4.1: haMasterAddress is a slave's key; a master that obeyed it would write another's log into its own."""
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
        await world.until(lambda: master.link.ask()["ha"]["connections"])
        assert (await world.send(master)).code == ResponseCode.SUCCESS
    await master.stop()


async def test_a_silent_slave_costs_three_to_four_seconds(world: World, fast_clock: trio.testing.MockClock) -> None:
    """store-ha#51: five sends at once, all answered within that time."""
    assert fast_clock.rate == RATE
    master = await world.start("a", broker_role="SYNC_MASTER", ha_housekeeping_interval=6_000_000)
    with contextlib.closing(socket.create_connection((HOSTS[0], 10912))):
        await world.until(lambda: master.link.ask()["ha"]["connections"])
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
    facts = master.link.ask()["commit_log"]
    assert reply.code == ResponseCode.SUCCESS
    assert facts["flushed"] == facts["max"]
    await master.stop()


async def test_what_was_stored_is_there_after_a_restart(world: World) -> None:
    for start in range(3):
        broker = await world.start("a")
        assert int((await world.send(broker)).ext_fields["queueOffset"]) == start
        await broker.stop()


Breaks = Callable[[World], Awaitable[None]]


async def _take_port(world: World) -> None:
    world.nursery.start_soon(_hold, open_listener(HOSTS[0], 10911))


async def _hold(taken: socket.socket) -> None:
    with taken:
        await trio.sleep_forever()


async def _lock_store(world: World) -> None:
    await world.start("a", HOSTS[2])


async def _cut_log(world: World) -> None:
    directory = world.tmp_path / "a" / "commitlog"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}").write_bytes(b"short")


async def _break_acl(world: World) -> None:
    (world.tmp_path / "conf").mkdir()
    (world.tmp_path / "conf" / "plain_acl.yml").write_text("accounts: [{accessKey: short, secretKey: 12345678}]")


async def test_with_broken_acl_files_a_broker_does_not_start(world: World) -> None:
    await _break_acl(world)
    with pytest.raises(StartError, match=r"ACL files cannot be used.*accessKey=short"):
        await main(world.settings("a", acl_enable="true"), Link())


def test_a_broker_is_known_by_where_it_listens_unless_that_is_everywhere(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.toml"
    for listen, known in (("127.0.0.9", "127.0.0.9"), ("0.0.0.0", "127.0.0.1")):
        path.write_text(f'listen_address = "{listen}"')
        config = load_config(path).broker
        assert (config.broker_ip1, config.broker_ip2) == (known, known)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('broker_role = "KING"', "broker_role = 'KING': expected ASYNC_MASTER or SYNC_MASTER or SLAVE"),
        ('namesrv_addr = "foo;bar:x"', "'foo' is not host:port"),
        ('broker_role = "SLAVE"', "needs one above 0"),
        ("listen_prot = 1", "did you mean listen_port"),
        ('listen_port = "many"', "listen_port = 'many': expected a whole number"),
        ('delete_when = "04;4am"', "'4am' is no hour from 00 to 23"),
        ('message_delay_level = "1s soon"', "'soon' is no time such as 10s"),
        ("mapped_file_size_commit_log = 4294967296", "mapped_file_size_commit_log = 4294967296: expected 4096 to"),
        ("max_index_num = 107374182", "an index file of 2167483680 bytes; a file has at most 2147483647"),
        ('store_path_commit_log = "/a,/b"', "a commit log in several directories is not supported"),
        ("flush_interval_commit_log = -1", "flush_interval_commit_log = -1: expected 1 to 2147483647"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(tmp_path: pathlib.Path, setting: str, said: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(setting)
    with pytest.raises(SettingsError, match=re.escape(said)) as raised:
        load_config(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_store_that_takes_long_to_close_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
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

    store, told = SlowStore(), []

    def emit(kind: str, **fields: object) -> None:
        told.append((kind, fields))
        if fields["offset"] == 7:
            store.was_seen.set()

    monkeypatch.setattr("rmqlab.broker.main.PROGRESS_PERIOD", 0.01)
    link = Link()
    monkeypatch.setattr(link, "emit", emit)
    await _close_store(cast("MessageStore", store), link)
    assert told[-1] == ("indexing", {"offset": 7})


@pytest.mark.parametrize(
    ("break_something", "said"),
    [(_take_port, f"{HOSTS[0]}:10911 is taken"), (_lock_store, "lock"), (_cut_log, "5 bytes, expected 1048576")],
    ids=["a taken port", "a locked store", "a cut log"],
)
async def test_what_keeps_a_broker_from_starting_is_said_in_one_line(
    world: World, break_something: Breaks, said: str
) -> None:
    """store-ha#4, store-ha#6."""
    await break_something(world)
    in_one_line = pytest.RaisesExc(StartError, match=said, check=lambda error: "\n" not in str(error))
    with pytest.RaisesGroup(in_one_line, allow_unwrapped=True, flatten_subgroups=True):
        await main(world.settings("a"), Link())
