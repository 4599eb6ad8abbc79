"""Search for the first message of a time, with brokers that return a near one."""

from types import SimpleNamespace
from typing import Any, cast

import hypothesis
import pytest
import trio
from hypothesis import strategies

from rmqlab.client.instance import Client
from rmqlab.pipeline import queues
from rmqlab.pipeline.queues import Pulled, offset_at
from rmqlab.pipeline.topicoffsets import QueueName
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.message import StoredMessage, encode_message

CLIENT = cast("Client", SimpleNamespace(named=lambda name: name))
"""A client without a namespace, which these tests ask for nothing else."""
QUEUE = QueueName("orders", "broker-a", 0)


def record(stored_at: int) -> bytes:
    host = ("127.0.0.1", 1)
    return encode_message(StoredMessage(0, 0, 0, 0, 0, 0, 0, 0, host, stored_at, host, 0, 0, b"x", "orders", "", {}))


def found_by(times: list[int], expired: int, millis: int, nearest: int) -> tuple[int, int]:
    """Return the result of `offset_at` for these store times, and its number of pulls."""
    pulls = 0

    async def ask(*_: Any) -> tuple[Any, int]:
        await trio.lowlevel.checkpoint()

        class Answer:
            def header(self, _kind: Any) -> Any:
                return type("Header", (), {"offset": nearest})

        return Answer(), 0

    async def pull(_client: Client, _address: str, _queue: QueueName, offset: int, *, count: int) -> Pulled:
        nonlocal pulls
        pulls += 1
        await trio.lowlevel.checkpoint()
        if not expired <= offset < len(times):
            return Pulled(ResponseCode.PULL_OFFSET_MOVED, expired, 0, b"")
        return Pulled(ResponseCode.SUCCESS, offset + count, 0, record(times[offset]))

    async def find() -> int:
        return await offset_at(CLIENT, QUEUE, {0: "here"}, millis)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "_ask_in_order", ask)
        patch.setattr(queues, "pull", pull)
        return trio.run(find), pulls


@hypothesis.given(
    strategies.lists(strategies.integers(0, 12), min_size=1, max_size=60).map(sorted),
    strategies.integers(0, 13),
    strategies.data(),
)
def test_the_first_of_a_time_is_found_from_any_message_near_it(
    times: list[int], millis: int, data: strategies.DataObject
) -> None:
    expired = data.draw(strategies.integers(0, len(times) - 1))
    there = range(expired, len(times))
    equal = [offset for offset in there if times[offset] == millis]
    later = [offset for offset in there if times[offset] > millis][:1]
    earlier = [offset for offset in there if times[offset] < millis][-1:]
    nearest = data.draw(strategies.sampled_from(equal or later + earlier))
    wanted = min(equal + later, default=len(times))
    assert found_by(times, expired, millis, nearest)[0] == wanted


def test_many_messages_of_one_millisecond_take_few_pulls() -> None:
    found, pulls = found_by([1] * 10 + [5] * 100_000, 0, 5, 77_777)
    assert found == 10
    assert pulls < 50


def test_an_empty_queue_begins_at_its_first_offset() -> None:
    assert found_by([], 0, 5, 0)[0] == 0
