"""The client instance: routes kept fresh, heartbeats, its end."""

from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ClientConfig, client_id
from rmqlab.client.errors import BrokerError, NoRouteError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.limited import MAX_AT_ONCE
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.route import BrokerData, TopicRouteData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Reply
from rmqlab.runtime.net.remoting_errors import ConnectError

if TYPE_CHECKING:
    from tests.client.conftest import World

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def test_a_producer_only_client_sends_heartbeats_to_masters_only(world: "World", client: Client) -> None:
    """broker-requests section 3.1."""
    master, slave = world.add("a", 2)
    world.route("orders")
    await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
    await trio.sleep(65)
    assert len(master.asked(RequestCode.HEART_BEAT)) in (3, 4)
    assert not slave.asked(RequestCode.HEART_BEAT)


async def test_routes_in_use_are_asked_for_every_thirty_seconds(world: "World", client: Client) -> None:
    """remoting-and-nameserver section 6.2."""
    world.add("a")
    world.route("orders")
    await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
    before = len(world.name_server.asked(ROUTE))
    await trio.sleep(91)
    assert len(world.name_server.asked(ROUTE)) == before + 3


async def test_a_failed_refresh_keeps_the_previous_route(world: "World", client: Client) -> None:
    """remoting-and-nameserver section 6.2: any failure keeps the previous route."""
    world.add("a")
    world.route("orders")
    producer = Producer(client, "pg")
    await producer.send(Message(topic="orders", body=b"x"))
    world.name_server.script[ROUTE] += [Reply(ResponseCode.TOPIC_NOT_EXIST), Reply(), None]
    await trio.sleep(100)
    assert not world.name_server.script[ROUTE]
    await producer.send(Message(topic="orders", body=b"x"))


async def test_heartbeats_to_thousands_of_addresses_are_sent_some_at_a_time(
    world: "World", client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile route held up the event loop for 9 s at each heartbeat."""
    under_way, most, sent = set[str](), 0, set[str]()

    async def ask(address: str, *_: object, **__: object) -> None:
        nonlocal most
        under_way.add(address)
        most = max(most, len(under_way))
        await trio.lowlevel.checkpoint()
        under_way.discard(address)
        sent.add(address)
        raise ConnectError("refused")

    del world
    addresses = [f"10.0.0.1:{number}" for number in range(1000)]
    client.producers["pg"] = set()  # without a heartbeat of its own
    names = [BrokerData(cluster="c", broker_name=one, broker_addrs={0: one}) for one in addresses]
    client.routes.set_route("orders", TopicRouteData(broker_datas=names, queue_datas=[]))
    monkeypatch.setattr(client, "ask", ask)
    await client.heartbeat()
    assert sent == {*addresses}
    assert most <= MAX_AT_ONCE


async def test_a_frozen_broker_keeps_no_other_from_its_heartbeat(world: "World", client: Client) -> None:
    (frozen,), (well,) = world.add("a"), world.add("b")
    world.route("orders")
    frozen.handlers[RequestCode.HEART_BEAT] = lambda _: None
    await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
    await trio.sleep(95)
    assert len(well.asked(RequestCode.HEART_BEAT)) >= 3


async def test_closing_leaves_every_group_and_every_connection(world: "World") -> None:
    (broker,) = world.add("a")
    world.route("orders")
    async with open_client(world.config()) as client:
        await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
    (command,) = broker.asked(RequestCode.UNREGISTER_CLIENT)
    assert command.ext_fields == {"clientID": client.client_id, "producerGroup": "pg"}
    await world.until(lambda: not broker.server.channels)


async def test_closing_waits_for_no_frozen_broker(world: "World") -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.handlers[RequestCode.UNREGISTER_CLIENT] = lambda _: None
    async with open_client(world.config()) as client:
        await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
        closing_at = trio.current_time()
    assert trio.current_time() - closing_at <= 3.5


async def test_a_cancelled_client_says_goodbye_too(world: "World") -> None:
    (broker,) = world.add("a")
    world.route("orders")
    with trio.move_on_after(5):
        async with open_client(world.config()) as client:
            await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
            await trio.sleep_forever()
    assert len(broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_an_error_in_the_client_block_is_raised_unchanged(world: "World") -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_client(world.config()):
            raise ZeroDivisionError


@pytest.mark.parametrize(
    ("group", "said"), [("", "blank"), ("a b", "group 'a b' has a character"), ("g" * 256, "at most 255")]
)
async def test_an_invalid_group_is_rejected_before_any_request(client: Client, group: str, said: str) -> None:
    async def on_messages(messages: object) -> None:
        raise NotImplementedError

    for make in (
        lambda: Producer(client, group),
        lambda: PullConsumer(client, group),
        lambda: LitePullConsumer(client, group),
        lambda: PushConsumer(client, group, {"orders": "*"}, on_messages),
    ):
        with pytest.raises(ValueError, match=said):
            make()


async def test_refusals_and_unknown_topics_have_errors_of_their_own(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    broker.script[RequestCode.GET_BROKER_CONFIG].append(Reply(ResponseCode.NO_PERMISSION, remark="no"))
    with pytest.raises(BrokerError, match="returned code 16: no"):
        await client.ask(broker.address, RequestCode.GET_BROKER_CONFIG)
    with pytest.raises(NoRouteError, match="no route for topic unknown"):
        await client.fetch_route("unknown")
    broker.die()
    await trio.sleep(0.1)  # the client sees its connection close
    with pytest.raises(ConnectError):
        await client.ask(broker.address, RequestCode.GET_BROKER_CONFIG)


def test_client_ids_have_javas_form_and_differ() -> None:
    config = ClientConfig(unit_name="unit")
    first, second = client_id(config, "10.0.0.9"), client_id(config, "10.0.0.9")
    assert first != second
    assert first.startswith("10.0.0.9@")
    assert "#" in first
    assert first.endswith("@unit")
    assert client_id(ClientConfig(instance_name="mine"), "10.0.0.9") == "10.0.0.9@mine"


def test_name_servers_are_separated_by_semicolons() -> None:
    assert ClientConfig(namesrv_addr="a:1; b:2;").namesrv_addr == ("a:1", "b:2")


async def test_a_group_has_one_producer_per_instance(client: Client) -> None:
    Producer(client, "pg")
    with pytest.raises(ValueError, match="a producer of group pg already"):
        Producer(client, "pg")
