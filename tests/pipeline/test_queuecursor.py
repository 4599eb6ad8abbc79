"""A cursor over brokers that have, lack, delete, refuse, and die.

They are functions here; the clock is a test's.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client
from rmqlab.pipeline.topics import queuecursor
from rmqlab.pipeline.topics.queuecursor import Chunk, QueueCursor, ReadError
from rmqlab.pipeline.topics.queues import Filter, Pulled, Reading
from rmqlab.pipeline.topics.topicoffsets import QueueName, QueueRange
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.remoting_errors import ConnectError, RemotingError, RequestTimeoutError

QUEUE = QueueName("orders", "broker-a", 0)
CLIENT = cast("Client", None)
ENOUGH = 10**9


@attrs.define(slots=False)
class FakeBroker:
    """Has messages from `first` to before `end`; returns at most `most` at once."""

    first: int = 0
    end: int = 0
    most: int = 32
    refusal: int | None = None
    remark: str = "no"
    failure: Exception | None = None
    suggests: int = 0
    in_time: int = 1000
    """Responses to concurrent pulls that arrive before their timeout."""
    asked: list[int] = attrs.field(factory=list)
    bursts: list[int] = attrs.field(factory=list)
    """Numbers of concurrent pulls."""
    on_pull: Callable[["FakeBroker"], None] = lambda _: None

    def pull(self, offset: int, count: int) -> Pulled:
        self.asked.append(offset)
        self.on_pull(self)
        if self.failure is not None:
            raise self.failure
        if self.refusal is not None:
            raise BrokerError("here", self.refusal, self.remark)
        if offset < self.first:
            return Pulled(ResponseCode.PULL_OFFSET_MOVED, self.first, self.suggests, b"")
        if offset >= self.end:
            return Pulled(ResponseCode.PULL_NOT_FOUND, offset, self.suggests, b"")
        end = min(offset + min(count, self.most), self.end)
        return Pulled(ResponseCode.SUCCESS, end, self.suggests, b"".join(b"%03d," % n for n in range(offset, end)))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeBroker]:
    """By address; `master` and `slave` are the members of the group."""
    group: dict[str, FakeBroker] = {}

    async def pull(
        _client: Client, address: str, _queue: QueueName, offset: int, *, count: int, reading: Any
    ) -> Pulled:
        await trio.lowlevel.checkpoint()
        assert count > 0
        assert isinstance(reading, Reading)
        return group[address].pull(offset, count)

    async def pull_all(
        client: Client, address: str, queue: QueueName, offsets: Sequence[int], *, count: int, end: int, reading: Any
    ) -> list[Pulled | None]:
        async def pull_or_fail(offset: int) -> Pulled | None:
            with contextlib.suppress(BrokerError, RemotingError):
                return await pull(client, address, queue, offset, count=min(count, end - offset), reading=reading)
            return None

        group[address].bursts.append(len(offsets))
        return [
            await pull_or_fail(offset) if nth < group[address].in_time else None for nth, offset in enumerate(offsets)
        ]

    async def topic_of(_client: Client, _topic: str) -> Any:
        await trio.lowlevel.checkpoint()
        raise ConnectError("no nameserver")

    monkeypatch.setattr(queuecursor, "pull", pull)
    monkeypatch.setattr(queuecursor, "pull_all", pull_all)
    monkeypatch.setattr(queuecursor, "topic_of", topic_of)
    return group


def cursor(brokers: dict[str, FakeBroker], start: int, end: int, **reading: Any) -> QueueCursor:
    ids = {"master": 0, "slave": 1}
    members = {QUEUE.broker: {ids[address]: address for address in brokers}}
    return QueueCursor(QueueRange(QUEUE, start, end), members, Reading(**reading))


async def read_all(walk: QueueCursor) -> tuple[list[int], list[Chunk]]:
    chunks = []
    while not walk.is_done:
        chunks.append(await walk.next(CLIENT, ENOUGH))
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    return [int(n) for chunk in chunks for body in chunk.bodies for n in body.split(b",")[:-1]], chunks


async def test_a_range_is_read_once_whatever_a_pull_gives(brokers: dict[str, FakeBroker]) -> None:
    for most in (1, 7, 32, 1000):
        brokers["master"] = FakeBroker(0, 500, most)
        found, _ = await read_all(cursor(brokers, 3, 450))
        assert found == list(range(3, 450))


async def test_pulls_that_follow_are_under_way_at_once_and_a_short_one_costs_only_what_is_behind_it(
    brokers: dict[str, FakeBroker],
) -> None:
    def shorten(broker: FakeBroker) -> None:
        broker.most = 5 if len(broker.asked) == 4 else 32

    brokers["master"] = FakeBroker(0, 1000, on_pull=shorten)
    found, _ = await read_all(cursor(brokers, 0, 640))
    assert found == list(range(640))
    assert len(brokers["master"].asked) > 640 // 32


async def test_a_member_too_slow_for_all_concurrent_pulls_is_asked_for_less_and_not_left(
    brokers: dict[str, FakeBroker],
) -> None:
    """The link carries 10 responses in time; 22 more would be for nothing, each time."""
    brokers["master"] = master = FakeBroker(0, 10_000, 10, in_time=10)
    brokers["slave"] = slave = FakeBroker(0, 10_000, 10)
    found, _ = await read_all(cursor(brokers, 0, 10_000))
    assert found == list(range(10_000))
    assert slave.asked == []
    assert master.bursts[0] == 32
    assert max(master.bursts[1:]) == 11
    assert sum(master.bursts) < 1.1 * len(found) / 10


async def test_a_member_is_asked_for_as_much_as_before_when_it_is_fast_again(
    brokers: dict[str, FakeBroker],
) -> None:
    def recover(broker: FakeBroker) -> None:
        broker.in_time = 2 if len(broker.asked) < 20 else 1000

    brokers["master"] = master = FakeBroker(0, 10_000, 10, on_pull=recover)
    found, _ = await read_all(cursor(brokers, 0, 10_000))
    assert found == list(range(10_000))
    assert sorted(set(master.bursts[-10:-1])) == [32]


async def test_a_member_that_is_gone_is_passed_over_and_not_asked_again_at_once(brokers: dict[str, FakeBroker]) -> None:
    brokers["master"] = FakeBroker(failure=ConnectError("refused"))
    brokers["slave"] = FakeBroker(0, 200, 10)
    found, _ = await read_all(cursor(brokers, 0, 200))
    assert found == list(range(200))
    assert len(brokers["master"].asked) == 1


async def test_the_broker_read_from_is_the_requested_or_suggested_one(brokers: dict[str, FakeBroker]) -> None:
    for wish, first in (("master", "master"), ("slave", "slave"), ("suggested", "master")):
        brokers |= {"master": FakeBroker(0, 999, 10, suggests=1), "slave": FakeBroker(0, 999, 10, suggests=1)}
        await read_all(cursor(brokers, 0, 900, read_from=wish))
        other = "slave" if first == "master" else "master"
        assert brokers[first].asked
        assert bool(brokers[other].asked) == (wish == "suggested")


async def test_messages_deleted_by_all_members_are_lost_at_once(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    brokers |= {"master": FakeBroker(50, 100), "slave": FakeBroker(40, 100)}
    found, chunks = await read_all(cursor(brokers, 10, 90))
    assert found == list(range(40, 90))
    (loss,) = [chunk.loss for chunk in chunks if chunk.loss]
    assert (loss.start, loss.end) == (10, 40)
    assert "orders@broker-a:0: offsets 10 to 39 are lost: the brokers have deleted them" in str(loss)
    assert autojump_clock.current_time() == 0.0


async def test_messages_deleted_by_one_member_are_read_from_the_other(brokers: dict[str, FakeBroker]) -> None:
    brokers |= {"master": FakeBroker(0, 100), "slave": FakeBroker(90, 100)}
    found, chunks = await read_all(cursor(brokers, 0, 100, read_from="slave"))
    assert found == list(range(100))
    assert not [chunk for chunk in chunks if chunk.loss]


async def test_a_slave_that_lags_is_waited_for_while_the_master_is_away(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    def catch_up(broker: FakeBroker) -> None:
        broker.end = 60 if autojump_clock.current_time() > 30 else 20

    brokers |= {"master": FakeBroker(failure=RequestTimeoutError("silent")), "slave": FakeBroker(0, 20)}
    brokers["slave"].on_pull = catch_up
    found, chunks = await read_all(cursor(brokers, 0, 60, seconds=120))
    assert found == list(range(60))
    assert not [chunk for chunk in chunks if chunk.loss]


async def test_messages_that_a_whole_group_lacks_are_lost_when_all_have_said_so_for_a_while(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    brokers |= {"master": FakeBroker(0, 30), "slave": FakeBroker(0, 20)}
    found, chunks = await read_all(cursor(brokers, 0, 60, seconds=120))
    assert found == list(range(30))
    assert chunks[-1].loss is not None
    assert (chunks[-1].loss.start, chunks[-1].loss.end) == (30, 60)
    assert 10 <= autojump_clock.current_time() < 15


async def test_messages_only_on_a_dead_member_are_lost_at_the_deadline(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    """Messages that the slave deleted are lost unless the master may have them."""
    brokers |= {"master": FakeBroker(failure=ConnectError("refused")), "slave": FakeBroker(25, 60)}
    found, chunks = await read_all(cursor(brokers, 0, 60, seconds=40))
    assert found == list(range(25, 60))
    (loss,) = [chunk.loss for chunk in chunks if chunk.loss]
    assert (loss.start, loss.end) == (0, 25)
    assert autojump_clock.current_time() >= 40


async def test_brokers_that_all_are_silent_are_an_error_and_no_loss(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    brokers |= {"master": FakeBroker(failure=ConnectError("refused")), "slave": FakeBroker(failure=ConnectError("so"))}
    with pytest.raises(ReadError, match=r"no broker served it within 40 s .*broker id 0: refused.*Start its broker"):
        await read_all(cursor(brokers, 0, 60, seconds=40))
    assert autojump_clock.current_time() >= 40


async def test_a_queue_without_brokers_is_an_error_and_no_loss(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    with pytest.raises(ReadError, match="the route names no broker"):
        await read_all(cursor(brokers, 0, 60, seconds=40))
    assert autojump_clock.current_time() >= 40


async def test_a_refusal_of_all_is_an_error_at_once_and_one_of_a_slave_is_not(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    """A slave learns of a new topic up to ten seconds after its master."""
    brokers |= {"master": FakeBroker(0, 60), "slave": FakeBroker(refusal=ResponseCode.TOPIC_NOT_EXIST)}
    found, _ = await read_all(cursor(brokers, 0, 60, read_from="slave"))
    assert found == list(range(60))
    brokers["master"] = FakeBroker(refusal=ResponseCode.NO_PERMISSION)
    with pytest.raises(ReadError, match="cannot be read: here returned code 16: no; here returned code 17: no"):
        await read_all(cursor(brokers, 0, 60))
    assert autojump_clock.current_time() == 0.0


async def test_brokers_without_sql_filters_are_an_error_at_once(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    """A stream from a checkpoint pulls nothing before its tasks do."""
    remark = "The broker does not support consumer to filter message by SQL92"
    for name in ("master", "slave"):
        brokers[name] = FakeBroker(refusal=ResponseCode.SYSTEM_ERROR, remark=remark)
    with pytest.raises(ReadError, match="cannot be read: here returned code 1: The broker does not support"):
        await read_all(cursor(brokers, 0, 60))
    assert autojump_clock.current_time() == 0.0


async def test_a_slave_without_the_topic_is_retried_while_its_master_is_away(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    brokers["slave"] = FakeBroker(refusal=ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(ReadError, match=r"no broker served it within 40 s .*code 17"):
        await read_all(cursor(brokers, 0, 60, seconds=40))
    assert autojump_clock.current_time() >= 40


async def test_with_a_filter_nothing_that_was_passed_over_is_lost(
    brokers: dict[str, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers["master"] = FakeBroker()
    answers = [Pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, 40, 0, b""), Pulled(ResponseCode.SUCCESS, 90, 0, b"040,")]
    answers.append(Pulled(ResponseCode.SUCCESS, 1, 0, b"000,"))  # the first message is still there
    monkeypatch.setattr(broker, "pull", lambda _offset, _count: answers.pop(0))
    found, chunks = await read_all(cursor(brokers, 0, 80, message_filter=Filter(tags=("a",))))
    assert found == [40]
    assert not [chunk for chunk in chunks if chunk.loss]


@attrs.define(slots=False)
class FilteringBroker(FakeBroker):
    """Returns messages with even offsets.

    Those before `logged` are in the queue, but not in the log.
    """

    logged: int = 0

    def pull(self, offset: int, count: int) -> Pulled:
        pulled = super().pull(offset, count)
        if not pulled.is_found:
            return pulled
        if count == 1:  # without the filter: the next message that is in the log
            at = max(offset, self.logged)
            return Pulled(ResponseCode.SUCCESS, at + 1, 0, b"%03d," % at)
        evens = [n for n in range(offset, pulled.next_offset) if n >= self.logged and n % 2 == 0]
        code = ResponseCode.SUCCESS if evens else ResponseCode.PULL_RETRY_IMMEDIATELY
        return Pulled(code, pulled.next_offset, 0, b"".join(b"%03d," % n for n in evens))


EVEN = Filter(sql="n % 2 = 0")


async def test_messages_that_expire_under_a_filter_are_lost_and_not_passed_over(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    def expire(broker: FakeBroker) -> None:
        """Correct the queue a little later than the log, as brokers do."""
        if autojump_clock.current_time() > 3:
            broker.first = 40

    brokers["master"] = FilteringBroker(0, 100, logged=40, on_pull=expire)
    found, chunks = await read_all(cursor(brokers, 0, 100, message_filter=EVEN))
    assert found == list(range(40, 100, 2))
    (loss,) = [chunk.loss for chunk in chunks if chunk.loss]
    assert (loss.start, loss.end) == (0, 40)


async def test_expired_filtered_messages_are_read_from_the_other_member(brokers: dict[str, FakeBroker]) -> None:
    brokers |= {"master": FilteringBroker(0, 100, logged=40), "slave": FilteringBroker(0, 100)}
    found, chunks = await read_all(cursor(brokers, 0, 100, message_filter=EVEN))
    assert found == list(range(0, 100, 2))
    assert not [chunk for chunk in chunks if chunk.loss]


async def test_messages_that_only_the_log_lacks_are_lost_under_a_filter(
    brokers: dict[str, FakeBroker], autojump_clock: MockClock
) -> None:
    brokers["master"] = FilteringBroker(0, 100, logged=40)
    found, chunks = await read_all(cursor(brokers, 0, 100, message_filter=EVEN, seconds=60))
    assert found == list(range(40, 100, 2))
    (loss,) = [chunk.loss for chunk in chunks if chunk.loss]
    assert str(loss).startswith("orders@broker-a:0: offsets 0 to 99 are lost: the brokers have deleted some of them")
    assert 60 <= autojump_clock.current_time() < 70
