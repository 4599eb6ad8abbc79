"""Choice of the nameserver.

Source: remoting-and-nameserver section 6.1; class NettyRemotingClient.
"""

import logging
import random

import trio

from rmqlab.client.errors import NoNameServerError
from rmqlab.runtime.remoting_client import RemotingClient
from rmqlab.runtime.remoting_errors import ConnectError

log = logging.getLogger(__name__)


class NameServers:
    """The list, shuffled once.

    One nameserver is used as long as its connection is open.
    """

    def __init__(self, addresses: tuple[str, ...], remoting: RemotingClient, rng: random.Random) -> None:
        self.addresses = addresses
        self._shuffled = rng.sample(addresses, len(addresses))
        self._remoting = remoting
        self._index = rng.randrange(999)
        self._chosen: str | None = None
        self._choosing = trio.Lock()

    async def choose(self) -> str:
        """Return the connected address, or the next address that accepts a connection.

        A failed request is not retried, but later ones go to the next nameserver. NoNameServerError if none accepts a
        connection.
        """
        async with self._choosing:  # two tasks that advance at once would each skip the other's candidate
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
                log.info("nameserver %s is in use", address)
            self._chosen = address
            return address
        if not failures:
            raise NoNameServerError("no nameserver is configured")
        raise NoNameServerError("no nameserver can be reached: " + "; ".join(failures))
