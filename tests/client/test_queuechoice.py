"""The queue of each attempt: turns, and brokers that are avoided.

Source: classes TopicPublishInfo, MQFaultStrategy.
"""

import random
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.queuechoice import BrokerHealth, QueueChoice, choose_queue
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply

if TYPE_CHECKING:
    from tests.client.conftest import World

SEND = RequestCode.SEND_MESSAGE_V2
HELLO = Message(topic="orders", body=b"hello")
AVOIDING = ProducerConfig(send_latency_fault_enable=True)


def queues_of(*broker_names: str, count: int = 2) -> list[MessageQueue]:
    return [
        MessageQueue(topic="t", broker_name=name, queue_id=queue_id)
        for name in broker_names
        for queue_id in range(count)
    ]


def ids(queues: list[MessageQueue]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def health(**took: float) -> BrokerHealth:
    """Brokers after one attempt of so many seconds at each, which ended at second 0."""
    made = BrokerHealth(random.Random(7))
    for name, seconds in took.items():
        made.note(name, seconds, is_failed=False, now=0.0)
    return made


def test_queues_are_taken_in_turn_and_the_failed_broker_is_avoided() -> None:
    queues = queues_of("a", "b")
    turn, taken = 0, []
    for _ in range(4):
        queue, turn = choose_queue(queues, turn, None)
        taken.append(queue)
    assert ids(taken) == [("a", 1), ("b", 0), ("b", 1), ("a", 0)]
    assert [choose_queue(queues, start, "a")[0].broker_name for start in range(4)] == ["b"] * 4
    assert choose_queue(queues[:2], 0, "a")[0].broker_name == "a"
    assert choose_queue(queues[1:3][::-1], 0, "a") == (queues[2], 2), "the last in turn is of another broker"


@pytest.mark.parametrize(
    ("took", "avoided"),
    [(0.0, 0), (0.549, 0), (0.55, 30), (1.0, 60), (2.0, 120), (2.999, 120), (3.0, 180), (14.9, 180), (15.0, 600)],
)
def test_a_slow_attempt_keeps_its_broker_from_being_chosen(took: float, avoided: float) -> None:
    """Method computeNotAvailableDuration: from 50 and 100 ms on it is 0 as well."""
    brokers = health(a=took)
    assert brokers.is_available("a", avoided)
    assert avoided == 0 or not brokers.is_available("a", avoided - 0.001)
    assert brokers.is_available("never-asked", 0)


def test_a_failed_attempt_counts_as_one_of_30_s() -> None:
    brokers = health()
    brokers.note("a", 0.001, is_failed=True, now=100.0)
    assert not brokers.is_available("a", 699.9)
    assert brokers.is_available("a", 700.0)
    brokers.note("a", 0.001, is_failed=False, now=200.0)
    assert brokers.is_available("a", 200.0), "a later success ends it"


def test_turns_pass_over_the_queues_of_avoided_brokers() -> None:
    brokers, queues = health(a=1.0), queues_of("a", "b")
    turn, taken = 0, []
    for _ in range(4):
        queue, turn = brokers.choose(queues, turn, now=1.0)
        taken.append(queue)
    assert ids(taken) == [("b", 0), ("b", 0), ("b", 1), ("b", 0)], "the turn goes on by one, however many it passes"
    assert turn == 4


def test_if_all_brokers_are_avoided_the_better_half_is_used() -> None:
    brokers, queues = health(a=2.0, b=1.0, c=1.5, d=16.0), queues_of("a", "b", "c", "d")
    taken = {brokers.choose(queues, turn, now=1.0)[0].broker_name for turn in range(8)}
    assert taken == {"b", "c"}


def test_an_avoided_broker_that_left_the_route_is_forgotten() -> None:
    brokers, queues = health(a=1.0, b=1.5), queues_of("b")
    assert brokers.choose(queues, 0, now=1.0) == (queues[0], 2)
    assert brokers.is_available("a", 1.0), "its health is not known any more"
    assert not brokers.is_available("b", 1.0)


def test_without_the_setting_health_does_not_matter() -> None:
    choice, queues = QueueChoice(random.Random(7), avoid_slow_brokers=False), queues_of("a", "b", count=1)
    choice.note("a", 20.0, is_failed=True, now=0.0)
    assert {choice.next_queue("t", queues, None, 0.0).broker_name for _ in range(2)} == {"a", "b"}


async def test_a_broker_that_failed_gets_no_sends_for_ten_minutes(world: "World", client: Client) -> None:
    failing, healthy = world.add("a")[0], world.add("b")[0]
    world.route("orders")
    failing.script[SEND] += [Reply(ResponseCode.SYSTEM_ERROR, remark="no")]
    producer = Producer(client, "pg", AVOIDING)
    for _ in range(20):
        await producer.send(HELLO)
    assert (len(failing.asked(SEND)), len(healthy.asked(SEND))) == (1, 20)
    await trio.sleep(601)
    for _ in range(20):
        await producer.send(HELLO)
    assert len(failing.asked(SEND)) > 5


async def test_a_send_to_a_given_queue_says_nothing_about_its_broker(world: "World", client: Client) -> None:
    """Method sendKernelImpl is called without updateFaultItem then."""
    (broker, _) = world.add("a")[0], world.add("b")[0]
    world.route("orders")
    broker.script[SEND] += [Reply(ResponseCode.SYSTEM_ERROR, remark="no")]
    producer = Producer(client, "pg", AVOIDING)
    with pytest.raises(RefusedError):
        await producer.send(HELLO, to=MessageQueue(topic="orders", broker_name="a", queue_id=0))
    for _ in range(20):
        await producer.send(HELLO)
    assert len(broker.asked(SEND)) > 5


async def test_a_oneway_send_that_cannot_be_written_counts(world: "World", client: Client) -> None:
    (dead, _) = world.add("a")[0], world.add("b")[0]
    world.route("orders")
    dead.server.close()
    producer = Producer(client, "pg", AVOIDING)
    failures = 0
    for _ in range(20):
        try:
            await producer.send_oneway(HELLO)
        except RefusedError:
            failures += 1
    assert failures == 1
