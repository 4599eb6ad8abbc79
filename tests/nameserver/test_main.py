"""The whole nameserver over loopback sockets, and its timeouts on a manual clock."""

import contextlib
import json
import logging
import pathlib
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from rmqlab.nameserver.config import NameserverConfig
from rmqlab.nameserver.kvconfig import KvConfig
from rmqlab.nameserver.main import expire_forever, main, print_forever
from rmqlab.remoting.bodies.registration import RegisterBrokerBody
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.process import StartError


@attrs.define(eq=False)
class Link(ControlLink):
    """A control link that records its events."""

    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    address: str = ""
    became_ready: trio.Event = attrs.field(factory=trio.Event)
    arrived: trio.Event = attrs.field(factory=trio.Event)

    def emit(self, kind: str, **fields: object) -> None:
        self.events.append((kind, dict(fields)))
        self.arrived.set()
        self.arrived = trio.Event()

    def ready(self, **facts: object) -> None:
        self.address = str(facts["address"])
        self.became_ready.set()

    async def wait_event(self, kind: str) -> dict[str, Any]:
        """Wait for an event; give its fields, and forget it and those before it."""
        while True:
            for at, (event, fields) in enumerate(self.events):
                if event == kind:
                    del self.events[: at + 1]
                    return fields
            await self.arrived.wait()


@contextlib.asynccontextmanager
async def running(config: NameserverConfig) -> AsyncIterator[tuple[Link, Reactor]]:
    """Run a nameserver, and a reactor for its clients."""
    link = Link()
    async with open_reactor() as reactor, trio.open_nursery() as nursery:
        nursery.start_soon(main, config, link)
        await link.became_ready.wait()
        yield link, reactor
        nursery.cancel_scope.cancel()


def registering(name: str, broker_id: int, host: str, *topics: str, counter: int = 1) -> Command:
    """Give the registration of a broker."""
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=counter, timestamp=1000),
        topic_config_table={topic: TopicConfig(topic_name=topic) for topic in topics},
    )
    fields = {
        "brokerName": name,
        "brokerAddr": f"{host}:10911",
        "haServerAddr": f"{host}:10912",
        "clusterName": "c",
        "brokerId": str(broker_id),
    }
    return request(
        RequestCode.REGISTER_BROKER, fields, RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
    )


async def addresses(channel: Channel, topic: str) -> dict[str, dict[int, str]] | None:
    """Request a route; return its addresses by broker name, or None without a route."""
    reply = await channel.request(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}), 5)
    if reply.code == 17:
        return None
    return {broker.broker_name: broker.broker_addrs for broker in TopicRouteData.decode(reply.body).broker_datas}


async def test_a_pair_is_seen_by_clients_and_leaves_with_its_connections(config: NameserverConfig) -> None:
    """remoting#30, #31, #40 (the registration part)."""
    async with running(config) as (link, reactor):
        master, slave, client = [await RemotingClient(reactor).channel(link.address) for _ in range(3)]
        assert (await master.request(registering("a", 0, "10.0.0.1", "orders"), 5)).code == 0
        reply = await slave.request(registering("a", 1, "10.0.0.2", "orders"), 5)
        assert reply.ext_fields == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
        assert await addresses(client, "orders") == {"a": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}}
        assert link.snapshot() == {
            "routes": {"a": {"cluster": "c", "addresses": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}}},
            "topics": 1,
            "topic_names": ["orders"],
            "unserved": {},
        }
        master.close("crash")
        lost = await link.wait_event("broker_connection_lost")
        assert (lost["broker_id"], lost["remaining"]) == (0, {"1": "10.0.0.2:10911"})
        assert await addresses(client, "orders") == {"a": {1: "10.0.0.2:10911"}}
        slave.close("crash")
        await link.wait_event("broker_connection_lost")
        assert await addresses(client, "orders") is None
        assert link.snapshot()["routes"] == {}
        client.close("done")


async def test_a_connection_that_was_superseded_may_close_without_harm(config: NameserverConfig) -> None:
    """remoting#32."""
    async with running(config) as (link, reactor):
        old, new, other = [await RemotingClient(reactor).channel(link.address) for _ in range(3)]
        await old.request(registering("a", 0, "10.0.0.1", "orders"), 5)
        await new.request(registering("a", 0, "10.0.0.1", "orders"), 5)
        await other.request(registering("b", 0, "10.0.0.3"), 5)
        old.close("late")
        other.close("later")  # the event of this one follows the detected close of the other
        assert (await link.wait_event("broker_connection_lost"))["broker_name"] == "b"
        assert await addresses(new, "orders") == {"a": {0: "10.0.0.1:10911"}}
        new.close("done")


async def test_a_nameserver_uses_most_of_its_descriptors_for_connections(
    config: NameserverConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 brokers and their clients need more than a quarter of 1024."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (20, limits[1]))
    async with running(config) as (link, reactor):
        clients = [RemotingClient(reactor) for _ in range(16)]
        for client in clients[:15]:
            await client.request(link.address, request(RequestCode.GET_BROKER_CLUSTER_INFO), 60)
        with pytest.raises(RemotingError):
            await clients[15].request(link.address, request(RequestCode.GET_BROKER_CLUSTER_INFO), 60)


async def test_a_nameserver_says_that_it_ends(config: NameserverConfig) -> None:
    async with running(config) as (link, _):
        assert not link.is_stopping
    assert link.is_stopping


async def test_an_unknown_code_is_shown_in_the_snapshot(config: NameserverConfig) -> None:
    """remoting#14."""
    async with running(config) as (link, reactor):
        channel = await RemotingClient(reactor).channel(link.address)
        assert (await channel.request(request(901), 5)).code == 3
        assert link.snapshot()["unserved"] == {"127.0.0.1 901": 1}
        channel.close("done")


async def test_a_silent_brokers_busy_connection_is_closed_by_the_scan(
    config: NameserverConfig, mock_clock: trio.testing.MockClock
) -> None:
    """remoting#33: other requests keep a connection open, but not the broker alive."""
    async with running(config) as (link, reactor):
        broker = await RemotingClient(reactor).channel(link.address)
        await broker.request(registering("a", 0, "10.0.0.1", "orders"), 600)
        lost = trio.Event()
        broker.on_close.append(lost.set)
        for _ in range(12):
            mock_clock.jump(10)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert await addresses(broker, "orders") is not None
        mock_clock.jump(10)
        expired = await link.wait_event("broker_expired")
        assert expired["address"] == "10.0.0.1:10911"
        await lost.wait()
        assert link.snapshot()["routes"] == {}
        assert "broker_connection_lost" not in dict(link.events)


async def test_the_scan_runs_5_s_after_the_start_and_then_every_10(
    bench: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """Section 4.8: removal 120 to 130 s after the last registration."""
    started = trio.current_time()
    scans: list[float] = []
    gone: list[float] = []

    def now() -> float:
        scans.append(trio.current_time() - started)
        return scans[-1]

    bench.register()
    bench.state.now = now
    bench.state.emit = lambda _kind, **_fields: gone.append(trio.current_time() - started)
    with trio.move_on_after(200):
        await expire_forever(bench.state)
    assert scans[:3] == [5, 15, 25]
    assert gone == [125]
    assert autojump_clock.current_time() >= 200


async def test_the_key_value_table_is_printed_after_a_minute_and_then_every_ten(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """NamesrvController: scheduleAtFixedRate, after 1 and every 10 minutes."""
    kv = KvConfig(tmp_path / "kvConfig.json", {"ns": {"k": "v"}})
    printed: list[float] = []

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "configTable NS: ns Key: k Value: v":
                printed.append(autojump_clock.current_time())

    caplog.set_level(logging.INFO)
    logging.getLogger("rmqlab.nameserver.main").addHandler(handler := Noted())
    try:
        with trio.move_on_after(1300):
            await print_forever(kv)
    finally:
        logging.getLogger("rmqlab.nameserver.main").removeHandler(handler)
    assert printed == [60, 660, 1260]


async def test_stopping_is_no_loss_of_brokers(config: NameserverConfig) -> None:
    async with running(config) as (link, reactor):
        broker = await RemotingClient(reactor).channel(link.address)
        await broker.request(registering("a", 0, "10.0.0.1"), 5)
    assert [kind for kind, _ in link.events] == ["broker_registered"]


async def test_a_taken_port_is_a_start_error_that_names_the_address(config: NameserverConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"127.0.0.1:{port} is taken"):
            await main(attrs.evolve(config, listen_port=port), Link())


async def test_a_damaged_kv_file_is_a_start_error_that_names_it(config: NameserverConfig) -> None:
    await trio.Path(config.kv_config_path).write_text("{")
    with pytest.raises(StartError, match=r"kvConfig\.json"):
        await main(config, Link())


async def test_a_restart_on_the_same_port_finds_its_keys_again(config: NameserverConfig, own_host: str) -> None:
    """remoting#37."""
    config = attrs.evolve(config, listen_address=own_host)
    fields = {"namespace": "ns", "key": "k"}
    async with running(config) as (link, reactor):
        channel = await RemotingClient(reactor).channel(link.address)
        await channel.request(request(RequestCode.PUT_KV_CONFIG, fields | {"value": "v"}), 5)
        port = int(link.address.rpartition(":")[2])
    async with running(attrs.evolve(config, listen_port=port)) as (link, reactor):
        channel = await RemotingClient(reactor).channel(link.address)
        assert (await channel.request(request(RequestCode.GET_KV_CONFIG, fields), 5)).ext_fields == {"value": "v"}
        channel.close("done")


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m rmqlab.nameserver` until it ends by itself."""
    command = [sys.executable, "-m", "rmqlab.nameserver", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_says_how_it_is_used_and_what_is_wrong(tmp_path: pathlib.Path) -> None:
    for arguments in ((), ("a", "b"), ("--chek", "a")):
        ended = run_module(*arguments)
        assert (ended.returncode, ended.stdout, ended.stderr[:34]) == (2, "", "usage: python -m rmqlab.nameserver")
    ended = run_module("--help")
    assert (ended.returncode, ended.stderr, ended.stdout[:34]) == (0, "", "usage: python -m rmqlab.nameserver")
    path = tmp_path / "ns.toml"
    path.write_text("listen_prot = 1")
    ended = run_module(str(path))
    assert ended.returncode == 1
    assert ended.stderr == f"{path}: unknown key listen_prot; did you mean listen_port?\n"
    path.write_text("listen_port = 1")
    ended = run_module("--check", str(path))
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", f"{path}: a nameserver can use it\n")


def test_the_command_says_ready_with_its_address_serves_and_stops_on_sigterm(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ns.toml"
    path.write_text(f"listen_port = 0\nkv_config_path = {json.dumps(str(tmp_path / 'kv.json'))}\n")
    command = [sys.executable, "-m", "rmqlab.nameserver", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready, _, address = process.stdout.readline().strip().partition(" ")
        host, _, port = address.rpartition(":")
        assert ready == "READY"
        socket.create_connection((host, int(port))).close()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
