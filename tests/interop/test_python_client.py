"""Our client package with real RocketMQ and with our servers."""

import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import trio

from rmqlab.client import broker_api as calls
from rmqlab.client import messagequery
from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.errors import NoRouteError, RefusedError, SendError
from rmqlab.client.groupadmin import LATEST, GroupAdmin
from rmqlab.client.instance import Client, open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message, ReceivedMessage, SendStatus
from rmqlab.client.producer import Outcome, Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from rmqlab.remoting.bodies.topic import TopicConfig
from tests.interop.topology import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def name(prefix: str) -> str:
    """A topic or group that no other test uses."""
    return f"{prefix}-{os.urandom(4).hex()}"


@pytest.fixture
async def client(shared: Cluster) -> AsyncIterator[Client]:
    async with open_client(ClientConfig(namesrv_addr=shared.namesrv)) as client:
        yield client


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.05)


async def make_topic(client: Client, cluster: Cluster, queues: int = 4) -> str:
    """Create a topic and wait until it has a route."""
    topic = name("Py")
    config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
    await Admin(client).create_topic_in_cluster(cluster.cluster_name, config)
    with trio.fail_after(30):
        while True:
            try:
                await client.refresh_route(topic)
            except NoRouteError:
                await trio.sleep(0.1)
            else:
                return topic


async def consume(
    nursery: trio.Nursery, client: Client, topic: str, group: str, expression: str = "*", **settings: Any
) -> list[ReceivedMessage]:
    """Start a consumer; return the list to which its messages are added."""
    got: list[ReceivedMessage] = []

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(messages)

    config = ConsumerConfig(consume_from_where=FIRST, **settings)
    await nursery.start(PushConsumer(client, group, {topic: expression}, on_messages, config=config).run)
    return got


async def test_messages_of_every_form_arrive_as_they_were_sent(client: Client, shared: Cluster) -> None:
    topic, producer = await make_topic(client, shared), Producer(client, name("pg"))
    sent = [
        Message(topic=topic, body=b"plain"),
        Message(
            topic=topic, body="späße".encode(), tags="Tag", keys=["k1", "k2"], properties={"città": "Roma"}, flag=7
        ),
        Message(topic=topic, body=os.urandom(100) * 100),
        Message(topic=topic, body=b"unwaited", wait_store_ok=False),
    ]
    results = [await producer.send(message) for message in sent]
    batch = [Message(topic=topic, body=b"batch %d" % number, tags="B") for number in range(3)]
    batch_result = await producer.send_batch(batch)
    oneway = Message(topic=topic, body=b"oneway")
    oneway_id = await producer.send_oneway(oneway)
    outcomes: list[Outcome] = []
    background = Message(topic=topic, body=b"background")
    producer.send_soon(background, outcomes.append)
    await until(lambda: outcomes)
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    async with trio.open_nursery() as nursery:
        got = await consume(nursery, client, topic, name("cg"))
        await until(lambda: len(got) == 9)
        nursery.cancel_scope.cancel()
    by_id = {message.message_id: message for message in got}
    ids = [*(result.message_id for result in results), *batch_result.message_id.split(","), oneway_id]
    for message_id, message in zip(ids, [*sent, *batch, oneway], strict=True):
        arrived = by_id[message_id]
        assert (arrived.topic, arrived.body, arrived.tags) == (topic, message.body, message.tags)
        assert (arrived.keys, arrived.stored.flag) == (message.keys, message.flag)
        assert arrived.properties.items() >= message.properties.items()
    assert by_id[results[0].message_id].offset_message_id == results[0].offset_message_id
    assert by_id[results[0].message_id].queue == results[0].queue


async def test_a_topic_is_created_by_its_first_message(client: Client) -> None:
    topic = name("PyAuto")
    result = await Producer(client, name("pg")).send(Message(topic=topic, body=b"x"))
    with trio.fail_after(30):
        while topic not in await Admin(client).topics():  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.1)
    route = await client.fetch_route(topic)
    assert {(data.read_queue_nums, data.write_queue_nums, data.perm) for data in route.queue_datas} == {(4, 4, 6)}
    assert 0 <= result.queue.queue_id < 4


async def test_only_wanted_tags_arrive(client: Client, shared: Cluster) -> None:
    topic, producer = await make_topic(client, shared), Producer(client, name("pg"))
    async with trio.open_nursery() as nursery:
        got = await consume(nursery, client, topic, name("cg"), "A || C")
        for tag in ("A", "B", "C", ""):
            await producer.send(Message(topic=topic, body=tag.encode() or b"none", tags=tag))
        await until(lambda: len(got) == 2)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert {message.tags for message in got} == {"A", "C"}


async def test_a_failed_message_is_redelivered_from_the_retry_topic(client: Client, shared: Cluster) -> None:
    topic, got = await make_topic(client, shared, 1), list[ReceivedMessage]()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(messages)
        if messages[0].reconsume_times == 0:
            raise ConsumeLaterError(delay_level=1)

    sent = await Producer(client, name("pg")).send(Message(topic=topic, body=b"x" * 5000, tags="T"))
    async with trio.open_nursery() as nursery:
        # The retry topic appears with the first heartbeat, its route with the next poll.
        consumer = PushConsumer(
            client, name("cg"), {topic: "*"}, on_messages, config=ConsumerConfig(consume_from_where=FIRST)
        )
        await nursery.start(consumer.run)
        await until(lambda: len(got) == 2, within=60)
        nursery.cancel_scope.cancel()
    assert [message.reconsume_times for message in got] == [0, 1]
    assert got[1].queue.topic.startswith("%RETRY%")
    assert (got[1].topic, got[1].body, got[1].message_id) == (topic, b"x" * 5000, sent.message_id)


async def test_two_consumers_share_queues_and_the_remaining_one_gets_all(client: Client, shared: Cluster) -> None:
    topic, group, producer = await make_topic(client, shared), name("cg"), Producer(client, name("pg"))
    async with open_client(ClientConfig(namesrv_addr=shared.namesrv)) as other, trio.open_nursery() as nursery:
        first = await consume(nursery, client, topic, group)
        async with trio.open_nursery() as inner:
            second = await consume(inner, other, topic, group)
            await trio.sleep(3)
            for number in range(40):
                await producer.send(Message(topic=topic, body=b"%d" % number))
            await until(lambda: len(first) + len(second) == 40)
            assert (len(first), len(second)) == (20, 20)
            inner.cancel_scope.cancel()
        await trio.sleep(2)
        for number in range(40, 60):
            await producer.send(Message(topic=topic, body=b"%d" % number))
        await until(lambda: len(first) + len(second) >= 60)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(int(message.body) for message in first + second) == list(range(60))


async def test_queues_are_read_by_hand(client: Client, shared: Cluster) -> None:
    topic = await make_topic(client, shared, 1)
    producer, consumer = Producer(client, name("pg")), PullConsumer(client, name("cg"))
    for number in range(10):
        await producer.send(Message(topic=topic, body=b"%d" % number, tags="even" if number % 2 == 0 else "odd"))
    (queue,) = await consumer.queues(topic)
    assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 10)
    result = await consumer.pull(queue, 4, max_messages=3)
    assert [message.body for message in result.messages] == [b"4", b"5", b"6"]
    assert (result.status, result.next_offset, result.max_offset) == (calls.PullStatus.FOUND, 7, 10)
    evens = (await consumer.pull(queue, 0, expression="even")).messages
    assert [message.body for message in evens] == [b"0", b"2", b"4", b"6", b"8"]
    assert (await consumer.pull(queue, 10)).status is calls.PullStatus.NO_NEW_MSG
    beyond = await consumer.pull(queue, 99)
    assert (beyond.status, beyond.next_offset) == (calls.PullStatus.OFFSET_ILLEGAL, 10)
    await consumer.commit(queue, 7)
    with trio.fail_after(5):
        while await consumer.committed(queue) != 7:  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.05)
    assert await consumer.search_offset(queue, evens[1].store_timestamp) in (1, 2, 3)
    assert await consumer.earliest_store_time(queue) == evens[0].store_timestamp
    assert evens[0].store_timestamp > 0


async def test_a_lite_pull_consumer_keeps_its_positions(client: Client, shared: Cluster) -> None:
    topic, group = await make_topic(client, shared, 2), name("cg")
    producer = Producer(client, name("pg"))
    for number in range(30):
        await producer.send(Message(topic=topic, body=b"%d" % number))
    async with trio.open_nursery() as nursery:
        consumer = LitePullConsumer(client, group)
        await nursery.start(consumer.run)
        queues = await consumer.queues(topic)
        await consumer.assign(queues)
        got: list[ReceivedMessage] = []
        with trio.fail_after(20):
            while len(got) < 30:
                got += await consumer.poll()
        assert sorted(int(message.body) for message in got) == list(range(30))
        assert [consumer.position(queue) for queue in queues] == [15, 15]
        consumer.seek(queues[0], 10)
        again: list[ReceivedMessage] = []
        with trio.fail_after(20):
            while len(again) < 5:
                again += await consumer.poll()
        assert [message.queue_offset for message in again] == [10, 11, 12, 13, 14]
        nursery.cancel_scope.cancel()
    reader = PullConsumer(client, group)
    with trio.fail_after(5):
        while [await reader.committed(queue) for queue in queues] != [15, 15]:  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.05)


async def test_messages_are_found_by_id_and_by_keys(client: Client, shared: Cluster) -> None:
    topic = await make_topic(client, shared)
    sent = await Producer(client, name("pg")).send(Message(topic=topic, body=b"found", keys=["order-1", "order-2"]))
    await trio.sleep(1)
    assert (await messagequery.view_message(client, sent.offset_message_id)).message_id == sent.message_id
    for key in ("order-1", "order-2"):
        (found,) = await messagequery.query_by_key(client, topic, key)
        assert found.message_id == sent.message_id
    by_unique_key = await messagequery.query_by_unique_key(client, topic, sent.message_id)
    assert by_unique_key is not None
    assert by_unique_key.offset_message_id == sent.offset_message_id
    assert await messagequery.query_by_key(client, topic, "order-3") == []


async def test_an_operator_sees_and_changes_topics_and_groups(client: Client, shared: Cluster) -> None:
    admin, groups = Admin(client), GroupAdmin(client)
    info = await admin.cluster_info()
    assert info.cluster_addr_table[shared.cluster_name] == [shared.broker_name]
    addresses = info.broker_addr_table[shared.broker_name].broker_addrs
    assert addresses == {0: shared.master.address, 1: shared.slave.address}
    topic, group = await make_topic(client, shared, 2), name("cg")
    producer = Producer(client, name("pg"))
    for _ in range(6):
        await producer.send(Message(topic=topic, body=b"x"))
    stats = await admin.topic_stats(topic)
    assert [bounds.max_offset for bounds in stats.offset_table.values()] == [3, 3]

    await groups.create_group(shared.master.address, SubscriptionGroupConfig(group_name=group, retry_max_times=3))
    assert (await groups.groups(shared.master.address))[group].retry_max_times == 3
    async with trio.open_nursery() as nursery:
        got = await consume(nursery, client, topic, group)
        await until(lambda: len(got) == 6)
        connection = await groups.consumer_connection(group)
        assert [item.client_id for item in connection.connection_set] == [client.client_id]
        assert connection.connection_set[0].language == "PYTHON"
        info_of_consumer = await groups.running_info(group, client.client_id)
        assert sum(queue.topic == topic for queue in info_of_consumer.mq_table) == 2
        assert group in await groups.groups_of_topic(topic)
        await until_consumed(groups, group, topic, 3)  # a group without offsets cannot be moved
        moved = await groups.reset_offsets(group, topic, 0)  # consumers that are online are moved by the broker
        assert len(moved) == 2
        await until(lambda: len(got) == 12)
        nursery.cancel_scope.cancel()
    await until_consumed(groups, group, topic, 3)
    assert set((await groups.reset_offsets(group, topic, LATEST)).values()) == {3}

    await admin.delete_topic(shared.cluster_name, topic)
    assert topic not in await admin.topics()
    await groups.delete_group(shared.master.address, group)
    assert group not in await groups.groups(shared.master.address)


async def until_consumed(groups: GroupAdmin, group: str, topic: str, offset: int) -> None:
    """Wait until the group has committed this offset in every queue."""
    with trio.fail_after(15):
        while True:
            table = (await groups.consume_stats(group, topic)).offset_table
            if {progress.consumer_offset for progress in table.values()} == {offset}:
                return
            await trio.sleep(0.2)


async def test_an_orderly_consumer_repeats_a_failed_message_before_the_next(client: Client, shared: Cluster) -> None:
    topic, got = await make_topic(client, shared, 1), list[ReceivedMessage]()
    producer = Producer(client, name("pg"))
    for number in range(10):
        await producer.send(Message(topic=topic, body=b"%d" % number))

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(messages)
        if messages[0].body == b"4" and messages[0].reconsume_times < 2:
            raise ConsumeLaterError

    async with trio.open_nursery() as nursery:
        config = ConsumerConfig(consume_from_where=FIRST, orderly=True, suspend_current_queue=0.2)
        await nursery.start(PushConsumer(client, name("cg"), {topic: "*"}, on_messages, config=config).run)
        await until(lambda: len(got) == 12)
        nursery.cancel_scope.cancel()
    assert [int(message.body) for message in got] == [0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9]


async def test_two_orderly_consumers_never_hold_one_queue_at_once(client: Client, shared: Cluster) -> None:
    topic, group, producer = await make_topic(client, shared, 4), name("cg"), Producer(client, name("pg"))
    orders: dict[int, list[int]] = {queue_id: [] for queue_id in range(4)}

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep(0.005)
        orders[messages[0].queue.queue_id] += [int(message.body) for message in messages]

    config = ConsumerConfig(consume_from_where=FIRST, orderly=True)
    async with open_client(ClientConfig(namesrv_addr=shared.namesrv)) as other, trio.open_nursery() as nursery:
        for number in range(400):
            await producer.send(Message(topic=topic, body=b"%d" % number))
        await nursery.start(PushConsumer(client, group, {topic: "*"}, on_messages, config=config).run)
        second = PushConsumer(other, group, {topic: "*"}, on_messages, config=config)
        nursery.start_soon(second.run)
        await until(lambda: sum(map(len, orders.values())) >= 400)
        await until(lambda: len([queue for queue in second.held_queues if queue.topic == topic]) == 2)
        nursery.cancel_scope.cancel()
    assert [numbers for numbers in orders.values() if numbers != sorted(numbers)] == []
    assert sorted(number for numbers in orders.values() for number in numbers) == list(range(400))


async def test_brokers_tell_settings_and_figures(client: Client, shared: Cluster) -> None:
    admin = Admin(client)
    settings = await admin.broker_config(shared.master.address)
    assert (settings["brokerName"], settings["brokerRole"]) == (shared.broker_name, "SYNC_MASTER")
    assert "brokerVersionDesc" in await admin.broker_runtime_info(shared.slave.address)
    assert await admin.name_server_config()
    namespace = name("ns")
    await admin.put_kv(namespace, "key", "value")
    assert await admin.get_kv(namespace, "key") == "value"
    await admin.delete_kv(namespace, "key")


async def test_a_consumer_reads_on_from_the_slave_when_its_master_is_killed(mortal: Cluster) -> None:
    """broker-requests#66, store-and-ha section 6.5; golden recording g1."""
    topic, group = name("PyKill"), name("cg")
    targets: dict[str, list[int]] = {"pulling_from": [], "committing_to": []}
    got: list[ReceivedMessage] = []

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(messages)

    def note(kind: str, **fields: Any) -> None:
        if kind in targets:
            targets[kind].append(fields["broker_id"])

    settings = ClientConfig(namesrv_addr=mortal.namesrv, poll_name_server_period=2.0)
    async with open_client(settings) as client, trio.open_nursery() as nursery:
        await make_and_name(client, mortal, topic)
        producer = Producer(client, name("pg"))
        acknowledged = [
            (await producer.send(Message(topic=topic, body=b"%d" % number))).message_id for number in range(50)
        ]
        await trio.sleep(12)  # the slave learns of topics and groups every 10 s
        config = ConsumerConfig(consume_from_where=FIRST)
        consumer = PushConsumer(client, group, {topic: "*"}, on_messages, config=config, on_event=note)
        await nursery.start(consumer.run)
        await until(lambda: len(got) == 50)
        await trio.sleep(6)
        acknowledged += [(await producer.send(Message(topic=topic, body=b"more"))).message_id for _ in range(50)]
        mortal.kill_master()
        await trio.sleep(0.5)  # a send that meets the dying connection is not refused, but lost
        with pytest.raises(SendError) as caught:
            await producer.send(Message(topic=topic, body=b"refused"))
        assert isinstance(caught.value, RefusedError)
        await until(lambda: len({message.message_id for message in got}) == 100, within=60)
        await until(lambda: targets["committing_to"] == [0, 1], within=20)
        assert set(targets["pulling_from"][-1:]) == {1}
        nursery.cancel_scope.cancel()
    assert {message.message_id for message in got} == set(acknowledged)
    assert math.isclose(len(got), 100, abs_tol=0)


async def make_and_name(client: Client, cluster: Cluster, topic: str) -> None:
    """Create this very topic."""
    config = TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
    await Admin(client).create_topic_in_cluster(cluster.cluster_name, config)
    with trio.fail_after(30):
        while topic not in await Admin(client).topics():  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.1)
