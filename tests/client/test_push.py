"""The push consumer with scripted brokers: share, subscribe, commit, stop."""

import collections
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.subscription import Sql
from rmqlab.remoting.acl import Credentials, signature, signed_content
from rmqlab.remoting.bodies.heartbeat import CheckClientRequestBody, ConsumeFromWhere, HeartbeatData, MessageModel
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply
from tests.client.application import Application, fill, start

if TYPE_CHECKING:
    import pathlib

    from tests.client.conftest import World

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


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
    assert application.events_of("committing_to") == [{"broker_name": "a", "broker_id": 0, "address": broker.address}]


async def test_heartbeats_send_all_subscriptions_to_all_brokers(
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


async def test_status_returns_the_offsets_to_be_committed(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    consumer, application = await start(nursery, client)
    await world.until(lambda: bool(application.got))
    await trio.sleep(0.1)
    assert consumer.status("orders") == {MessageQueue(topic="orders", broker_name="a", queue_id=0): 1}


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


async def test_a_stopping_consumer_waits_no_longer_than_its_timeout(
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


async def test_commits_are_journalled_for_every_way_they_are_sent(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Each round of commits writes every offset.

    Those sent with pulls are recorded only when they are new.
    """
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
        return [fields["offset"] for fields in application.events_of("committed") if fields["topic"] == "orders"]

    assert committed() == [1, 3, 4]  # the last goes with a pull that is still held
    await trio.sleep(100)
    assert committed() == [1, 3, 4, 4]
    assert application.events_of("committed")[0] | {"offset": 0} == {
        "group": "cg",
        "topic": "orders",
        "broker": "a",
        "queue": 0,
        "offset": 0,
        "broker_id": 0,
    }


async def test_a_changed_route_emits_an_event(world: "World", client: Client, nursery: trio.Nursery) -> None:
    brokers = world.add("a", 2)
    world.route("orders", 1)
    _, application = await start(nursery, client)
    world.route("orders", 1, without=brokers[0])
    await trio.sleep(31)
    changes = [fields["brokers"] for fields in application.events_of("route_believed") if fields["topic"] == "orders"]
    assert changes == [
        {"a": {"0": brokers[0].address, "1": brokers[1].address}},
        {"a": {"1": brokers[1].address}},
    ]


async def test_an_sql_subscription_is_asked_for_and_goes_with_heartbeats_and_pulls(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Golden recording d_sql: request 46 is the first that names the group.

    Heartbeats and pulls have the subscription.
    """
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


def test_an_empty_sql_expression_is_rejected() -> None:
    with pytest.raises(ValueError, match="empty"):
        Sql(" ")


async def test_a_namespace_is_on_the_wire_and_not_in_the_application(world: "World") -> None:
    """As Java's client 4.9: wrapped topics, groups and retry topics, with INSTANCE_ID."""
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


async def test_a_stop_does_not_wait_for_a_queue_that_was_given_away_meanwhile(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    fill(broker, 1)
    consumer, application = await start(nursery, client)
    application.gate = trio.Event()
    broker.put("orders", 0, b"held")
    await world.until(lambda: b"held" in application.bodies)
    stopped = trio.Event()

    async def stop() -> None:
        await consumer.stop(600)
        stopped.set()

    nursery.start_soon(stop)
    await trio.sleep(1)
    broker.members["cg"] = {object(): "0-somebody-before-us"} | broker.members["cg"]
    consumer.rebalance_soon()
    with trio.fail_after(60):
        await stopped.wait()
