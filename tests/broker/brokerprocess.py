"""Brokers and a nameserver in one process, on real sockets."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import attrs
import trio
import trio.testing

from rmqlab.broker.config import BrokerSettings, load_config
from rmqlab.broker.main import main
from rmqlab.broker.testing import SMALL_FILES, send_fields
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.headers.nameserver import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rmqlab.runtime.net.dispatch import Reply, Request
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.node.control import ControlLink

RATE = 50.0
PATIENCE = 3600.0
"""Seconds for a reply: more than a minute of the machine's, however fast the clock runs."""
HOSTS = tuple(f"{os.environ.get('RMQLAB_NETWORK', '127.77')}.0.{number}" for number in (1, 2, 3))


class Link(ControlLink):
    """A control link without a supervisor, whose readiness can be waited for."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.became_ready = trio.Event()
        self.ready_facts: dict[str, Any] = {}

    def ready(self, **facts: object) -> None:
        self.ready_facts = dict(facts)
        self.became_ready.set()


@attrs.define
class Nameserver:
    """Records registrations, and returns the master's address to a slave."""

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
        return str(self.link.ready_facts["address"])

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
        text = (f"{key} = {json.dumps(value)}" for key, value in lines.items())
        path.write_text("\n".join(text))
        return load_config(path)

    async def start(self, name: str, host: str = HOSTS[0], **values: Any) -> Running:
        running = Running(Link(), trio.CancelScope(), trio.Event())

        async def live() -> None:
            with running.scope:
                await main(self.settings(name, host, **values), running.link)
            running.ended.set()

        self.nursery.start_soon(live)
        await running.link.became_ready.wait()
        return running

    async def send(self, broker: Running, body: bytes = b"hello", **properties: str) -> Command:
        fields = send_fields("BenchmarkTest", 0, **properties)
        return await self.client.request(broker.address, request(RequestCode.SEND_MESSAGE_V2, fields, body), PATIENCE)

    async def until(self, holds: Callable[[], Any]) -> None:
        while not holds():  # noqa: ASYNC110 - what is waited for lies in another task's state
            await trio.sleep(0.2)
