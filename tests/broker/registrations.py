"""A registration with scripted nameservers, for tests. No sockets."""

import pathlib
from collections.abc import Mapping
from typing import Any, cast

import attrs
import trio
import trio.testing

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.registration import Registration
from rmqlab.broker.scripted import ScriptedTasks
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.tasks import TaskStarter
from rmqlab.remoting.bodies.registration import RegisterBrokerBody, body_crc32, decode_registration
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.nameserver import RegisterBrokerRequestHeader
from rmqlab.runtime.net.remoting_errors import RequestTimeoutError
from rmqlab.runtime.net.testing import ScriptedClient

FIRST = "n1:9876"


def registration_reply(fields: Mapping[str, str], body: bytes = b"") -> Command:
    return Command(ResponseCode.SUCCESS, raw_fields=dict(fields), body=body)


class MuteClient(ScriptedClient):
    """Nameservers that accept every connection, and never reply."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109
        """Raise RequestTimeoutError after a while."""
        await super().request(address, command, timeout)
        await trio.sleep(self.seconds)
        raise RequestTimeoutError(f"{address} did not answer")


class LateClient(ScriptedClient):
    """Nameservers whose replies take this many seconds each."""

    def __init__(self, seconds: dict[str, float], replies: dict[str | tuple[str, int], Command | None]) -> None:
        super().__init__(replies)
        self.seconds = seconds

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109
        """Return the scripted reply, late."""
        await trio.sleep(self.seconds[address])
        return await super().request(address, command, timeout)


Addresses = tuple[str | None, str | None]


@attrs.define
class Masters:
    """Notes what registrations report of the master: its address and its HA address."""

    reported: list[Addresses] = attrs.field(factory=list)

    def master_reported(self, address: str | None, ha_address: str | None) -> None:
        self.reported.append((address, ha_address))


def open_registration(
    tmp_path: pathlib.Path, client: ScriptedClient, tasks: TaskStarter | None = None, **settings: object
) -> tuple[Registration, list[Addresses]]:
    config = BrokerConfig(**{"namesrv_addr": f"{FIRST};n2:9876", **settings})  # type: ignore[arg-type]
    topics = TopicTable(config, tmp_path / "topics.json", lambda: 1000)
    masters, tasks, asked = Masters(), tasks or ScriptedTasks(), cast("Any", client)
    registration = Registration(config, topics, asked, "127.0.0.1:10912", lambda _kind, **_fields: None, tasks, masters)
    return registration, masters.reported


def registered_body(command: Command) -> RegisterBrokerBody:
    header = command.header(RegisterBrokerRequestHeader)
    assert header.body_crc32 == body_crc32(command.body)
    return decode_registration(command.body, version=command.version, compressed=bool(header.compressed))
