"""Orderly consumption: order, locks, handing over."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.heartbeat import MessageModel
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply
from tests.client.orderlyconsumer import Application, start

if TYPE_CHECKING:
    from rmqlab.runtime.net.dispatch import Request
    from tests.client.conftest import FakeBroker, World


UNLOCK = RequestCode.UNLOCK_BATCH_MQ


async def test_a_failed_message_is_redelivered_before_the_next(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    application = Application(failures={b"1": 2})
    await start(nursery, client, application)
    await world.until(lambda: len(application.got) == 5)
    assert application.got == [b"0", b"1", b"1", b"1", b"2"]
    await trio.sleep(5)
    assert broker.offsets["cg", "orders", 0] == 3
    assert not broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)


async def test_a_failure_after_a_reset_does_not_undo_it(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    got: list[bytes] = []

    async def consume(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(message.body for message in messages)
        if got == [b"0", b"1", b"2"]:
            consumer.reset_offsets("orders", dict.fromkeys(consumer.status("orders"), 0))
            with trio.CancelScope(shield=True):  # as a function that runs in a thread
                await trio.sleep(5)
            raise ConsumeLaterError
        if got[3:] == [b"0", b"1"]:
            await trio.sleep_forever()

    consumer = PushConsumer(client, "cg", {"orders": "*"}, consume, config=ConsumerConfig(orderly=True))
    await nursery.start(consumer.run)
    await world.until(lambda: got[3:] == [b"0", b"1"])
    await trio.sleep(20)
    assert broker.offsets["cg", "orders", 0] == 1


async def test_a_queue_stays_until_its_running_call_has_ended(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Class RebalancePushImpl: "mq is consuming, so can not unlock it"."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    application = Application(pace=50)
    consumer = await start(nursery, client, application, consume_batch_size=1)
    await world.until(lambda: application.began == 1)
    broker.members["cg"] = {object(): "0-somebody-before-us"} | broker.members["cg"]
    consumer.rebalance_soon()
    await trio.sleep(40)
    assert "orders" in {queue.topic for queue in broker.locked}
    assert not application.got
    await world.until(lambda: not broker.locked)
    assert application.got == [b"0"]
    assert application.began == 1
    assert broker.offsets["cg", "orders", 0] == 1


async def test_a_queue_that_returns_during_its_running_call_is_consumed_on(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    application = Application(pace=10)
    consumer = await start(nursery, client, application, consume_batch_size=1)
    await world.until(lambda: application.began == 1)
    ours = dict(broker.members["cg"])
    broker.members["cg"] = {object(): "0-somebody-before-us"} | ours
    consumer.rebalance_soon()
    await trio.sleep(3)
    broker.members["cg"] = ours
    consumer.rebalance_soon()
    await world.until(lambda: application.got == [b"0", b"1"])
    assert application.most_at_work == 1


async def test_an_offset_reset_waits_for_the_running_call(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    at_work, most_at_work = 0, 0
    begun: list[bytes] = []

    async def consume(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal at_work, most_at_work
        at_work += 1
        most_at_work = max(most_at_work, at_work)
        begun.extend(message.body for message in messages)
        with trio.CancelScope(shield=True):  # as a function that runs in a thread
            await trio.sleep(5)
        at_work -= 1

    config = ConsumerConfig(orderly=True, consume_batch_size=1)
    consumer = PushConsumer(client, "cg", {"orders": "*"}, consume, config=config)
    await nursery.start(consumer.run)
    await world.until(lambda: begun == [b"0", b"1"])
    consumer.reset_offsets("orders", dict.fromkeys(consumer.status("orders"), 0))
    await world.until(lambda: begun == [b"0", b"1", b"0", b"1"])
    assert most_at_work == 1


async def test_the_last_of_two_offset_resets_during_a_call_counts(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    got: list[bytes] = []

    async def consume(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(message.body for message in messages)
        if len(got) == 3:
            for offset in (0, 1):
                consumer.reset_offsets("orders", dict.fromkeys(consumer.status("orders"), offset))
                with trio.CancelScope(shield=True):  # as a function that runs in a thread
                    await trio.sleep(5)

    consumer = PushConsumer(client, "cg", {"orders": "*"}, consume, config=ConsumerConfig(orderly=True))
    await nursery.start(consumer.run)
    await world.until(lambda: got[3:] == [b"1", b"2"])


async def test_a_message_that_failed_too_often_goes_to_the_dead_letters(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Class ConsumeMessageOrderlyService, method sendMessageBack.

    The broker makes it a dead letter, because the retry topic gets it with as many failures as are allowed.
    """
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1, perm=2)  # a real broker would make it a dead letter
    broker.put("orders", 0, b"0", b"1")
    application = Application(failures={b"0": 99})
    await start(nursery, client, application, max_reconsume_times=2)
    await world.until(lambda: application.got[-1:] == [b"1"], within=2.5)  # two pauses, none after the last failure
    assert application.got == [b"0", b"0", b"0", b"1"]
    assert not broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
    (back,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
    assert back.body == b"0"
    assert (back.ext_fields["b"], back.ext_fields["j"], back.ext_fields["l"]) == ("%RETRY%cg", "2", "2")
    assert "DELAY\x015" in back.ext_fields["i"].split("\x02")


async def test_a_dead_letter_that_no_broker_accepts_is_delivered_again(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1, perm=2)  # a real broker would make it a dead letter
    broker.handlers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(ResponseCode.NO_PERMISSION)
    broker.put("orders", 0, b"0", b"1")
    application = Application(failures={b"0": 2})
    await start(nursery, client, application, max_reconsume_times=0)
    await world.until(lambda: application.got[-1:] == [b"1"])
    assert application.got == [b"0", b"0", b"0", b"1"]


async def test_all_messages_of_a_failed_batch_count_the_failure(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Class ConsumeMessageOrderlyService, method checkReconsumeTimes."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1, perm=2)  # a real broker would make it a dead letter
    broker.put("orders", 0, b"0", b"1")
    deliveries: list[list[tuple[bytes, int]]] = []

    async def fail(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        deliveries.append([(message.body, message.reconsume_times) for message in messages])
        raise ConsumeLaterError

    config = ConsumerConfig(orderly=True, consume_batch_size=2, max_reconsume_times=1)
    consumer = PushConsumer(client, "cg", {"orders": "*"}, fail, config=config)
    await nursery.start(consumer.run)
    await world.until(lambda: broker.offsets.get(("cg", "orders", 0)) == 2)
    assert deliveries == [[(b"0", 0), (b"1", 0)], [(b"0", 1), (b"1", 1)]]
    assert len(broker.asked(RequestCode.SEND_MESSAGE_V2)) == 2


async def test_a_queue_locked_by_another_consumer_is_not_consumed(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """broker-requests section 3.10."""
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, b"%d" % queue_id)
    application = Application()
    consumer = await start(nursery, client, application)
    await world.until(lambda: len(application.got) == 2)
    for queue in list(broker.locked):
        broker.locked[queue] = "somebody else"
    await trio.sleep(21)  # the lock loop has learnt of it
    broker.put("orders", 0, b"later")
    await trio.sleep(15)
    assert len(application.got) == 2
    broker.locked.clear()
    await world.until(lambda: application.got[-1:] == [b"later"], within=60)
    assert len(consumer.held_queues) == 2


async def test_a_lock_that_cannot_be_renewed_is_not_trusted_for_long(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    master, slave = world.add("a", 2)
    world.route("orders", 1)
    for broker in (master, slave):
        broker.put("orders", 0, b"0")
    application = Application()
    await start(nursery, client, application)
    await world.until(lambda: application.got == [b"0"])
    world.route("orders", 1, without=master)
    master.die()
    await trio.sleep(40)
    slave.put("orders", 0, b"1")
    await trio.sleep(40)
    assert application.got == [b"0"]  # it was pulled from the slave, but a slave grants no locks


def give_all_away(broker: "FakeBroker", consumer: PushConsumer) -> None:
    """Let two other members have the queues."""
    broker.members["cg"] = {object(): "0-before-us", object(): "0-before-us-too"} | broker.members["cg"]
    consumer.rebalance_soon()


async def begin_one_of_two_queues(world: "World", nursery: trio.Nursery, client: Client) -> tuple[Any, ...]:
    """Start a consumer with capacity for one call.

    It takes 50 s; its other queue waits.
    """
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, b"%d" % queue_id)
    application = Application(pace=50)
    consumer = await start(nursery, client, application, concurrency=1)
    await world.until(lambda: application.began == 1)
    await trio.sleep(1)
    return broker, application, consumer


async def test_no_call_begins_in_a_queue_that_lost_its_lock_while_it_waited(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    broker, application, _ = await begin_one_of_two_queues(world, nursery, client)
    for queue in list(broker.locked):
        broker.locked[queue] = "somebody else"
    await world.until(lambda: len(application.got) == 1)
    await trio.sleep(5)
    assert application.began == 1


async def test_no_call_begins_in_a_queue_that_leaves_while_it_waits(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    broker, application, consumer = await begin_one_of_two_queues(world, nursery, client)
    give_all_away(broker, consumer)
    await world.until(lambda: len(broker.locked) == 1, within=10)  # the queue without a call is given away at once
    await world.until(lambda: not broker.locked)
    assert application.began == len(application.got) == 1


@pytest.mark.parametrize("stops_first", [True, False])
async def test_a_stop_waits_for_a_leaving_queue_only_until_its_call_has_ended(
    world: "World", client: Client, nursery: trio.Nursery, *, stops_first: bool
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    application = Application(pace=5)
    consumer = await start(nursery, client, application, consume_batch_size=1)
    await world.until(lambda: application.began == 1)

    async def stop() -> None:
        if not stops_first:
            await trio.sleep(2)
        await consumer.stop(600)
        stopped.set()

    stopped = trio.Event()
    nursery.start_soon(stop)
    await trio.sleep(1)
    broker.members["cg"] = {object(): "0-somebody-before-us"} | broker.members["cg"]
    consumer.rebalance_soon()
    with trio.fail_after(60):
        await stopped.wait()
    assert application.got == [b"0"]
    assert broker.offsets["cg", "orders", 0] == 1


async def test_a_lock_that_is_renewed_after_its_queue_was_released_is_given_back(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = await start(nursery, client, Application())
    renewals: list[Request] = []
    broker.script[RequestCode.LOCK_BATCH_MQ].append(renewals.append)
    await world.until(lambda: len(renewals) == 1)
    give_all_away(broker, consumer)
    await world.until(lambda: bool(broker.asked(UNLOCK)), within=2)
    (renewal,) = renewals
    reply = broker.handlers[RequestCode.LOCK_BATCH_MQ](renewal)
    assert reply is not None
    renewal.reply(reply)
    await world.until(lambda: not broker.locked, within=5)


async def test_the_answer_to_an_old_renewal_does_not_count_for_a_queue_that_was_assigned_again(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    application = Application()
    consumer = await start(nursery, client, application)
    renewals: list[Request] = []
    broker.script[RequestCode.LOCK_BATCH_MQ].append(renewals.append)
    await world.until(lambda: len(renewals) == 1)
    members = broker.members["cg"]
    give_all_away(broker, consumer)
    await world.until(lambda: bool(broker.asked(UNLOCK)), within=2)
    broker.members["cg"] = members
    consumer.rebalance_soon()
    await world.until(lambda: bool(broker.locked), within=2)
    renewals[0].reply(Reply(body=b'{"lockOKMQSet":[]}'))
    broker.put("orders", 0, b"0")
    await world.until(lambda: application.got == [b"0"], within=5)


async def test_a_broadcasting_consumer_sends_no_requests_for_locks(world: "World", client: Client) -> None:
    """Class ConsumeMessageOrderlyService, methods start and shutdown."""
    (broker,) = world.add("a")
    world.route("orders", 2)
    application = Application()
    async with trio.open_nursery() as nursery:
        await start(nursery, client, application, model=MessageModel.BROADCASTING)
        broker.put("orders", 0, b"0")
        await world.until(lambda: application.got == [b"0"])
        await trio.sleep(21)  # one period of renewals
        world.route("orders", 1)
        await trio.sleep(60)  # the route is refreshed: a queue is released
        nursery.cancel_scope.cancel()
    assert not broker.asked(RequestCode.LOCK_BATCH_MQ)
    assert not broker.asked(UNLOCK)


async def test_a_queue_is_handed_over_unlocked_and_in_order(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, *[b"%d/%02d" % (queue_id, number) for number in range(30)])
    application = Application(pace=0.2)
    async with open_client(world.config()) as other, trio.open_nursery() as nursery:
        first = await start(nursery, client, application)
        await trio.sleep(1)
        second = await start(nursery, other, application)
        await world.until(lambda: len(application.got) >= 60)
        assert len(first.held_queues) == len(second.held_queues) == 1
        assert application.most_at_work == 2
        assert application.began == 60  # a call under way ends before its queue is given away
        nursery.cancel_scope.cancel()
    for prefix in (b"0/", b"1/"):
        its = [body for body in application.got if body.startswith(prefix)]
        assert its == sorted(set(its))
    assert not broker.locked
    codes = [request.code for request in broker.log if request.code in (RequestCode.UPDATE_CONSUMER_OFFSET, UNLOCK)]
    assert codes[0] != UNLOCK  # who gets the lock next asks at once where to begin
