"""A running event loop, with a server and a client on it."""

from collections.abc import AsyncIterator

import pytest

from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from tests.runtime.channels import Peer


@pytest.fixture
async def reactor() -> AsyncIterator[Reactor]:
    async with open_reactor() as reactor:
        yield reactor


@pytest.fixture
async def peer(reactor: Reactor) -> AsyncIterator[Peer]:
    peer = Peer(reactor)
    yield peer
    peer.server.close()


@pytest.fixture
async def client(reactor: Reactor) -> AsyncIterator[RemotingClient]:
    client = RemotingClient(reactor)
    yield client
    client.close()
