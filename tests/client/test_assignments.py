"""How a consumer acquires very many queues."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rmqlab.client.instance import Client
from rmqlab.client.limited import MAX_AT_ONCE
from rmqlab.client.rebalance import Queues
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.dispatch import Reply, Request
from tests.client.application import start

if TYPE_CHECKING:
    from tests.client.conftest import World

QUEUES = 400


async def test_a_broker_is_asked_for_offsets_no_faster_than_it_replies(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Requests for 100,000 queues at once all timed out, in each round."""
    (broker,) = world.add("a")
    world.route("orders", QUEUES)
    waiting = deque[Request]()
    most = 0

    def park(request: Request) -> None:
        nonlocal most
        waiting.append(request)
        most = max(most, len(waiting))

    async def reply_slowly() -> None:
        while True:
            await trio.sleep(0.02)
            if waiting:
                waiting.popleft().reply(Reply(header={"offset": "0"}))

    broker.handlers[RequestCode.QUERY_CONSUMER_OFFSET] = park
    nursery.start_soon(reply_slowly)
    consumer, _ = await start(nursery, client)
    assert len([queue for queue in consumer.held_queues if queue.topic == "orders"]) == QUEUES
    assert most <= MAX_AT_ONCE


async def test_a_strategy_that_fails_leaves_the_queues_as_they_are(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    world.add("a")
    world.route("orders", 2)
    rounds: list[object] = []

    def strategy(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        del own_id, members
        rounds.append(queues)
        if len(rounds) == 2:
            raise KeyError("room")
        return list(queues)

    consumer, application = await start(nursery, client, strategy=strategy)
    before = consumer.held_queues
    consumer.rebalance_soon()
    await world.until(lambda: len(rounds) > 2)
    (failed,) = application.events_of("rebalance_failed")
    assert "KeyError('room')" in failed["error"]
    assert consumer.held_queues == before


async def test_a_silent_broker_is_asked_for_some_queues_only_in_each_round(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Each queue would wait for its own time-out."""
    (silent,), _ = world.add("a"), world.add("b")
    world.route("orders", QUEUES)
    silent.handlers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: None
    began_at = trio.current_time()
    consumer, _ = await start(nursery, client)
    assert {queue.broker_name for queue in consumer.held_queues if queue.topic == "orders"} == {"b"}
    assert len([queue for queue in consumer.held_queues if queue.topic == "orders"]) == QUEUES
    assert trio.current_time() - began_at < 3 * client.config.api_timeout
