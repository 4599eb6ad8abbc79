"""Which name server to ask (remoting-and-nameserver section 6.1; class NettyRemotingClient)."""

import logging
import random

import trio

from rmqlab.client.errors import NoNameServerError
from rmqlab.remoting.command import Command
from rmqlab.runtime.channel import ConnectError
from rmqlab.runtime.remoting_client import RemotingClient

log = logging.getLogger(__name__)


class NameServers:
    """The list, shuffled once; one of them is asked for as long as its connection is up."""

    def __init__(self, addresses: tuple[str, ...], remoting: RemotingClient, chance: random.Random) -> None:
        self.addresses = addresses
        self._shuffled = chance.sample(addresses, len(addresses))
        self._remoting = remoting
        self._index = chance.randrange(999)
        self._chosen: str | None = None
        self._choosing = trio.Lock()

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - the protocol's own
        """Ask one. A request that fails is not tried on another, but the next one will be.

        NoNameServerError where none can be connected to; errors as RemotingClient.request.
        """
        return await self._remoting.request(await self.choose(), command, timeout)

    async def choose(self) -> str:
        """Give the address in use, connected; or the next one that takes a connection."""
        async with self._choosing:  # two who step on at once would each skip what the other tries
            return await self._choose()

    async def _choose(self) -> str:
        if self._chosen and self._remoting.connected(self._chosen):
            return self._chosen
        failures = []
        for _ in self._shuffled:
            self._index += 1
            address = self._shuffled[self._index % len(self._shuffled)]
            try:
                await self._remoting.channel(address)
            except ConnectError as exc:
                failures.append(str(exc))
                continue
            if self._chosen != address:
                log.info("name server %s is in use", address)
            self._chosen = address
            return address
        if not failures:
            raise NoNameServerError("no name server is configured")
        raise NoNameServerError("no name server can be reached: " + "; ".join(failures))
