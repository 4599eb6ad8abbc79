"""Test broker for handlers: a real store, no sockets, a manual clock.

A scripted peer stands in for the client.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, cast

import attrs

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.admission import admission
from rmqlab.broker.config import BrokerSettings, load_config
from rmqlab.broker.deferred.delay import DueAlarm
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.handlers import handlers_of
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.overload import Overload
from rmqlab.broker.scripted import (
    RecordingRegistration,
    RecordingReplication,
    ScriptedClock,
    ScriptedPass,
    ScriptedPeer,
    ScriptedTasks,
    ScriptedTurns,
    over_the_wire,
)
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.waits.arrivals import Arrivals
from rmqlab.broker.waits.copy_waits import CopyWaits
from rmqlab.broker.waits.held_pulls import PullHold
from rmqlab.broker.waits.pending_acks import PendingAcks
from rmqlab.remoting.codes import VERSION, RequestCode, ResponseCode
from rmqlab.remoting.command import RESPONSE, Command, request
from rmqlab.remoting.header import Header
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.dispatch import Dispatcher
from rmqlab.runtime.net.testing import ScriptedClient
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus

SMALL_FILES = {
    "mapped_file_size_commit_log": 1_048_576,
    "mapped_file_size_consume_queue": 40_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


@attrs.define(eq=False)
class TalkingBroker:
    """A broker, and methods that send it requests as over a connection."""

    broker: Broker
    clock: ScriptedClock
    registration: RecordingRegistration
    replication: RecordingReplication
    events: list[tuple[str, dict[str, Any]]]
    dispatcher: Dispatcher[Broker]
    passing: ScriptedPass
    tasks: ScriptedTasks
    turns: ScriptedTurns
    peer: ScriptedPeer = attrs.field(factory=ScriptedPeer)
    _opaque: int = attrs.field(default=0, init=False)

    def exchange(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        peer: ScriptedPeer | None = None,
        oneway: bool = False,
        language: str = "JAVA",
        version: int = VERSION,
    ) -> list[Command]:
        """Send one request.

        Return its immediate replies: one, or none if the request is parked.
        """
        command = request(code, header, body, oneway=oneway, language=language)
        command.version = version
        return self.serve(command, peer=peer)

    def serve(self, command: Command, *, peer: ScriptedPeer | None = None) -> list[Command]:
        """Send a prepared request."""
        self._opaque += 1
        command.opaque = self._opaque
        peer = peer or self.peer
        before = len(peer.replies)
        self.run_pass(peer, over_the_wire(command))
        replies = peer.replies[before:]
        assert all(reply.flag & RESPONSE for reply in replies)
        return replies

    def run_pass(self, peer: ScriptedPeer, command: Command) -> None:
        """Handle one request, then dispatch the log, as at the end of a pass."""
        self.dispatcher.serve(peer, command)
        if not self.broker.store.is_slave:
            self.broker.store.enter_appended()

    def ask(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        **options: Any,
    ) -> Command:
        """Send one request and return its immediate reply."""
        (reply,) = self.exchange(code, header, body, **options)
        assert reply.opaque == self._opaque
        return reply

    def send(self, topic: str, queue_id: int = 0, body: bytes = b"hello", **properties: str) -> Command:
        """Send a message and return its immediate reply. A missing topic is created."""
        (reply,) = self.exchange(RequestCode.SEND_MESSAGE_V2, send_fields(topic, queue_id, **properties), body)
        return reply

    def pull(self, topic: str, offset: int = 0, **changes: object) -> list[Command]:
        """Pull with a subscription in the request; return the immediate reply, if any."""
        return self.exchange(RequestCode.PULL_MESSAGE, pull_fields(topic, offset, **changes))

    def acknowledge(self, offset: int, copies: int = 0) -> None:
        """Let slaves acknowledge the log up to here (`copies` as in CopyCounter)."""
        self.replication.acknowledged[copies] = offset
        self.broker.slave_waits.advance(self.replication)

    def expire_slave_waits(self) -> None:
        """Release the sends whose slaves are late by now."""
        self.broker.slave_waits.expire(self.clock.now(), self.replication)

    def sweep_held_pulls(self) -> None:
        """Sweep the held pulls, as the broker does every 5 s."""
        self.broker.hold.sweep(self.broker.store.max_queue_offset)

    def heartbeat(
        self, group: str, *topics: str, expression: str = "*", peer: ScriptedPeer | None = None, **changes: Any
    ) -> None:
        """Register a consumer of a group by a heartbeat.

        `changes` are members of the group's part of the body.
        """
        subscriptions = [
            {"topic": topic, "subString": expression, "subVersion": int(self.clock.seconds)} for topic in topics
        ]
        kind = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        consumer = {"groupName": group, **kind, "subscriptionDataSet": subscriptions, **changes}
        client_id = f"{(peer or self.peer).peer}@test"
        body = json.dumps({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []})
        assert self.ask(RequestCode.HEART_BEAT, None, body.encode(), peer=peer).code == ResponseCode.SUCCESS


def send_fields(topic: str, queue_id: int = 0, **properties: str) -> dict[str, str]:
    """Ext fields of a send by a Java client (310)."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return {
        "a": "P", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1700000000000",
        "h": "0", "i": text, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def pull_fields(topic: str, offset: int = 0, **changes: object) -> dict[str, str]:
    """Return the ext fields of a pull as tools send it (11).

    It pulls all tags, has its own subscription, and must not be held.
    """
    fields = {
        "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 20_000, "subscription": "*", "subVersion": 0,
        **changes,
    }  # fmt: skip
    return {name: str(value) for name, value in fields.items() if value is not None}


def open_talking_broker(root: pathlib.Path, **settings: Any) -> TalkingBroker:
    """Open a broker below `root` with small files. The caller closes its store."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "broker.toml"
    if not path.exists():
        values = {"store_path_root_dir": str(root / "store"), **SMALL_FILES, **settings}
        path.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in values.items()))
    return _assemble(load_config(path))


def _assemble(loaded: BrokerSettings) -> TalkingBroker:
    """Assemble a broker with a real store and tables, and scripted other parts."""
    config, clock = loaded.broker, ScriptedClock()
    tasks, turns = ScriptedTasks(), ScriptedTurns()
    hold, due_alarm = PullHold(turns.later, clock.now, InternalErrors()), DueAlarm(clock.now_millis)
    store = MessageStore.open(
        loaded.store, now_millis=clock.now_millis, is_slave=config.is_slave, observer=Arrivals(hold, due_alarm)
    )
    config_dir = loaded.store.store_path_root_dir / "config"
    topics = TopicTable(config, config_dir / "topics.json", clock.now_millis)
    offsets = ConsumerOffsetTable(config_dir / "consumerOffset.json")
    groups = SubscriptionGroupTable(config, config_dir / "subscriptionGroup.json", clock.now_millis)
    events: list[tuple[str, dict[str, Any]]] = []

    def emit(kind: str, **fields: Any) -> None:
        events.append((kind, fields))

    replication = RecordingReplication(loaded.ha)
    registration = RecordingRegistration(config, f"{config.broker_ip2}:{config.listen_port + 1}")
    client = cast("Any", ScriptedClient())
    broker = Broker(
        settings=loaded,
        config=config,
        store=store,
        topics=topics,
        subscriptions=groups,
        offsets=offsets,
        ha_master=cast("Any", replication),
        ha_slave=cast("Any", replication),
        client=client,
        registration=cast("Any", registration),
        sync=MetadataSync(
            config.address, topics, offsets, groups, config_dir / "delayOffset.json", client, emit, KnownMaster()
        ),
        growth=cast("Any", replication),
        flush_waits=PendingAcks(loaded.store.sync_flush_timeout / 1000, PutStatus.FLUSH_DISK_TIMEOUT),
        slave_waits=CopyWaits(config.slave_timeout / 1000),
        hold=hold,
        due_alarm=due_alarm,
        tasks=tasks,
        later=turns.later,
        now_millis=clock.now_millis,
        now=clock.now,
        emit=emit,
        access=AccessControl.open(loaded.home, clock.now_millis) if config.acl_enable else None,
        started_at_millis=clock.now_millis(),
    )
    passing = ScriptedPass()
    return TalkingBroker(
        broker,
        clock,
        registration,
        replication,
        events,
        Dispatcher(
            handlers_of(broker), broker, broker.unserved, admission(broker, Overload(broker, passing)), emit=emit
        ),
        passing,
        tasks,
        turns,
    )


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, (int, float)) else f'"{value}"'
