"""For tests of what a broker answers: a broker on a real store without sockets, a clock to set, a peer to talk to it."""

import json
import pathlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import attrs
import trio

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.admission import admission
from rmqlab.broker.arrivals import Arrivals
from rmqlab.broker.config import load_config
from rmqlab.broker.delay import DueAlarm
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.handlers import handlers_of
from rmqlab.broker.held_pulls import PullHold
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.offsets import ConsumerOffsetTable
from rmqlab.broker.overload import Overload
from rmqlab.broker.pending_acks import PendingAcks
from rmqlab.broker.state import Broker
from rmqlab.broker.subscriptions import SubscriptionGroupTable
from rmqlab.broker.topics import TopicTable
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import VERSION, RequestCode, ResponseCode
from rmqlab.remoting.command import ONEWAY, RESPONSE, Command, request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.remoting.header import Header
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.channel import RequestTimeoutError
from rmqlab.runtime.dispatch import Buffer, Dispatcher
from rmqlab.runtime.testing import ScriptedClient
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus

SMALL_FILES = {
    "mapped_file_size_commit_log": 1_048_576,
    "mapped_file_size_consume_queue": 40_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


@attrs.define(eq=False)
class HandClock:
    """A clock that a test sets. Both of its faces move together."""

    seconds: float = 1000.0
    wall_epoch_millis: int = 1_800_000_000_000

    def now(self) -> float:
        """Seconds, as for deadlines."""
        return self.seconds

    def now_millis(self) -> int:
        """The wall's milliseconds."""
        return self.wall_epoch_millis + int(self.seconds * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@attrs.define(eq=False)
class NotedRegistration:
    """In the place of a Registration: notes when the nameservers would be told."""

    config: Any
    ha_address: str
    calls: list[tuple[str | None, bool]] = attrs.field(factory=list)
    """Topic, oneway."""

    def register_soon(
        self, topic: str | None = None, *, oneway: bool = False, then: Callable[[], None] = lambda: None
    ) -> None:
        """Note it; whoever waits for it is told at once."""
        self.calls.append((topic, oneway))
        then()


@attrs.define(eq=False)
class NotedReplication:
    """In the place of both sides of replication, and of what follows an append."""

    settings: HaSettings
    has_slave: bool = False
    needs_copies: bool = True
    appends: int = 0

    def is_slave_ok(self, _record_end: int) -> bool:
        """As the test has set it."""
        return self.has_slave

    def explain(self, _record_end: int) -> str | None:
        """As 4.9: without a cause."""
        return None

    def appended(self, size: int = 0) -> None:  # noqa: ARG002 -- as AppendFollowUp.appended
        """Note it."""
        self.appends += 1


@attrs.define(eq=False)
class ScriptedPeer:
    """In the place of a Channel: keeps what comes from the broker, and answers its requests from a script."""

    peer: str = "127.0.0.1:50001"
    answers: dict[int, Command] = attrs.field(factory=dict)
    """By request code. What is not named is not answered in time."""
    replies: list[Command] = attrs.field(factory=list)
    asked: list[Command] = attrs.field(factory=list)
    """Requests of the broker, oneway ones too."""
    is_closed: bool = False
    is_congested: bool = False
    drained: list[Callable[[], None]] = attrs.field(factory=list)
    close_reason: str | None = None
    _decoder: FrameDecoder = attrs.field(factory=FrameDecoder, init=False)

    def write(self, *buffers: Buffer) -> None:
        """Take frames of replies."""
        for frame in self._decoder.feed(b"".join(map(bytes, buffers))):
            self.replies.append(decode_command(frame))

    def when_drained(self, fn: Callable[[], None]) -> None:
        """Note it."""
        self.drained.append(fn)

    def send_oneway(self, command: Command) -> None:
        """Take a request that nobody answers."""
        command.flag |= ONEWAY
        self.asked.append(over_the_wire(command))

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - the real one's form
        """Answer as the script says."""
        self.asked.append(over_the_wire(command))
        answer = self.answers.get(command.code)
        if answer is None:
            raise RequestTimeoutError(f"{self.peer} did not answer within {timeout:g} s")
        return answer

    def close(self, reason: str) -> None:
        """Note it."""
        self.is_closed, self.close_reason = True, reason


def over_the_wire(command: Command) -> Command:
    """Give a command as its receiver sees it."""
    (frame,) = FrameDecoder().feed(encode_command(command))
    return decode_command(frame)


@attrs.define(eq=False)
class ScriptedPass:
    """In the place of a reactor: a pass that has just begun, or as long ago as the test says."""

    waited: float = 0.0
    """Seconds of the wall's time."""
    worked: float = 0.0
    """Seconds of this thread's work."""

    @property
    def pass_began(self) -> float:
        """When it began, by the wall."""
        return time.perf_counter() - self.waited

    @property
    def pass_began_cpu(self) -> float:
        """When it began, by the thread's work."""
        return time.thread_time() - self.worked


@attrs.define(eq=False)
class ScriptedTasks:
    """In the place of BackgroundTasks: keeps what is started, or runs it to its end at once."""

    runs_at_once: bool = False
    """For tests that are no coroutines."""
    started: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...]]] = attrs.field(factory=list)

    def start_soon(self, fn: Callable[..., Awaitable[object]], /, *args: object) -> None:
        """Run it, or leave it to `run_all`."""
        if self.runs_at_once:
            trio.run(fn, *args)
        else:
            self.started.append((fn, args))

    async def run_all(self) -> None:
        """Run what was started, to its end."""
        started, self.started = self.started, []
        async with trio.open_nursery() as nursery:
            for fn, args in started:
                nursery.start_soon(fn, *args)


@attrs.define(eq=False)
class ScriptedTurns:
    """In the place of Reactor.again: calls at once, or collects the calls of later turns."""

    is_collecting: bool = False
    waiting: list[Callable[[], None]] = attrs.field(factory=list)

    def later(self, fn: Callable[[], None]) -> None:
        """Call it, or leave it to `run_all`."""
        if self.is_collecting:
            self.waiting.append(fn)
        else:
            fn()

    def run_all(self) -> int:
        """Take turns until nothing waits; answer how many it were."""
        turns = 0
        while self.waiting:
            self.waiting.pop(0)()
            turns += 1
        return turns


@attrs.define(eq=False)
class TalkingBroker:
    """A broker, and a way to talk to it as over a connection."""

    broker: Broker
    clock: HandClock
    registration: NotedRegistration
    replication: NotedReplication
    events: list[tuple[str, dict[str, Any]]]
    dispatcher: Dispatcher[Broker]
    passing: ScriptedPass
    tasks: ScriptedTasks
    turns: ScriptedTurns
    peer: ScriptedPeer = attrs.field(factory=ScriptedPeer)
    _opaque: int = attrs.field(default=0, init=False)

    def tell(
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
        """Send one request; answer the replies that come at once: one, or none where it is held."""
        command = request(code, header, body, oneway=oneway, language=language)
        command.version = version
        return self.serve(command, peer=peer)

    def serve(self, command: Command, *, peer: ScriptedPeer | None = None) -> list[Command]:
        """Send a request that is made already."""
        self._opaque += 1
        command.opaque = self._opaque
        peer = peer or self.peer
        before = len(peer.replies)
        self.run_pass(peer, over_the_wire(command))
        replies = peer.replies[before:]
        assert all(reply.flag & RESPONSE for reply in replies)
        return replies

    def run_pass(self, peer: ScriptedPeer, command: Command) -> None:
        """Handle one request, then what AppendFollowUp does at the end of a pass."""
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
        """Send one request and give its reply, which must come at once."""
        (reply,) = self.tell(code, header, body, **options)
        assert reply.opaque == self._opaque
        return reply

    def send(self, topic: str, queue_id: int = 0, body: bytes = b"hello", **properties: str) -> Command:
        """Send a message, which must be answered at once. The topic is made if it is missing."""
        (reply,) = self.tell(RequestCode.SEND_MESSAGE_V2, send_fields(topic, queue_id, **properties), body)
        return reply

    def pull(self, topic: str, offset: int = 0, **changes: object) -> list[Command]:
        """Pull with a subscription of its own; answer the reply, if there is one at once."""
        return self.tell(RequestCode.PULL_MESSAGE, pull_fields(topic, offset, **changes))

    def sweep_held_pulls(self) -> None:
        """Do what the broker does every 5 s."""
        self.broker.hold.sweep(self.clock.now(), self.broker.store.max_queue_offset)

    def heartbeat(
        self, group: str, *topics: str, expression: str = "*", peer: ScriptedPeer | None = None, **changes: Any
    ) -> None:
        """Be a consumer of a group. `changes` are members of the group's part of the body."""
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
    """Ext fields of a pull as tools send it (11): all tags, said in the pull itself, not to be held."""
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
    loaded = load_config(path)
    config, clock = loaded.broker, HandClock()
    tasks, turns = ScriptedTasks(), ScriptedTurns()
    hold, due_alarm = PullHold(turns.later, InternalErrors()), DueAlarm(clock.now_millis)
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

    replication = NotedReplication(loaded.ha)
    registration = NotedRegistration(config, f"{config.broker_ip2}:{config.listen_port + 1}")
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
        slave_waits=PendingAcks(config.slave_timeout / 1000, PutStatus.FLUSH_SLAVE_TIMEOUT),
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
