"""When delayed delivery looks, and how long it sleeps."""

import pathlib
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from rmqlab.broker.deferred.delay import DelayedDelivery, DueAlarm
from rmqlab.broker.scripted import ScriptedTurns
from rmqlab.broker.waits.arrivals import Arrivals
from rmqlab.broker.waits.held_pulls import PullHold
from rmqlab.remoting import names
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    NewMessage,
)
from rmqlab.runtime import stopwatch
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.clock import wall_millis
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import Decision, PutResult, PutStatus
from rmqlab.store.testing import new_message, small_config


@pytest.fixture
def alarm() -> DueAlarm:
    return DueAlarm(wall_millis)


@pytest.fixture
def store(tmp_path: pathlib.Path, alarm: DueAlarm) -> Iterator[MessageStore]:
    arrivals = Arrivals(PullHold(ScriptedTurns().later, trio.current_time, InternalErrors()), alarm)
    store = MessageStore.open(small_config(tmp_path), now_millis=wall_millis, observer=arrivals)
    yield store
    store.close()


class Deliveries:
    """A loop at work: notes when it delivers, and how often it looks."""

    def __init__(self, store: MessageStore, alarm: DueAlarm, path: pathlib.Path, nursery: trio.Nursery) -> None:
        self.at: list[float] = []
        self.looks = 0
        self._store, self._alarm, self._path, self._nursery = store, alarm, path, nursery

    def start(self, clock: trio.testing.MockClock) -> None:
        """Count time from now on."""
        began = clock.current_time()
        counter = self

        class Counting(DelayedDelivery):
            def deliver_due(self) -> bool:
                counter.looks += 1
                return super().deliver_due()

        def put(message: NewMessage, _level: int) -> PutResult:
            self.at.append(clock.current_time() - began)
            return self._store.put(message)

        delay = Counting(self._store, self._path, put, wall_millis, self._alarm)
        self._nursery.start_soon(delay.deliver_forever)

    def send(self, level: int) -> None:
        properties = {PROPERTY_DELAY: str(level), PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: "0"}
        self._store.put(new_message(topic=names.SCHEDULE_TOPIC, queue_id=level - 1, properties=properties))


@pytest.fixture
def deliveries(
    store: MessageStore,
    alarm: DueAlarm,
    tmp_path: pathlib.Path,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> Deliveries:
    monkeypatch.setattr(stopwatch, "wall", lambda: 0.0)  # on a busy machine a look may end early and go on in another
    return Deliveries(store, alarm, tmp_path / "delayOffset.json", nursery)


async def test_a_message_is_delivered_when_it_is_due_within_one_period(
    deliveries: Deliveries, autojump_clock: trio.testing.MockClock
) -> None:
    """RocketMQ looks every 100 ms from 1 s after the start on.

    Never earlier, hardly later.
    """
    deliveries.start(autojump_clock)
    await trio.sleep(30)
    deliveries.send(2)
    await trio.sleep(7)
    assert len(deliveries.at) == 1
    assert 35 <= deliveries.at[0] <= 35.11


async def test_nothing_is_delivered_in_the_first_second(
    deliveries: Deliveries, autojump_clock: trio.testing.MockClock
) -> None:
    deliveries.start(autojump_clock)
    deliveries.send(1)
    deliveries.send(1)
    await trio.sleep(3)
    assert deliveries.at == [pytest.approx(1.05, abs=0.06)] * 2


async def test_a_shorter_delay_sent_later_is_delivered_first(
    deliveries: Deliveries, autojump_clock: trio.testing.MockClock
) -> None:
    deliveries.start(autojump_clock)
    await trio.sleep(5)
    deliveries.send(5)
    await trio.sleep(1)
    deliveries.send(1)
    await trio.sleep(90)
    assert deliveries.at == [pytest.approx(7, abs=0.11), pytest.approx(65, abs=0.11)]


async def test_an_idle_broker_sleeps(deliveries: Deliveries, autojump_clock: trio.testing.MockClock) -> None:
    """It looks at the start, when there is something, and once after that.

    Eighteen looks each 100 ms are too many.
    """
    deliveries.start(autojump_clock)
    await trio.sleep(3600)
    assert deliveries.looks == 1
    deliveries.send(3)
    await trio.sleep(3600)
    assert len(deliveries.at) == 1
    assert deliveries.looks <= 3


async def test_a_steady_stream_is_delivered_in_one_look_per_period(
    deliveries: Deliveries, autojump_clock: trio.testing.MockClock
) -> None:
    deliveries.start(autojump_clock)
    await trio.sleep(5)
    before = deliveries.looks
    for _ in range(1000):
        deliveries.send(1)
        await trio.sleep(0.01)
    await trio.sleep(2)
    assert len(deliveries.at) == 1000
    assert deliveries.looks - before <= 110


async def test_a_sleep_ends_when_the_earlier_message_is_due_and_not_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarm = DueAlarm(lambda: round(autojump_clock.current_time() * 1000))
    began = autojump_clock.current_time()

    async def report() -> None:
        await trio.sleep(1)
        alarm.bring_forward(round((began + 4) * 1000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report)
        await alarm.sleep(60)
    assert autojump_clock.current_time() - began == pytest.approx(4, abs=0.01)


class Group:
    """A broker whose group decides later whether a put is stored."""

    def __init__(self, store: MessageStore, alarm: DueAlarm, path: pathlib.Path) -> None:
        self.decisions: list[Decision] = []
        self.delay = DelayedDelivery(store, path, self._put, wall_millis, alarm)

    def _put(self, _message: NewMessage, _level: int) -> PutResult:
        self.decisions.append(Decision())
        return PutResult(PutStatus.PUT_OK, decision=self.decisions[-1])

    def decide(self, status: PutStatus) -> None:
        """Decide on the last put."""
        self.decisions[-1].make(status)


@pytest.fixture
async def group(store: MessageStore, alarm: DueAlarm, tmp_path: pathlib.Path, nursery: trio.Nursery) -> Group:
    """Three messages of level 1 are due."""
    properties = {PROPERTY_DELAY: "1", PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: "0"}
    for _ in range(3):
        store.put(new_message(topic=names.SCHEDULE_TOPIC, queue_id=0, properties=properties))
    group = Group(store, alarm, tmp_path / "delayOffset.json")
    nursery.start_soon(group.delay.deliver_forever)
    await trio.sleep(1.5)
    return group


async def test_a_group_decides_on_a_message_before_the_next_of_its_level_is_put(
    group: Group, autojump_clock: trio.testing.MockClock
) -> None:
    """dledger#58: the offset moves then, and the next one follows at once."""
    assert (len(group.decisions), group.delay.offsets) == (1, {})
    await trio.sleep(60)
    assert (len(group.decisions), group.delay.offsets) == (1, {})
    began = autojump_clock.current_time()
    for number in (1, 2, 3):
        group.decide(PutStatus.PUT_OK)
        await trio.testing.wait_all_tasks_blocked()
        assert group.delay.offsets == {1: number}
    assert len(group.decisions) == 3
    assert autojump_clock.current_time() == began


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("status", [PutStatus.OS_PAGECACHE_BUSY, PutStatus.UNKNOWN_ERROR])
async def test_a_message_that_no_quorum_has_stored_is_put_again(group: Group, status: PutStatus) -> None:
    """dledger#58: after 100 ms."""
    group.decide(status)
    await trio.testing.wait_all_tasks_blocked()
    assert (len(group.decisions), group.delay.offsets) == (1, {})
    await trio.sleep(0.25)
    assert (len(group.decisions), group.delay.offsets) == (2, {})
    group.decide(PutStatus.PUT_OK)
    await trio.testing.wait_all_tasks_blocked()
    assert group.delay.offsets == {1: 1}
