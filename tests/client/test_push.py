"""The push consumer against scripted brokers: sharing, pulling, failing over, committing."""

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from client.config import ConsumerConfig
from client.consuming import ConsumeLaterError
from client.errors import BrokerError
from client.instance import Client, open_client
from client.message import Message, ReceivedMessage
from client.processqueue import FlowLimits
from client.producer import Producer
from client.push import PushConsumer
from client.subscription import Sql
from remoting.acl import Credentials, signature, signed_content
from remoting.bodies.heartbeat import CheckClientRequestBody, ConsumeFromWhere, HeartbeatData, MessageModel
from remoting.bodies.queue import MessageQueue
from remoting.codes import RequestCode, ResponseCode
from remoting.dispatch import Reply
from remoting.headers.pull import PullMessageRequestHeader

if TYPE_CHECKING:
    import pathlib

    from tests.client.conftest import FakeBroker, World

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
REFUSED = Reply(ResponseCode.SYSTEM_ERROR, remark="no")


@attrs.define(eq=False)
class Application:
    """What a consumer was given, and how it answers: an error to raise per message body."""

    got: list[ReceivedMessage] = attrs.field(factory=list)
    errors: dict[bytes, list[Exception]] = attrs.field(factory=dict)
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    gate: trio.Event | None = None

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        self.got += messages
        if self.gate is not None:
            await self.gate.wait()
        for message in messages:
            if self.errors.get(message.body):
                raise self.errors[message.body].pop(0)

    def note(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == kind]

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.got)


async def start(
    nursery: trio.Nursery, client: Client, expression: str = "*", **settings: Any
) -> tuple[PushConsumer, Application]:
    application = Application()
    consumer = PushConsumer(
        client,
        "cg",
        {"orders": expression},
        application,
        config=ConsumerConfig(**settings),
        on_event=application.note,
    )
    await nursery.start(consumer.run)
    return consumer, application


def fill(broker: "FakeBroker", queues: int = 4, each: int = 3) -> list[bytes]:
    """Put messages into every queue; answer all bodies."""
    bodies = {queue_id: [b"%d/%d" % (queue_id, number) for number in range(each)] for queue_id in range(queues)}
    for queue_id, its_bodies in bodies.items():
        broker.put("orders", queue_id, *its_bodies)
    return sorted(body for its_bodies in bodies.values() for body in its_bodies)


async def test_every_message_arrives_and_the_offsets_are_committed(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    bodies = fill(broker)
    _, application = await start(nursery, client)
    await world.until(lambda: application.bodies == bodies)
    await trio.sleep(5)
    assert {broker.offsets["cg", "orders", queue_id] for queue_id in range(4)} == {3}
    broker.put("orders", 1, b"later")
    await world.until(lambda: len(application.got) == 13)
    assert application.told("committing_to") == [{"broker_name": "a", "broker_id": 0, "address": broker.address}]


async def test_heartbeats_tell_all_brokers_who_consumes_what(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """broker-requests section 3.1: slaves too, and the group's retry topic."""
    for_both = world.add("a", 2)
    world.route("orders")
    await start(nursery, client, "paid || refunded")
    for broker in for_both:
        data = HeartbeatData.decode(broker.asked(RequestCode.HEART_BEAT)[0].body)
        (consumer,) = data.consumer_data_set
        assert (data.client_id or "").startswith("10.0.0.9@")
        assert (consumer.group_name, consumer.message_model) == ("cg", MessageModel.CLUSTERING)
        assert {item.topic: item.tags_set for item in consumer.subscription_data_set} == {
            "orders": ["paid", "refunded"],
            "%RETRY%cg": [],
        }


async def test_tags_are_looked_at_again_for_hashes_may_collide(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """broker-requests section 2.3: `Aa` and `BB` have one hash."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    for tag in ("Aa", "BB"):
        broker.put("orders", 0, tag.encode(), properties=f"TAGS\x01{tag}")
    _, application = await start(nursery, client, "Aa")
    await trio.sleep(6)
    assert application.bodies == [b"Aa"]


async def test_two_consumers_share_the_queues_and_one_inherits_from_the_other(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    bodies = fill(broker)
    async with open_client(world.config()) as second_client, trio.open_nursery() as nursery:
        first, first_got = await start(nursery, client)
        await world.until(lambda: len(first.held_queues) == 4 and first_got.bodies == bodies)
        async with trio.open_nursery() as inner:
            second, second_got = await start(inner, second_client)
            await world.until(lambda: len(first.held_queues) == len(second.held_queues) == 2)
            assert not set(first.held_queues) & set(second.held_queues)
            for queue in second.held_queues:
                broker.put("orders", queue.queue_id, b"for the second")
            await world.until(lambda: len(second_got.got) >= 2)
            inner.cancel_scope.cancel()
        await world.until(lambda: len(first.held_queues) == 4)
        assert second_got.bodies == [b"for the second"] * 2  # what the first had consumed was committed as it let go
        await trio.sleep(1)
        assert first_got.bodies == bodies
        nursery.cancel_scope.cancel()


async def test_a_consumer_that_stops_commits_and_leaves_its_group(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    async with trio.open_nursery() as nursery:
        _, application = await start(nursery, client)
        await world.until(lambda: application.bodies == [b"x"])
        nursery.cancel_scope.cancel()
    assert broker.offsets["cg", "orders", 0] == 1
    assert not broker.members["cg"]
    assert broker.asked(RequestCode.UNREGISTER_CLIENT)[0].ext_fields["consumerGroup"] == "cg"


async def test_a_lost_master_is_replaced_by_its_slave_for_pulls_and_commits(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """store-and-ha sections 6.5 and 6.7."""
    master, slave = world.add("a", 2)
    world.route("orders", 1)
    for broker in (master, slave):
        broker.put("orders", 0, b"0", b"1")
    _, application = await start(nursery, client)
    await world.until(lambda: len(application.got) == 2)
    await trio.sleep(6)
    world.route("orders", 1, without=master)
    master.die()
    slave.put("orders", 0, b"2")
    await world.until(lambda: len(application.got) == 3, within=10)
    await trio.sleep(6)
    assert slave.offsets["cg", "orders", 0] == 3
    assert [event["broker_id"] for event in application.told("pulling_from")] == [0, 1]
    assert [event["broker_id"] for event in application.told("committing_to")] == [0, 1]
    for command in slave.asked(RequestCode.PULL_MESSAGE):
        assert command.header(PullMessageRequestHeader).sys_flag == 2  # a slave is not asked to commit

    world.route("orders", 1)
    master.queues = slave.queues
    master.revive()
    await world.until(lambda: application.told("committing_to")[-1]["broker_id"] == 0, within=40)
    await world.until(lambda: master.offsets.get(("cg", "orders", 0)) == 3)
    assert application.bodies == [b"0", b"1", b"2"]


async def test_pulls_go_where_the_last_answer_suggested(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """store-and-ha section 6.4: a master may send those that lag behind to a slave, and the slave sends them back."""
    master, slave = world.add("a", 2)
    world.route("orders", 1)
    for broker in (master, slave):
        broker.put("orders", 0, *[b"%d" % number for number in range(3)])
    fields = {"minOffset": "0", "maxOffset": "3"}
    body = master.queues["orders", 0]
    to_slave = fields | {"nextBeginOffset": "1", "suggestWhichBrokerId": "1"}
    master.script[RequestCode.PULL_MESSAGE].append(Reply(header=to_slave, body=body[0]))
    _, application = await start(nursery, client)
    await world.until(lambda: bool(master.parked))
    assert application.bodies == [b"0", b"1", b"2"]
    assert [event["address"] for event in application.told("pulling_from")] == [
        master.address,
        slave.address,
        master.address,
    ]


async def test_what_fails_after_its_queue_was_given_up_is_not_handed_back(world: "World", client: Client) -> None:
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


async def test_a_pull_ends_with_its_connection_and_is_repeated_after_a_pause(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    _, application = await start(nursery, client)
    await world.until(lambda: bool(broker.parked))
    cut_at = trio.current_time()
    broker.parked[0].channel.close("cut")
    await world.until(lambda: bool(application.told("pull_failed")))
    assert trio.current_time() - cut_at < 0.5
    await world.until(lambda: len(broker.asked(RequestCode.PULL_MESSAGE)) == 2)
    assert 1.0 <= trio.current_time() - cut_at < 2.0


@pytest.mark.parametrize(
    "garbage",
    [
        Reply(header={"nextBeginOffset": "3"}, body=b"no records"),
        Reply(header={"nextBeginOffset": "far"}),
        Reply(ResponseCode.SYSTEM_ERROR, remark="no"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_asked_for_again(
    world: "World", client: Client, nursery: trio.Nursery, garbage: Reply
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    broker.script[RequestCode.PULL_MESSAGE].append(garbage)
    _, application = await start(nursery, client)
    await world.until(lambda: application.bodies == [b"x"], within=5)
    assert len(application.told("pull_failed")) == 1


async def test_a_broker_that_forgot_the_group_gets_a_heartbeat_at_once(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    broker.script[RequestCode.PULL_MESSAGE].append(Reply(ResponseCode.SUBSCRIPTION_NOT_EXIST))
    _, application = await start(nursery, client)
    heartbeats = len(broker.asked(RequestCode.HEART_BEAT))
    await world.until(lambda: application.bodies == [b"x"], within=3)
    assert len(broker.asked(RequestCode.HEART_BEAT)) > heartbeats


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
        "ORIGIN_MESSAGE_ID": "U",
        "RETRY_TOPIC": "orders",
        "UNIQ_KEY": "U",
        "WAIT": "true",
    }


async def test_a_message_that_nobody_takes_back_is_given_to_the_application_again(
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


async def test_a_call_that_takes_too_long_is_cancelled_and_its_message_comes_again(
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


async def test_an_offset_out_of_bounds_is_corrected_after_ten_seconds(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.offsets["cg", "orders", 0] = 99
    broker.put("orders", 0, b"0", b"1", b"2")
    moved = Reply(ResponseCode.PULL_OFFSET_MOVED, {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "3"})
    broker.script[RequestCode.PULL_MESSAGE].append(moved)
    _, application = await start(nursery, client)
    began_at = trio.current_time()
    await world.until(lambda: application.bodies == [b"1", b"2"])
    assert trio.current_time() - began_at >= 10.0
    (event,) = application.told("offset_illegal")
    assert (event["asked"], event["offered"]) == (99, 1)


async def test_a_slave_that_lacks_the_data_is_not_asked_in_a_tight_loop(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """store-and-ha section 6.3: it answers 20 with the same offset, at once."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.PULL_MESSAGE] = lambda _: Reply(
        ResponseCode.PULL_RETRY_IMMEDIATELY, {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0"}
    )
    await start(nursery, client)
    await trio.sleep(10)
    assert 5 <= len(broker.asked(RequestCode.PULL_MESSAGE)) <= 12


async def test_pulling_stops_while_too_much_is_held(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, *[b"%03d" % number for number in range(200)])
    gate = trio.Event()
    application = Application(gate=gate)
    config = ConsumerConfig(flow=FlowLimits(messages=40), pull_batch_size=16)
    consumer = PushConsumer(client, "cg", {"orders": "*"}, application, config=config)
    await nursery.start(consumer.run)
    await trio.sleep(10)
    assert len(broker.asked(RequestCode.PULL_MESSAGE)) == 3  # 48 are held: more than 40
    gate.set()
    await world.until(lambda: len(application.got) == 200)


@pytest.mark.parametrize(("where", "expected"), [(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, b"new"), (FIRST, b"old")])
async def test_a_group_without_an_offset_begins_where_it_wants(
    world: "World", client: Client, nursery: trio.Nursery, where: ConsumeFromWhere, expected: bytes
) -> None:
    """broker-requests section 3.7: only code 22 means that there is none."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"old")
    broker.handlers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(ResponseCode.QUERY_NOT_FOUND)
    _, application = await start(nursery, client, consume_from_where=where)
    await world.until(lambda: bool(broker.asked(RequestCode.PULL_MESSAGE)))
    broker.put("orders", 0, b"new")
    await world.until(lambda: bool(application.got))
    assert application.got[0].body == expected


async def test_a_failing_offset_query_is_not_taken_for_no_offset(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """broker-requests section 0.2: Java's client would skip to the end here."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    broker.script[RequestCode.QUERY_CONSUMER_OFFSET].append(REFUSED)
    consumer, application = await start(nursery, client)
    assert consumer.held_queues == []
    await world.until(lambda: application.bodies == [b"x"], within=30)
    assert broker.asked(RequestCode.GET_MAX_OFFSET) == []


async def test_a_broadcasting_consumer_reads_everything_and_keeps_its_offsets_in_a_file(
    world: "World", tmp_path: "pathlib.Path"
) -> None:
    """Golden recording d_broadcast: no offset queries or commits at the broker."""
    (broker,) = world.add("a")
    world.route("orders")
    bodies = fill(broker)
    settings: dict[str, Any] = {
        "model": MessageModel.BROADCASTING,
        "consume_from_where": FIRST,
        "local_offsets": tmp_path / "offsets.json",
    }
    for expected in (bodies, []):
        applications = []
        async with open_client(world.config()) as one, trio.open_nursery() as nursery:
            _, application = await start(nursery, one, **settings)
            applications.append(application)
            await trio.sleep(6)
            nursery.cancel_scope.cancel()
        assert application.bodies == expected
    codes = collections.Counter(command.code for command in broker.log)
    assert not codes[RequestCode.QUERY_CONSUMER_OFFSET]
    assert not codes[RequestCode.UPDATE_CONSUMER_OFFSET]


async def test_status_tells_what_would_be_committed(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    consumer, application = await start(nursery, client)
    await world.until(lambda: bool(application.got))
    await trio.sleep(0.1)
    assert consumer.status("orders") == {MessageQueue(topic="orders", broker_name="a", queue_id=0): 1}


async def test_a_suspended_consumer_pulls_nothing_until_it_is_resumed(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer, application = await start(nursery, client)
    await trio.sleep(1)
    consumer.suspend()
    assert consumer.is_suspended
    broker.put("orders", 0, b"under way")  # answers the pull that waits
    await world.until(lambda: application.bodies == [b"under way"])
    pulls = len(broker.asked(RequestCode.PULL_MESSAGE))
    broker.put("orders", 0, b"unseen")
    await trio.sleep(60)
    of_retries = [c for c in broker.asked(RequestCode.PULL_MESSAGE)[pulls:] if c.ext_fields["topic"] == "orders"]
    assert of_retries == []
    consumer.resume()
    await world.until(lambda: application.bodies == [b"under way", b"unseen"], within=2)


async def test_a_consumer_that_is_stopped_finishes_what_it_holds_and_commits_it(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    consumer, application = await start(nursery, client, consume_from_where=FIRST, concurrency=1)
    application.gate = trio.Event()
    await world.until(lambda: len(application.got) == 1)
    nursery.start_soon(consumer.stop)
    await trio.sleep(5)
    assert "cg" in client.consumers  # it waits for its application
    application.gate.set()
    await world.until(lambda: "cg" not in client.consumers, within=2)
    assert application.bodies == [b"0", b"1", b"2"]
    assert broker.offsets["cg", "orders", 0] == 3
    await consumer.stop()  # once more is harmless


async def test_a_consumer_that_is_stopped_waits_no_longer_than_it_was_told(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0")
    consumer, application = await start(nursery, client, consume_from_where=FIRST)
    application.gate = trio.Event()
    await world.until(lambda: len(application.got) == 1)
    with trio.fail_after(5):
        await consumer.stop(within=2)
    assert broker.offsets.get(("cg", "orders", 0), 0) == 0


async def test_commits_are_told_by_whatever_way_they_went(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Each round of commits writes every offset; those that go with pulls are told only when they are new."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0")
    _, application = await start(nursery, client, consume_from_where=FIRST, commit_period=100.0)
    await trio.sleep(16)
    broker.put("orders", 0, b"1", b"2")
    await trio.sleep(1)
    broker.put("orders", 0, b"3")
    await trio.sleep(16)

    def committed() -> list[int]:
        return [fields["offset"] for fields in application.told("committed") if fields["topic"] == "orders"]

    assert committed() == [1, 3]
    await trio.sleep(100)
    assert committed() == [1, 3, 4]
    assert application.told("committed")[0] | {"offset": 0} == {
        "group": "cg",
        "topic": "orders",
        "broker": "a",
        "queue": 0,
        "offset": 0,
        "broker_id": 0,
    }


async def test_a_changed_route_is_told(world: "World", client: Client, nursery: trio.Nursery) -> None:
    brokers = world.add("a", 2)
    world.route("orders", 1)
    _, application = await start(nursery, client)
    world.route("orders", 1, without=brokers[0])
    await trio.sleep(31)
    changes = [fields["brokers"] for fields in application.told("route_believed") if fields["topic"] == "orders"]
    assert changes == [
        {"a": {"0": brokers[0].address, "1": brokers[1].address}},
        {"a": {"1": brokers[1].address}},
    ]


async def test_an_sql_subscription_is_asked_for_and_goes_with_heartbeats_and_pulls(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Golden recording d_sql: request 46 comes before anything else that names the group."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = PushConsumer(client, "cg", {"orders": Sql("amount > 10")}, Application())
    await nursery.start(consumer.run)
    await world.until(lambda: bool(broker.asked(RequestCode.PULL_MESSAGE)))
    (asked,) = broker.asked(RequestCode.CHECK_CLIENT_CONFIG)
    body = CheckClientRequestBody.decode(asked.body)
    assert body.subscription_data is not None
    assert (body.group, body.client_id) == ("cg", client.client_id)
    data = body.subscription_data
    assert (data.expression_type, data.sub_string, data.code_set) == ("SQL92", "amount > 10", [])
    codes = [command.code for command in broker.log]
    assert codes.index(RequestCode.CHECK_CLIENT_CONFIG) < codes.index(RequestCode.PULL_MESSAGE)
    pulled = {c.ext_fields["topic"]: c.ext_fields for c in broker.asked(RequestCode.PULL_MESSAGE)}
    assert pulled["orders"]["expressionType"] == "SQL92"
    assert "subscription" not in pulled["orders"]  # the broker knows it from the heartbeat


async def test_an_sql_subscription_that_a_broker_refuses_ends_the_start(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.script[RequestCode.CHECK_CLIENT_CONFIG].append(
        Reply(ResponseCode.SYSTEM_ERROR, remark="The broker does not support consumer to filter message by SQL92")
    )
    consumer = PushConsumer(client, "cg", {"orders": Sql("amount > 10")}, Application())
    with pytest.raises(BrokerError, match="SQL92"):
        await consumer.run()
    assert client.consumers == {}


def test_an_empty_sql_expression_is_none() -> None:
    with pytest.raises(ValueError, match="empty"):
        Sql(" ")


async def test_a_namespace_is_on_the_wire_and_not_in_the_application(world: "World") -> None:
    """As Java's client 4.9: topics, groups and retry topics are wrapped, INSTANCE_ID says of what."""
    (broker,) = world.add("a")
    world.route("NS%orders", 1)
    async with open_client(world.config(namespace="NS")) as client, trio.open_nursery() as nursery:
        sent = await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
        _, application = await start(nursery, client, consume_from_where=FIRST)
        await world.until(lambda: len(application.got) == 1)
        nursery.cancel_scope.cancel()
    (message,) = application.got
    assert (message.topic, message.queue.topic) == ("orders", "NS%orders")
    assert message.properties["INSTANCE_ID"] == "NS"
    assert message.message_id == sent.message_id
    assert {key[:2] for key in broker.offsets} == {("NS%cg", "NS%orders")}
    groups = {command.ext_fields.get("consumerGroup") for command in broker.asked(RequestCode.PULL_MESSAGE)}
    assert groups == {"NS%cg"}
    assert broker.asked(RequestCode.SEND_MESSAGE_V2)[0].ext_fields["a"] == "NS%pg"


async def test_every_request_of_a_client_with_credentials_is_signed(world: "World") -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    credentials = Credentials("alice", "secret-of-alice")
    async with open_client(world.config(credentials=credentials)) as client, trio.open_nursery() as nursery:
        await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
        _, application = await start(nursery, client, consume_from_where=FIRST)
        await world.until(lambda: len(application.got) == 1)
        nursery.cancel_scope.cancel()
    requests = [*broker.log, *world.name_server.log]
    assert len({command.code for command in requests}) > 6
    for command in requests:
        fields = command.ext_fields
        assert fields["AccessKey"] == "alice"
        assert fields["Signature"] == signature(signed_content(fields, command.body), "secret-of-alice")
