"""Where the push consumer pulls, from which offset on, and when it does not."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.processqueue import FlowLimits
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.runtime.net.dispatch import Reply
from tests.client.application import Application, start

if TYPE_CHECKING:
    from tests.client.conftest import World

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
REFUSED = Reply(ResponseCode.SYSTEM_ERROR, remark="no")


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
    assert [event["broker_id"] for event in application.events_of("pulling_from")] == [0, 1]
    assert [event["broker_id"] for event in application.events_of("committing_to")] == [0, 1]
    for command in slave.asked(RequestCode.PULL_MESSAGE):
        assert command.header(PullMessageRequestHeader).sys_flag == 2  # a slave is not asked to commit

    world.route("orders", 1)
    master.queues = slave.queues
    master.revive()
    await world.until(lambda: application.events_of("committing_to")[-1]["broker_id"] == 0, within=40)
    await world.until(lambda: master.offsets.get(("cg", "orders", 0)) == 3)
    assert application.bodies == [b"0", b"1", b"2"]


async def test_pulls_go_where_the_last_answer_suggested(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """store-and-ha section 6.4: masters send slow readers to slaves, slaves send back."""
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
    assert [event["address"] for event in application.events_of("pulling_from")] == [
        master.address,
        slave.address,
        master.address,
    ]


async def test_a_pull_ends_with_its_connection_and_is_repeated_after_a_pause(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    _, application = await start(nursery, client)
    await world.until(lambda: bool(broker.parked))
    cut_at = trio.current_time()
    broker.parked[0].channel.close("cut")
    await world.until(lambda: bool(application.events_of("pull_failed")))
    assert trio.current_time() - cut_at < 0.5
    await world.until(lambda: len(broker.asked(RequestCode.PULL_MESSAGE)) == 2)
    assert 1.0 <= trio.current_time() - cut_at < 2.0


@pytest.mark.parametrize(
    "garbage",
    [
        Reply(header={"nextBeginOffset": "3"}, body=b"no records"),
        Reply(header={"nextBeginOffset": "far"}),
        Reply(header={"nextBeginOffset": str(2**64)}),
        Reply(ResponseCode.PULL_NOT_FOUND, header={"nextBeginOffset": "-1"}),
        Reply(ResponseCode.SYSTEM_ERROR, remark="no"),
    ],
)
async def test_a_pull_with_an_invalid_reply_is_retried(
    world: "World", client: Client, nursery: trio.Nursery, garbage: Reply
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"x")
    broker.script[RequestCode.PULL_MESSAGE].append(garbage)
    _, application = await start(nursery, client)
    await world.until(lambda: application.bodies == [b"x"], within=5)
    assert len(application.events_of("pull_failed")) == 1


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
    (event,) = application.events_of("offset_illegal")
    assert (event["asked"], event["offered"]) == (99, 1)


async def test_a_reset_replaces_the_offset_offered_for_one_out_of_bounds(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    moved = Reply(ResponseCode.PULL_OFFSET_MOVED, {"nextBeginOffset": "2", "minOffset": "0", "maxOffset": "3"})
    broker.script[RequestCode.PULL_MESSAGE].append(moved)
    consumer, application = await start(nursery, client)
    await world.until(lambda: len(application.events_of("offset_illegal")) == 1)
    consumer.reset_offsets("orders", dict.fromkeys(consumer.held_queues, 1))
    await world.until(lambda: application.bodies == [b"1", b"2"])
    await trio.sleep(20)
    assert application.bodies == [b"1", b"2"]
    assert broker.offsets["cg", "orders", 0] == 3


async def test_a_slave_that_lacks_the_data_is_not_asked_in_a_tight_loop(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """store-and-ha section 6.3: it returns 20 with the same offset, at once."""
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


async def test_queues_share_a_limit_of_held_messages(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, *[b"%03d" % number for number in range(200)])
    gate = trio.Event()
    application = Application(gate=gate)
    config = ConsumerConfig(
        flow=FlowLimits(shared_messages=80),
        pull_batch_size=16,
        model=MessageModel.BROADCASTING,
        consume_from_where=FIRST,
    )
    consumer = PushConsumer(client, "cg", {"orders": "*"}, application, config=config)
    await nursery.start(consumer.run)
    await trio.sleep(10)
    assert len(broker.asked(RequestCode.PULL_MESSAGE)) == 6  # 48 of each queue are held: more than 40
    gate.set()
    await world.until(lambda: len(application.got) == 400)


@pytest.mark.parametrize(("where", "expected"), [(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, b"new"), (FIRST, b"old")])
async def test_a_group_without_an_offset_begins_where_it_wants(
    world: "World", client: Client, nursery: trio.Nursery, where: ConsumeFromWhere, expected: bytes
) -> None:
    """broker-requests section 3.7: only code 22 means that the offset is missing."""
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


async def test_commits_are_recorded_in_the_order_in_which_they_are_sent(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """A pull that commits 1 may be held until long after another commit of 2."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    application = Application()

    async def consume_slowly(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep(0.5)  # the next pull leaves before the offset moves
        application.got += messages

    config = ConsumerConfig(consume_from_where=FIRST, commit_period=2.0)
    subscription = {"orders": "*"}
    consumer = PushConsumer(client, "cg", subscription, consume_slowly, config=config, on_event=application.note)
    await nursery.start(consumer.run)
    for number in range(6):
        broker.put("orders", 0, b"%d" % number)
        await trio.sleep(3.3)
    sent = [int(command.ext_fields["commitOffset"]) for command in broker.log if commits(command)]
    events_of = [fields["offset"] for fields in application.events_of("committed") if fields["topic"] == "orders"]
    assert events_of == sorted(events_of)
    assert [offset for offset, _ in itertools.groupby(events_of)] == [offset for offset, _ in itertools.groupby(sent)]


def commits(command: Command) -> bool:
    """True for what commits an offset of the topic."""
    fields = command.ext_fields
    is_commit = command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    is_commit |= command.code == RequestCode.PULL_MESSAGE and bool(int(fields["sysFlag"]) & 1)
    return is_commit and fields["topic"] == "orders"


async def test_a_pull_is_recorded_when_it_ends_a_silence_with_how_long_it_was_held(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    _, application = await start(nursery, client, suspend_timeout=15.0)

    def events_of(kind: str) -> list[dict[str, object]]:
        return [fields for fields in application.events_of(kind) if fields["queue"].topic == "orders"]

    await world.until(lambda: application.bodies == [b"0", b"1"])
    (first,) = events_of("pull_resumed")
    assert (first["status"], first["held"]) == ("FOUND", 0)
    await trio.sleep(4)
    for waiting in [*broker.parked]:
        waiting.channel.close("cut")
    broker.parked.clear()
    await world.until(lambda: len(events_of("pull_failed")) == 1)
    (failed,) = events_of("pull_failed")
    assert failed["held"] == failed["took"]
    assert isinstance(failed["took"], int)
    assert failed["took"] >= 3000
    await world.until(lambda: any(waiting.command.ext_fields["topic"] == "orders" for waiting in broker.parked))
    await trio.sleep(4)
    held = next(waiting for waiting in broker.parked if waiting.command.ext_fields["topic"] == "orders")
    held.reply(Reply(ResponseCode.PULL_NOT_FOUND, {"nextBeginOffset": "2", "minOffset": "0", "maxOffset": "2"}))
    await world.until(lambda: len(events_of("pull_resumed")) == 2)
    resumed = events_of("pull_resumed")[1]
    assert resumed["status"] == "NO_NEW_MSG"
    assert isinstance(resumed["held"], int)
    assert 3900 <= resumed["held"] <= 4500


async def test_a_pull_that_times_out_or_never_left_was_not_held(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.PULL_MESSAGE] = lambda _: None
    _, application = await start(nursery, client, pull_timeout=30.0)
    await world.until(lambda: bool(application.events_of("pull_failed")))
    assert application.events_of("pull_failed")[0]["held"] == 0
    assert application.events_of("pull_failed")[0]["took"] >= 30_000
    broker.die()
    world.name_server.routes.clear()
    count = len(application.events_of("pull_failed"))
    await world.until(lambda: len(application.events_of("pull_failed")) >= count + 4)
    assert application.events_of("pull_failed")[-1]["held"] == 0


async def test_an_answer_without_data_ends_no_silence(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """A slave that lacks the data returns 20 with the same offset."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.PULL_MESSAGE] = lambda _: Reply(
        ResponseCode.PULL_RETRY_IMMEDIATELY, {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0"}
    )
    _, application = await start(nursery, client)
    await trio.sleep(5)
    assert application.events_of("pull_resumed") == []
