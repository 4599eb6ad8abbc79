"""Bounds of many queues, and the first message of a time.

Brokers return a message near it.
"""

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import hypothesis
import pytest
import trio
from hypothesis import strategies
from trio.testing import MockClock

from rmqlab.client.instance import Client
from rmqlab.pipeline.topics import timesearch
from rmqlab.pipeline.topics.queues import BOUNDS_AT_ONCE, MAX_OFFSET, Bound, Pulled, gather_bounds, max_offset
from rmqlab.pipeline.topics.timesearch import offset_at
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import StoredMessage, encode_message
from rmqlab.runtime.net.remoting_errors import ConnectError, RequestTimeoutError
from tests.pipeline.hostile import reply

QUEUE = QueueName("orders", "broker-a", 0)


def record(stored_at: int) -> bytes:
    host = ("127.0.0.1", 1)
    return encode_message(StoredMessage(0, 0, 0, 0, 0, 0, 0, 0, host, stored_at, host, 0, 0, b"x", "orders", "", {}))


def found_by(times: list[int], expired: int, millis: int, nearest: int) -> tuple[int, int]:
    """Return the result of `offset_at` for these store times, and its number of pulls."""
    pulls = 0

    async def ask(*_: Any) -> Command:
        await trio.lowlevel.checkpoint()
        return reply(offset=nearest)

    client = cast("Client", SimpleNamespace(named=lambda name: name, ask=ask))

    async def pull(_client: Client, _address: str, _queue: QueueName, offset: int, *, count: int) -> Pulled:
        nonlocal pulls
        pulls += 1
        await trio.lowlevel.checkpoint()
        if not expired <= offset < len(times):
            return Pulled(ResponseCode.PULL_OFFSET_MOVED, expired, 0, b"")
        return Pulled(ResponseCode.SUCCESS, offset + count, 0, record(times[offset]))

    async def find() -> int:
        return await offset_at(client, QUEUE, {0: "here"}, millis)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timesearch, "pull", pull)
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


def test_a_search_of_the_largest_queue_waits_for_few_responses() -> None:
    """A broker may report any offset as that of the nearest message."""
    rounds = 0

    async def find() -> int:
        async def is_older(place: int) -> bool:
            nonlocal rounds
            rounds = round(trio.current_time() - started) + 1
            await trio.sleep(1)
            return place < MAX_OFFSET // 3

        started = trio.current_time()
        return await timesearch._first_not_older(is_older, MAX_OFFSET)

    assert trio.run(find, clock=MockClock(autojump_threshold=0)) == MAX_OFFSET // 3
    assert rounds < 35


def test_an_empty_queue_begins_at_its_first_offset() -> None:
    assert found_by([], 0, 5, 0)[0] == 0


async def test_a_broker_is_asked_for_a_limited_number_of_bounds_at_a_time(autojump_clock: MockClock) -> None:
    """With all at once most requests timed out.

    A silent broker does not hold up the others.
    """
    names = [QueueName("orders", broker, number) for broker in ("a", "b", "silent") for number in range(2000)]
    under_way = Counter[str]()

    async def ask(_client: Client, queue: QueueName, _members: Mapping[int, str]) -> Bound:
        under_way[queue.broker] += 1
        assert under_way[queue.broker] <= BOUNDS_AT_ONCE
        await trio.sleep(1000 if queue.broker == "silent" else 1)
        under_way[queue.broker] -= 1
        return Bound(7, 0)

    client = cast("Client", SimpleNamespace())
    got = await gather_bounds(client, names, {}, ask, seconds=10)
    assert got.bounds.keys() == set(names[:4000])
    assert got.silent == dict.fromkeys(names[4000:], "no response within 10 s")
    assert autojump_clock.current_time() == 10


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("failure", [RequestTimeoutError("silent"), ConnectError("no route")])
async def test_a_silent_master_holds_up_no_queue_that_its_slave_serves(failure: Exception) -> None:
    """Two rounds of BOUNDS_AT_ONCE queues that ask it first take all the time."""
    asked = Counter[str]()

    async def ask(address: str, *_: Any) -> Command:
        asked[address] += 1
        await trio.sleep(5 if address == "master" else 0.01)
        if address == "master":
            raise failure
        return reply(offset=7)

    client = cast("Client", SimpleNamespace(named=lambda name: name, ask=ask))
    names = [QueueName("orders", "a", number) for number in range(4 * BOUNDS_AT_ONCE)]
    got = await gather_bounds(client, names, {"a": {0: "master", 1: "slave"}}, max_offset, seconds=10)
    assert got.silent == {}
    assert got.bounds == dict.fromkeys(names, Bound(7, 1))
    assert asked["master"] == BOUNDS_AT_ONCE
    again = await gather_bounds(client, names[:1], {"a": {0: "master", 1: "slave"}}, max_offset, seconds=10)
    assert again.bounds == {names[0]: Bound(7, 1)}
    assert asked["master"] == BOUNDS_AT_ONCE + 1


@pytest.mark.usefixtures("autojump_clock")
async def test_a_master_that_is_late_once_is_still_asked_first() -> None:
    """Its slave may end earlier, and a batch would leave out acknowledged messages."""

    async def ask(address: str, _code: int, header: Any) -> Command:
        await trio.sleep(0.01)
        if address == "master" and header.queue_id == 3:
            raise RequestTimeoutError("late")
        return reply(offset=7)

    client = cast("Client", SimpleNamespace(named=lambda name: name, ask=ask))
    names = [QueueName("orders", "a", number) for number in range(2 * BOUNDS_AT_ONCE)]
    got = await gather_bounds(client, names, {"a": {0: "master", 1: "slave"}}, max_offset, seconds=10)
    assert got.bounds == {queue: Bound(7, int(queue.queue_id == 3)) for queue in names}


@pytest.mark.usefixtures("autojump_clock")
async def test_a_silent_broker_without_another_member_is_asked_for_each_queue() -> None:
    async def ask(*_: Any) -> Command:
        await trio.sleep(0.01)
        raise ConnectError("refused")

    client = cast("Client", SimpleNamespace(named=lambda name: name, ask=ask))
    names = [QueueName("orders", "a", number) for number in range(BOUNDS_AT_ONCE + 1)]
    got = await gather_bounds(client, names, {"a": {0: "master"}}, max_offset, seconds=10)
    assert set(got.silent.values()) == {"no member responds (broker id 0 at master: refused)"}
