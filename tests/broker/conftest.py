"""A broker on a store of its own, which a test talks to by requests."""

import pathlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker, open_talking_broker
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.headers.nameserver import (
    RegisterBrokerRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from rmqlab.runtime.net.dispatch import Dispatcher, Route, handler_table
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.server import Server
from tests.broker.brokerprocess import RATE, Nameserver, World
from tests.broker.syncmaster import Master, StartMaster
from tests.broker.transactionproducer import Producer


@pytest.fixture
def open_broker(tmp_path: pathlib.Path) -> Iterator[Callable[..., TalkingBroker]]:
    """Opens brokers, each below a directory of its own name.

    Closes their stores at the end.
    """
    opened: list[TalkingBroker] = []

    def open_one(name: str = "broker", **settings: Any) -> TalkingBroker:
        opened.append(open_talking_broker(tmp_path / name, **settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.broker.store.close()


@pytest.fixture
def talk(open_broker: Callable[..., TalkingBroker]) -> TalkingBroker:
    """A master without slaves."""
    return open_broker()


@pytest.fixture
def slave(open_broker: Callable[..., TalkingBroker]) -> TalkingBroker:
    """A slave, with nothing in it."""
    return open_broker("slave", broker_role="SLAVE", broker_id=1)


@pytest.fixture
def producer(talk: TalkingBroker) -> Producer:
    return Producer(talk)


@pytest.fixture
def fast_clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """For tests with minutes to live through.

    It counts only where the test itself takes it.
    """
    mock_clock.rate = RATE
    return mock_clock


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    nameserver = Nameserver()
    table = handler_table(
        [
            Route(RequestCode.REGISTER_BROKER, RegisterBrokerRequestHeader, nameserver.register),
            Route(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequestHeader, nameserver.unregister),
        ]
    )
    async with open_reactor() as reactor:
        server = Server(reactor, Dispatcher(table, None))
        nameserver.address = "{}:{}".format(*server.listen("127.0.0.1", 0))
        client = RemotingClient(reactor)
        try:
            async with trio.open_nursery() as nursery:
                yield World(nameserver, client, nursery, tmp_path)
                nursery.cancel_scope.cancel()
        finally:
            client.close()
            server.close()


@pytest.fixture
async def reactor() -> AsyncIterator[Reactor]:
    async with open_reactor() as made:
        yield made


@pytest.fixture
async def start_master(reactor: Reactor, open_broker: Callable[..., TalkingBroker]) -> AsyncIterator[StartMaster]:
    """Starts sync masters that listen for slaves; closes all at the end."""
    started: list[Master] = []

    def start(name: str = "master", **settings: Any) -> Master:
        talk = open_broker(name, **{"broker_role": "SYNC_MASTER", **settings})
        broker, recorder = talk.broker, Recorder()

        def acked(master: HaMaster) -> None:
            broker.slave_waits.advance(master)
            recorder.changed()

        ha = HaMaster(
            reactor,
            broker.store,
            broker.settings.ha,
            on_ack=acked,
            on_lost=broker.slave_waits.fail_lost,
            emit=recorder.emit,
        )
        broker.ha_master = ha
        started.append(Master(talk, ha, recorder, ha.listen("127.0.0.1", 0)))
        return started[-1]

    yield start
    for master in started:
        master.ha.close()
        for stream in master.slaves:
            await trio.aclose_forcefully(stream)
