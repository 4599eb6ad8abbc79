"""How long a broker may have held a pull: by reply, messages, and final error."""

import attrs
import pytest
import trio

from rmqlab.client.broker_api import PullResult, PullStatus
from rmqlab.client.errors import BrokerError
from rmqlab.client.message import ReceivedMessage, received
from rmqlab.client.pulltiming import PullTiming
from rmqlab.remoting.message import decode_message
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.net.remoting_errors import ConnectionLostError
from tests.client.conftest import record


def found_one(stored_at: int) -> PullResult:
    message: ReceivedMessage = received(decode_message(record("orders", 0, 0, b"x")), "a", "")
    message.stored.store_timestamp = stored_at
    return pull_result(PullStatus.FOUND, [message])


def pull_result(status: PullStatus, messages: list[ReceivedMessage] | None = None) -> PullResult:
    result = PullResult(status=status, next_offset=0, min_offset=0, max_offset=0, suggested_broker_id=0, messages=[])
    return attrs.evolve(result, messages=messages or [])


async def sent_pull(seconds: float) -> PullTiming:
    """A pull that was sent so many seconds ago."""
    timing = PullTiming(15.0)
    timing.sent()
    await trio.sleep(seconds)
    return timing


async def test_an_answer_without_messages_was_held_all_the_time() -> None:
    timing = await sent_pull(16)
    assert timing.held_before(pull_result(PullStatus.NO_NEW_MSG), is_slave=False) == 16_000
    assert timing.took == 16_000


async def test_a_late_reply_counts_as_held_for_the_suspend_timeout_only() -> None:
    timing = await sent_pull(25)
    assert timing.held_before(pull_result(PullStatus.NO_NEW_MSG), is_slave=False) == 15_000


@pytest.mark.parametrize(("ago", "held"), [(0, 10_000), (5, 10_000), (8, 0), (30, 0)])
async def test_messages_were_waited_for_if_they_are_new_and_came_at_once(ago: int, held: int) -> None:
    """Stored before the pull: they were there.

    Stored long ago: nothing was holding the pull any more.
    """
    timing = await sent_pull(10)
    assert timing.held_before(found_one(wall_millis() - ago * 1000), is_slave=False) == held


@pytest.mark.parametrize(("seconds", "held"), [(18, 18_000), (25, 0)])
async def test_a_slave_may_hold_a_pull_for_messages_that_its_master_stored_long_ago(seconds: int, held: int) -> None:
    timing = await sent_pull(seconds)
    assert timing.held_before(found_one(wall_millis() - 60_000), is_slave=True) == held


async def test_another_offset_is_never_waited_for() -> None:
    timing = await sent_pull(10)
    assert timing.held_before(pull_result(PullStatus.OFFSET_ILLEGAL), is_slave=False) == 0


async def test_only_a_lost_connection_ends_a_hold_and_only_within_its_time() -> None:
    timing = await sent_pull(10)
    assert timing.held_before_loss(ConnectionLostError("cut")) == 10_000
    assert timing.held_before_loss(BrokerError("a:1", 24, "no")) == 0
    assert PullTiming(15.0).held_before_loss(ConnectionLostError("never sent")) == 0
    assert (await sent_pull(22)).held_before_loss(ConnectionLostError("cut")) == 0
