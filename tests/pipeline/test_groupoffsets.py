"""Committed offsets of a group, as the members of a broker's group report them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.pipeline.topics.groupoffsets import committed_offset
from rmqlab.pipeline.topics.queues import UnreachableError
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.remoting.codes import ResponseCode
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
