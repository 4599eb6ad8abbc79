"""A nameserver without a network: requests as commands, replies parsed from bytes."""

import pathlib
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rmqlab.nameserver.config import NameserverConfig
from rmqlab.nameserver.handlers import HANDLERS, IGNORED
from rmqlab.nameserver.kvconfig import load_kv_config
from rmqlab.nameserver.state import Nameserver
from rmqlab.remoting.bodies.registration import RegisterBrokerBody, body_crc32
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import VERSION, RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.net.callthread import Calls, Done
from rmqlab.runtime.net.dispatch import Dispatcher


@attrs.define(eq=False)
class Wire:
    """A handler's view of a connection, which keeps the written bytes."""

    peer: str = "127.0.0.1:50000"
    written: bytearray = attrs.field(factory=bytearray)
    closed_for: str | None = None
    is_closed: bool = False

    def write(self, *buffers: bytes | memoryview) -> None:
        for buffer in buffers:
            self.written += buffer

    def close(self, reason: str) -> None:
        self.closed_for = reason


@attrs.define(eq=False)
class DiskCalls:
    """Makes the calls that write files: at once, or when they are released."""

    is_held: bool = False
    _held: list[tuple[Calls, Done]] = attrs.field(factory=list, init=False)

    def start(self, calls: Calls, done: Done) -> None:
        self._held.append((calls, done))
        if not self.is_held:
            self.release()

    def release(self) -> None:
        """Make the calls that were started first."""
        calls, done = self._held.pop(0)
        error: BaseException | None = None
        try:
            for call in calls:
                call()
        except Exception as exc:  # noqa: BLE001 - `done` gets it
            error = exc
        done(error)

    async def close(self) -> None:
        pass


@attrs.define(eq=False)
class Bench:
    """A nameserver's state behind its dispatcher, with a manual clock and its events."""

    config: NameserverConfig
    now: float = 0.0
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    turns: list[Callable[[], None]] = attrs.field(factory=list)
    """Next slices of long requests."""
    calls: DiskCalls = attrs.field(factory=DiskCalls)
    state: Nameserver = attrs.field(init=False)
    dispatcher: Dispatcher[Nameserver] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        kv = load_kv_config(self.config.kv_config_path)
        self.state = Nameserver(self.config, kv, lambda: self.now, self._note, self.turns.append, self.calls)
        self.dispatcher = Dispatcher(HANDLERS, self.state, ignored=IGNORED)

    @staticmethod
    def wire() -> Wire:
        """Give a connection of its own."""
        return Wire()

    @staticmethod
    def topic(name: str, queues: int = 4, perm: int = 6, *, flag: int = 0) -> TopicConfig:
        """Give a topic with as many queues to read as to write."""
        return TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag
        )

    def _note(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))

    def ask(self, command: Command, wire: Wire | None = None) -> Command | None:
        """Serve a command; give the reply, or None where nothing was said."""
        wire = wire or Wire()
        before = len(wire.written)
        self.dispatcher.serve(wire, command)
        replies = FrameDecoder().feed(bytes(wire.written[before:]))
        assert len(replies) <= 1
        return decode_command(replies[0]) if replies else None

    def call(
        self,
        code: RequestCode,
        body: bytes = b"",
        *,
        version: int = VERSION,
        wire: Wire | None = None,
        **fields: object,
    ) -> Command:
        """Ask with ext fields under their wire names, and expect a reply."""
        ext_fields = {key: str(value) for key, value in fields.items()}
        reply = self.ask(Command(code, version=version, body=body, raw_fields=ext_fields), wire)
        assert reply is not None
        return reply

    def register(
        self,
        *topics: TopicConfig,
        name: str = "broker-a",
        broker_id: int = 0,
        host: str = "10.0.0.1",
        cluster: str = "DefaultCluster",
        counter: int = 1,
        wire: Wire | None = None,
    ) -> Command:
        """Register a broker as a 4.9.8 one does."""
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
                data_version=DataVersion(counter=counter, timestamp=1000),
                topic_config_table={topic.topic_name: topic for topic in topics},
            )
        ).encode()
        return self.call(
            RequestCode.REGISTER_BROKER,
            body,
            wire=wire,
            brokerName=name,
            brokerAddr=f"{host}:10911",
            clusterName=cluster,
            haServerAddr=f"{host}:10912",
            brokerId=broker_id,
            bodyCrc32=body_crc32(body),
            compressed="false",
        )


@pytest.fixture
def config(tmp_path: pathlib.Path) -> NameserverConfig:
    return NameserverConfig(
        listen_port=0,
        kv_config_path=str(tmp_path / "kvConfig.json"),
        config_store_path=str(tmp_path / "namesrv.properties"),
    )


@pytest.fixture
def bench(config: NameserverConfig) -> Bench:
    return Bench(config)


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a short request could exceed the time of its slice."""
    monkeypatch.setattr("rmqlab.runtime.net.slices.SECONDS_AT_ONCE", 1000.0)
