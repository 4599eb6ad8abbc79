"""A nameserver and brokers inside the test: they keep messages, fail on request."""

import collections
import inspect
import pathlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import Client, open_client
from rmqlab.remoting.batch import decode_batch
from rmqlab.remoting.bodies.group import GetConsumerListByGroupResponseBody
from rmqlab.remoting.bodies.heartbeat import HeartbeatData
from rmqlab.remoting.bodies.queue import LockBatchRequestBody, LockBatchResponseBody
from rmqlab.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rmqlab.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqlab.remoting.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqlab.remoting.message import HEADS, MESSAGE_MAGIC, offset_message_id, pack_host
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.server import Server

Answer = Reply | None | Callable[[Request], Reply | None]
"""What to say next to a request code; None says nothing."""

BORN = pack_host(("127.0.0.1", 50000))
STORE = pack_host(("127.0.0.1", 10911))


def record(topic: str, queue_id: int, offset: int, body: bytes, properties: str = "", times: int = 0) -> bytes:
    """Write a message as it is stored."""
    name, text = topic.encode(), properties.encode()
    head = HEADS[0]
    size = head.size + len(body) + 1 + len(name) + 2 + len(text)
    fixed = head.pack(
        size, MESSAGE_MAGIC, 0, queue_id, 0, offset, offset * 1000, 0, 1, BORN, 2, STORE, times, 0, len(body)
    )
    return fixed + body + bytes([len(name)]) + name + struct.pack(">h", len(text)) + text


class Peer:
    """A server with scripted replies by request code."""

    def __init__(self, reactor: Reactor, host: str) -> None:
        self.log: list[Command] = []
        self.script: dict[int, collections.deque[Answer]] = collections.defaultdict(collections.deque)
        self.handlers: dict[int, Callable[[Request], Reply | None]] = {}
        routes = [Route[None](code, None, self._handle) for code in RequestCode]
        self.server = Server(reactor, Dispatcher(handler_table(routes), None))
        self.host, self.port = self.server.listen(host, 0)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def asked(self, code: RequestCode) -> list[Command]:
        """Requests of one code, in order."""
        return [command for command in self.log if command.code == code]

    def die(self) -> None:
        """As a process that is killed: every connection closes, new ones are refused."""
        self.server.close()

    def revive(self) -> None:
        """Listen again at the same address."""
        self.server.listen(self.host, self.port)

    def _handle(self, _state: None, _header: None, request: Request) -> Reply | None:
        self.log.append(request.command)
        script = self.script[request.command.code]
        if script:
            answer = script.popleft()
            return answer(request) if callable(answer) else answer
        handler = self.handlers.get(request.command.code)
        return Reply() if handler is None else handler(request)


class FakeNameServer(Peer):
    """Returns routes from a dict."""

    def __init__(self, reactor: Reactor, host: str) -> None:
        super().__init__(reactor, host)
        self.routes: dict[str, TopicRouteData] = {}
        self.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route

    def _route(self, request: Request) -> Reply:
        route = self.routes.get(request.command.ext_fields["topic"])
        return Reply(ResponseCode.TOPIC_NOT_EXIST, remark="no route") if route is None else Reply(body=route.encode())


class FakeBroker(Peer):
    """Keeps messages in lists, wakes held pulls, and knows the members of groups."""

    def __init__(self, reactor: Reactor, host: str) -> None:
        super().__init__(reactor, host)
        self.queues: dict[tuple[str, int], list[bytes]] = collections.defaultdict(list)
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, dict[Any, str]] = collections.defaultdict(dict)
        self.locked: dict[Any, str] = {}
        self.parked: list[Request] = []
        self.handlers = {
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._member_list,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def put(self, topic: str, queue_id: int, *bodies: bytes, properties: str = "", times: int = 0) -> None:
        """Store messages, and reply to the pulls that wait for them."""
        queue = self.queues[topic, queue_id]
        for body in bodies:
            queue.append(record(topic, queue_id, len(queue), body, properties, times))
        parked, self.parked = self.parked, []
        for waiting in parked:
            if (reply := self._pull(waiting)) is not None:
                waiting.reply(reply)

    def _send(self, request: Request) -> Reply:
        header = request.command.header(SendMessageRequestHeaderV2)
        assert header.topic is not None
        assert header.queue_id is not None
        queue = self.queues[header.topic, header.queue_id]
        offset = len(queue)
        body = request.command.body
        bodies = [*decode_batch(body).bodies] if header.batch else [body]
        self.put(header.topic, header.queue_id, *bodies, properties=header.properties or "")
        msg_id = offset_message_id(self.host, self.port, offset)
        return Reply(header=SendMessageResponseHeader(msg_id=msg_id, queue_id=header.queue_id, queue_offset=offset))

    def _pull(self, request: Request) -> Reply | None:
        header = request.command.header(PullMessageRequestHeader)
        queue = self.queues[header.topic, header.queue_id]
        if header.sys_flag & 1:
            self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset or 0
        found = queue[header.queue_offset : header.queue_offset + header.max_msg_nums]
        if not found and header.sys_flag & 2:
            self.parked.append(request)
            return None
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=0,
            next_begin_offset=header.queue_offset + len(found),
            min_offset=0,
            max_offset=len(queue),
        )
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND
        return Reply(code, header=answer, body=b"".join(found))

    def _heartbeat(self, request: Request) -> Reply:
        data = HeartbeatData.decode(request.command.body)
        for consumer in data.consumer_data_set:
            members = self.members[consumer.group_name]
            if members.get(request.channel) != data.client_id:
                members[request.channel] = data.client_id or ""
                request.channel.on_close.append(lambda: self._left(request.channel))
                self._notify(consumer.group_name)
        return Reply()

    def _unregister(self, request: Request) -> Reply:
        group = request.command.ext_fields.get("consumerGroup")
        if group and self.members[group].pop(request.channel, None):
            self._notify(group)
        return Reply()

    def _left(self, channel: Any) -> None:
        for group, members in self.members.items():
            if members.pop(channel, None):
                self._notify(group)

    def _notify(self, group: str) -> None:
        for channel in self.members[group]:
            channel.send_oneway(_notification(group))

    def _member_list(self, request: Request) -> Reply:
        ids = list(self.members[request.command.ext_fields["consumerGroup"]].values())
        if not ids:
            return Reply(ResponseCode.SYSTEM_ERROR, remark="nobody")
        return Reply(body=GetConsumerListByGroupResponseBody(consumer_id_list=ids).encode())

    def _query_offset(self, request: Request) -> Reply:
        header = request.command.header(QueryConsumerOffsetRequestHeader)
        assert header.topic is not None
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id), 0)
        return Reply(header={"offset": str(offset)})

    def _update_offset(self, request: Request) -> Reply:
        header = request.command.header(UpdateConsumerOffsetRequestHeader)
        self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return Reply()

    def _max_offset(self, request: Request) -> Reply:
        fields = request.command.ext_fields
        return Reply(header={"offset": str(len(self.queues[fields["topic"], int(fields["queueId"])]))})

    def _lock(self, request: Request) -> Reply:
        body = LockBatchRequestBody.decode(request.command.body)
        granted = [queue for queue in body.mq_set if self.locked.setdefault(queue, body.client_id) == body.client_id]
        return Reply(body=LockBatchResponseBody(lock_ok_mq_set=granted).encode())

    def _unlock(self, request: Request) -> Reply:
        body = LockBatchRequestBody.decode(request.command.body)
        for queue in body.mq_set:
            if self.locked.get(queue) == body.client_id:
                del self.locked[queue]
        return Reply()


def _notification(group: str) -> Command:
    return request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True)


@attrs.define(eq=False)
class World:
    """One nameserver, and brokers by name: each a list, the master first."""

    reactor: Reactor
    name_server: FakeNameServer
    brokers: dict[str, list[FakeBroker]] = attrs.field(factory=dict)

    def add(self, name: str, count: int = 1) -> list[FakeBroker]:
        """Start a broker group."""
        self.brokers[name] = [FakeBroker(self.reactor, self.name_server.host) for _ in range(count)]
        return self.brokers[name]

    def route(self, topic: str, queues: int = 4, *, perm: int = 6, without: FakeBroker | None = None) -> None:
        """Add a topic's route at all brokers except one that is believed dead."""
        self.name_server.routes[topic] = TopicRouteData(
            broker_datas=[
                BrokerData(
                    broker_name=name,
                    cluster="c",
                    broker_addrs={index: peer.address for index, peer in enumerate(peers) if peer is not without},
                )
                for name, peers in self.brokers.items()
            ],
            queue_datas=[
                QueueData(broker_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
                for name in self.brokers
            ],
        )

    def config(self, **changes: Any) -> ClientConfig:
        """Settings of a client of this world."""
        return ClientConfig(**{"namesrv_addr": self.name_server.address, "client_ip": "10.0.0.9"} | changes)

    @staticmethod
    async def until(condition: Callable[[], bool], within: float = 60.0) -> None:
        """Poll for a fact; raise trio.TooSlowError if it does not become true."""
        with trio.fail_after(within):
            while not condition():  # noqa: ASYNC110 - facts of every kind; time is a mock's
                await trio.sleep(0.2)

    def close(self) -> None:
        for peer in [self.name_server, *(peer for peers in self.brokers.values() for peer in peers)]:
            peer.server.close()


def run_in_mock_time(fn: Callable[[], Any], *, clock: trio.abc.Clock | None, instruments: Any) -> Any:
    """Time jumps when nothing happens.

    The threshold lets bytes on loopback arrive first.
    """
    mock = trio.testing.MockClock(autojump_threshold=0.01)
    return trio.run(fn, clock=clock or mock, instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the async tests of this folder in mock time.

    With a fixture, each test would have to request the clock.
    """
    for item in items:
        is_ours = item.path.parent == pathlib.Path(__file__).parent
        if is_ours and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_in_mock_time), append=False)


@pytest.fixture
async def world(own_host: str) -> AsyncIterator[World]:
    async with open_reactor() as reactor:
        world = World(reactor, FakeNameServer(reactor, own_host))
        yield world
        world.close()


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    async with open_client(world.config()) as client:
        yield client
