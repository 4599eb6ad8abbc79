"""Committed offsets of a group, as the members of a broker's group report them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.pipeline.topics.groupoffsets import Commits, committed_offset
from rmqlab.pipeline.topics.queues import UnreachableError
from rmqlab.pipeline.topics.topicbounds import Bounds
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.remoting.bodies.topic import GroupList
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.offset import QueryConsumerOffsetRequestHeader
from rmqlab.runtime.net.remoting_errors import RemotingError

if TYPE_CHECKING:
    from rmqlab.client.instance import Client

MEMBERS = {0: "master", 1: "slave"}


def committed(replies: Mapping[str, int | ResponseCode | None]) -> int | None:
    """Return the result of `committed_offset` for these replies by address.

    A reply is an offset, an error, or None if missing.
    """

    async def ask(address: str, _code: int, header: QueryConsumerOffsetRequestHeader) -> Any:
        await trio.lowlevel.checkpoint()
        assert (header.consumer_group, header.topic, header.queue_id) == ("NS%billing", "NS%orders", 2)
        reply = replies[address]
        if reply is None:
            raise RemotingError("no reply")
        if isinstance(reply, ResponseCode):
            raise BrokerError(address, reply, "refused")
        return SimpleNamespace(header=lambda _kind: SimpleNamespace(offset=reply))

    client = cast("Client", SimpleNamespace(ask=ask, named=lambda name: f"NS%{name}"))
    return trio.run(committed_offset, client, QueueName("orders", "broker-a", 2), MEMBERS, "billing")


@pytest.mark.parametrize(
    ("master", "slave", "offset"),
    [
        (7, None, 7),
        (None, 5, 5),
        (0, 5, 0),
        (ResponseCode.QUERY_NOT_FOUND, 5, None),
        (None, ResponseCode.QUERY_NOT_FOUND, None),
    ],
)
def test_the_first_member_that_responds_decides(
    master: int | ResponseCode | None, slave: int | ResponseCode | None, offset: int | None
) -> None:
    assert committed({"master": master, "slave": slave}) == offset


def test_a_permanent_error_is_not_a_missing_commit() -> None:
    with pytest.raises(UnreachableError) as caught:
        committed({"master": ResponseCode.NO_PERMISSION, "slave": None})
    assert caught.value.is_refused


def test_a_broker_is_asked_once_for_the_groups_of_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    async def ask(address: str, code: int, _header: object) -> Any:
        await trio.lowlevel.checkpoint()
        asked.append((address, code))
        groups = ["billing"] if address == "a" else ["audit"]
        return SimpleNamespace(
            body=GroupList(group_list=groups).encode(), header=lambda _kind: SimpleNamespace(offset=7)
        )

    client = SimpleNamespace(ask=ask, named=str, unnamed=str)
    link = SimpleNamespace(call=lambda fn: trio.run(fn, client))
    monkeypatch.setattr("rmqlab.pipeline.topics.topicoptions.link_to", lambda _config: link)
    queues = {QueueName("orders", broker, number) for broker in "ab" for number in range(3)}
    options = TopicOptions(name_server="n:1", topic="orders", starting_group="billing")
    found = Bounds(options, members={"a": {0: "a"}, "b": {0: "b"}}, queues=queues).commits()
    assert found == Commits({queue: 7 for queue in queues if queue.broker == "a"}, frozenset({"billing", "audit"}))
    of_groups, of_offsets = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, RequestCode.QUERY_CONSUMER_OFFSET
    assert sorted(asked) == sorted([("a", of_groups), ("b", of_groups), *[("a", of_offsets)] * 3])
