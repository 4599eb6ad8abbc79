"""Choice of the nameserver.

Source: remoting-and-nameserver section 6.1; class NettyRemotingClient.
"""

import logging
import random

import attrs
import trio

from rmqlab.client.errors import NoNameServerError
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import ConnectError

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class _Choice:
    """A round over all nameservers, which several tasks may wait for."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: str | None = None


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
        self._choice: _Choice | None = None

    async def choose(self) -> str:
        """Return the connected address, or the next address that accepts a connection.

        A failed request is not retried, but later ones go to the next nameserver. NoNameServerError if none accepts a
        connection.
        """
        await trio.lowlevel.checkpoint()
        while not (self._chosen and self._remoting.connected(self._chosen)):
            if (choice := self._choice) is None:
                return await self._choose_for_all()
            await choice.ended.wait()
            if choice.failure is not None:  # a round for each waiting task would take the n-th n times as long
                raise NoNameServerError(choice.failure)
        return self._chosen

    async def _choose_for_all(self) -> str:
        """Choose for this task and all that wait.

        Two tasks that advance at once would each skip the other's candidate.
        """
        choice = self._choice = _Choice()
        try:
            return await self._choose()
        except NoNameServerError as exc:
            choice.failure = str(exc)
            raise
        finally:
            self._choice = None
            choice.ended.set()

    async def _choose(self) -> str:
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
