"""Choice of the nameserver by many tasks at once."""

import pytest
import trio
import trio.testing

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Outcome, Producer
from rmqlab.runtime.net import remoting_client
from rmqlab.runtime.net.network import network
from tests.client.conftest import World


class SilentNetwork:
    """Every connect waits for its time-out."""

    async def connect(self, *_: object) -> None:
        await trio.sleep_forever()


async def test_sends_that_wait_for_a_nameserver_fail_together(own_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th failed after n rounds of connect time-outs."""
    monkeypatch.setattr(remoting_client, "network", SilentNetwork)
    outcomes: list[Outcome] = []
    config = ClientConfig(namesrv_addr=f"{own_host}:1;{own_host}:2", client_ip="10.0.0.9", connect_timeout=3.0)
    async with open_client(config) as client:
        producer = Producer(client, "pg")
        began_at = trio.current_time()
        for _ in range(100):
            producer.send_soon(Message(topic="orders", body=b"x"), outcomes.append)
        await World.until(lambda: len(outcomes) == 100, within=1000)
        assert trio.current_time() - began_at < 20
    assert {str(outcome)[:34] for outcome in outcomes} == {"no nameserver can be reached: no c"}


async def test_a_task_that_waits_chooses_when_the_choosing_one_is_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = network()
    monkeypatch.setattr(remoting_client, "network", SilentNetwork)
    async with open_client(ClientConfig(namesrv_addr=world.name_server.address, client_ip="10.0.0.9")) as client:
        chosen: list[str] = []

        async def choose() -> None:
            chosen.append(await client.name_servers.choose())

        async with trio.open_nursery() as waiting, trio.open_nursery() as choosing:
            choosing.start_soon(choose)
            await trio.testing.wait_all_tasks_blocked()
            waiting.start_soon(choose)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(remoting_client, "network", lambda: real)
            choosing.cancel_scope.cancel()
        assert chosen == [world.name_server.address]
