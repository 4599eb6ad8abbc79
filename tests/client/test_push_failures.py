"""What the push consumer does with messages that the application could not handle."""

from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply, Request
from tests.client.application import start

if TYPE_CHECKING:
    from tests.client.conftest import World

REFUSED = Reply(ResponseCode.SYSTEM_ERROR, remark="no")


async def test_messages_that_fail_after_their_queue_was_given_up_are_not_handed_back(
    world: "World", client: Client
) -> None:
    """Its new owner consumes it again anyway."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    async with trio.open_nursery() as nursery:
        consumer, application = await start(nursery, client)
        application.gate = trio.Event()
        application.errors = {b"y": [ValueError("on purpose")]}
        broker.put("orders", 0, b"y")
        await world.until(lambda: b"y" in application.bodies)
        broker.members["cg"] = {object(): "0-somebody-before-us"} | broker.members["cg"]
        consumer.rebalance_soon()
        await world.until(lambda: not consumer.held_queues)
        application.gate.set()
        await trio.sleep(1)
        assert not broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
        broker.members["cg"] = {
            channel: name for channel, name in broker.members["cg"].items() if not name.startswith("0-")
        }
        nursery.cancel_scope.cancel()


async def test_a_failed_message_goes_back_to_the_master(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """broker-requests section 3.11."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    _, application = await start(nursery, client)
    application.errors = {b"bad": [ValueError("on purpose")], b"slow": [ConsumeLaterError(delay_level=5)]}
    broker.put("orders", 0, b"good", b"bad", b"slow", properties="UNIQ_KEY\x01U")
    await world.until(lambda: len(broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)) == 2)
    back = sorted(
        (command.ext_fields for command in broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)),
        key=lambda fields: fields["offset"],
    )
    expected = {"group": "cg", "originTopic": "orders", "originMsgId": "U", "maxReconsumeTimes": "16"}
    assert back[0] == expected | {"offset": "1000", "delayLevel": "0", "unitMode": "false"}
    assert back[1] == expected | {"offset": "2000", "delayLevel": "5", "unitMode": "false"}
    await trio.sleep(5)
    assert broker.offsets["cg", "orders", 0] == 3


async def test_a_consumer_may_allow_no_second_delivery(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """Class DefaultMQPushConsumerImpl: only -1 means 16; ours is None."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    _, application = await start(nursery, client, max_reconsume_times=0)
    application.errors = {b"bad": [ValueError("on purpose")]}
    broker.put("orders", 0, b"bad")
    await world.until(lambda: bool(broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)))
    (back,) = broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert back.ext_fields["maxReconsumeTimes"] == "0"
    with pytest.raises(ValueError, match="max_reconsume_times"):
        ConsumerConfig(max_reconsume_times=-1)


async def test_a_message_that_cannot_go_back_is_sent_to_the_retry_topic(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1)
    broker.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: REFUSED
    _, application = await start(nursery, client)
    application.errors = {b"bad": [ValueError("on purpose")]}
    broker.put("orders", 0, b"bad", properties="UNIQ_KEY\x01U", times=2)
    await world.until(lambda: bool(broker.asked(RequestCode.SEND_MESSAGE_V2)))
    (command,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
    assert command.body == b"bad"
    assert (command.ext_fields["b"], command.ext_fields["j"], command.ext_fields["l"]) == ("%RETRY%cg", "3", "16")
    stored = dict(pair.split("\x01") for pair in command.ext_fields["i"].split("\x02"))
    assert stored == {
        "DELAY": "5",
        "MAX_RECONSUME_TIMES": "16",
        "ORIGIN_MESSAGE_ID": "U",
        "RECONSUME_TIME": "3",
        "RETRY_TOPIC": "orders",
        "UNIQ_KEY": "U",
    }


async def test_consumers_of_a_client_share_the_producer_for_the_retry_topic(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Also consumers of one group, one after the other."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1)
    broker.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: REFUSED
    for number in (1, 2):
        consumer, application = await start(nursery, client)
        application.errors = {b"bad": [ValueError("on purpose")]}
        broker.put("orders", 0, b"bad")
        await world.until(lambda: len(broker.asked(RequestCode.SEND_MESSAGE_V2)) == number)  # noqa: B023 -- awaited here
        await consumer.stop()
    assert list(client.producers) == ["CLIENT_INNER_PRODUCER"]


async def test_an_offset_that_is_reset_during_a_send_back_stays_reset(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Class ConsumeMessageConcurrentlyService: no progress of a dropped queue."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    sent_back: list[Request] = []
    broker.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = sent_back.append
    consumer, application = await start(nursery, client)
    application.errors = {b"bad": [ValueError("on purpose")]}
    broker.put("orders", 0, b"good", b"bad")
    await world.until(lambda: bool(sent_back))
    application.gate = trio.Event()
    consumer.reset_offsets("orders", dict.fromkeys(consumer.status("orders"), 0))
    await world.until(lambda: application.bodies.count(b"good") == 2)
    sent_back[0].reply(Reply())
    await trio.sleep(10)
    assert broker.offsets["cg", "orders", 0] == 0


async def test_a_message_that_cannot_be_sent_back_is_redelivered_locally(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: REFUSED
    _, application = await start(nursery, client)
    application.errors = {b"bad": [ValueError("on purpose")]}
    broker.put("orders", 0, b"bad", b"good")
    await world.until(lambda: application.bodies == [b"bad", b"bad", b"good"])
    assert [message.reconsume_times for message in application.got if message.body == b"bad"][-1] == 1
    await trio.sleep(5)
    assert broker.offsets["cg", "orders", 0] == 2


async def test_a_callback_that_times_out_is_cancelled_and_its_message_redelivered(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    _, application = await start(nursery, client, consume_timeout=60.0)
    application.gate = trio.Event()
    broker.put("orders", 0, b"x")
    await trio.sleep(61)
    assert broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)[0].ext_fields["delayLevel"] == "3"


async def test_a_retried_message_shows_its_original_topic(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1)
    _, application = await start(nursery, client)
    broker.put("%RETRY%cg", 0, b"again", properties="RETRY_TOPIC\x01orders", times=1)
    await world.until(lambda: bool(application.got))
    (message,) = application.got
    assert (message.topic, message.queue.topic, message.reconsume_times) == ("orders", "%RETRY%cg", 1)


async def test_a_consumer_whose_group_is_denied_says_so(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: REFUSED
    _, application = await start(nursery, client)
    await world.until(lambda: "rebalance_failed" in [kind for kind, _ in application.events])
    fields = next(fields for kind, fields in application.events if kind == "rebalance_failed")
    assert fields["topic"] == "orders"
    assert fields["error"].endswith("returned code 1: no")
