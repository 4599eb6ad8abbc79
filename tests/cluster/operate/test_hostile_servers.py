"""Operations at a nameserver and broker that reply as no RocketMQ does.

Each operation ends: with a value that can be printed, or with an OperationError.
"""

import contextlib
import functools
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from rmqlab.cluster.jsontext import json_text
from rmqlab.cluster.operate import groups, messages, offsets, permissions, settings, topicchanges, topics
from rmqlab.cluster.operate.errors import OperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Connection, Operator, open_operator
from rmqlab.remoting.bodies.queue import MessageQueue
from tests.fuzz import frames
from tests.fuzz.evil import EvilServer
from tests.fuzz.odd import Odd

Serve = Callable[[trio.SocketStream], Awaitable[None]]
QUEUE = MessageQueue(topic="FuzzTopic", broker_name="broker-a", queue_id=0)
OPERATIONS: dict[str, Callable[[Operator], Awaitable[Any]]] = {
    "topics list": topics.list_topics,
    "topics route": lambda operator: topics.topic_route(operator, "FuzzTopic"),
    "topics status": lambda operator: topics.topic_status(operator, "FuzzTopic"),
    "topics create": lambda operator: topicchanges.create_topic(operator, topicchanges.TopicChange(topic="new")),
    "topics delete": lambda operator: topicchanges.delete_topic(operator, "FuzzTopic"),
    "groups list": groups.list_groups,
    "groups lag": lambda operator: groups.group_lag(operator, "fuzz"),
    "groups create": lambda operator: groups.create_group(operator, groups.GroupChange(group="new")),
    "groups delete": lambda operator: groups.delete_group(operator, "fuzz"),
    "offsets show": lambda operator: offsets.show_offsets(operator, "fuzz"),
    "offsets reset": lambda operator: offsets.reset_to_offset(operator, "fuzz", "FuzzTopic", 0),
    "messages at": lambda operator: messages.messages_at(operator, QUEUE, 0),
    "messages id": lambda operator: messages.message_by_id(operator, "7F00000100002A9F0000000000000000"),
    "messages unique-key": lambda operator: messages.message_by_unique_key(operator, "FuzzTopic", "k"),
    "messages key": lambda operator: messages.messages_by_key(operator, "FuzzTopic", "k"),
    "config get": lambda operator: settings.get_settings(operator, "broker-a"),
    "config set": lambda operator: settings.set_settings(operator, "broker-a", {"flushDiskType": "SYNC_FLUSH"}),
    "wipe-write-perm": lambda operator: permissions.wipe_write_perm(operator, "broker-a"),
}


@contextlib.asynccontextmanager
async def operator_at(serve: Serve) -> AsyncIterator[str]:
    """Yield the address of a server."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_at_an_evil_server_ends(name: str, seed: int) -> None:
    evil = EvilServer(Odd(f"{name}/{seed}"))
    async with operator_at(evil.serve) as evil.address:
        for _ in range(5):
            with contextlib.suppress(OperationError):
                async with open_operator(Connection(namesrv_addr=evil.address)) as operator:
                    assert json_text(as_json(await OPERATIONS[name](operator)))
    assert evil.replies


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "sent an invalid reply: TopicList: a value expected"),
        (b"null", "sent an invalid reply: TopicList: Expected `object`, got `null`"),
        (b'{"topicList":[[]]}', "sent an invalid reply: TopicList: Expected `str"),
        (b"[" * 500_000, "sent an invalid reply: TopicList: objects or lists nested too deep"),
    ],
)
async def test_an_invalid_reply_is_attributed_to_its_server(body: bytes, text: str) -> None:
    address, said = await error_of(topics.list_topics, body)
    assert said.startswith(f"{address} {text}")


@pytest.mark.parametrize("change", [{}, {"listenPort": "1"}])
async def test_a_name_server_without_settings_is_an_error(change: dict[str, str]) -> None:
    async def operation(operator: Operator) -> Any:
        return await (
            settings.set_settings(operator, "namesrv", change) if change else settings.get_settings(operator, "namesrv")
        )

    address, text = await error_of(operation, b"")
    assert text == f"{address} replied without settings"


async def error_of(operation: Callable[[Operator], Awaitable[Any]], body: bytes) -> tuple[str, str]:
    """Return the address of a server that replies so, and the error's text."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            payload = await stream.receive_some(2**16)
            (size,) = struct.unpack_from(">I", payload, 4)
            opaque = json.loads(payload[8 : 8 + (size & 0xFFFFFF)])["opaque"]
            header = {"code": 0, "flag": 1, "language": "JAVA", "opaque": opaque, "version": 401}
            await stream.send_all(frames.frame(frames.JSON, json.dumps(header).encode(), body))
            await stream.receive_some(1)

    async with operator_at(serve) as address:
        with pytest.raises(OperationError) as caught:
            async with open_operator(Connection(namesrv_addr=address)) as operator:
                await operation(operator)
    return address, str(caught.value)
