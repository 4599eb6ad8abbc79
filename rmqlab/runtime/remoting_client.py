"""A remoting client: one channel to each address, opened when first needed, used by everybody.

Source: class NettyRemotingClient.
"""

import socket
from collections.abc import Mapping

import attrs
import trio

from rmqlab.remoting.command import Command
from rmqlab.runtime.channel import Channel, ConnectError, RequestTimeoutError
from rmqlab.runtime.dispatch import Dispatcher, Route
from rmqlab.runtime.fault_hooks import LinkHook
from rmqlab.runtime.reactor import Reactor

CONNECT_TIMEOUT = 3.0
"""Seconds (remoting-and-nameserver section 1.11)."""
_NO_TABLE: Mapping[int, Route[object]] = {}


@attrs.define(eq=False)
class _Attempt:
    """A connection being made, and those who wait for it."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: str | None = None


class RemotingClient:
    """Requests to servers, by address.

    Requests that a server sends to us go to the dispatcher; without one they are answered with code 3.
    """

    def __init__(
        self,
        reactor: Reactor,
        dispatcher: Dispatcher[object] | None = None,
        *,
        source_ip: str | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._reactor = reactor
        self._dispatcher = dispatcher or Dispatcher(_NO_TABLE, None)
        self._source_ip = source_ip
        self._connect_timeout = connect_timeout
        self._channels: dict[str, Channel] = {}
        self._connecting: dict[str, _Attempt] = {}
        self._is_closed = False
        reactor.request_faults.watch(self._dispatcher)

    def connected(self, address: str) -> Channel | None:
        """The channel to an address, if it is open now."""
        return self._channels.get(address)

    async def channel(self, address: str) -> Channel:
        """Give the open channel to `host:port`, connecting where there is none. ConnectError where that fails."""
        await trio.lowlevel.checkpoint()
        while (channel := self._channels.get(address)) is None:
            if (attempt := self._connecting.get(address)) is None:
                return await self._connect(address)
            await attempt.ended.wait()
            if attempt.failure is not None:  # ours would fail alike, and many would wait for one another
                raise ConnectError(attempt.failure)
        return channel

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as Channel.request
        """Ask and wait. ConnectError, ConnectionLostError or RequestTimeoutError where no response comes.

        After a time-out the connection is closed, as Java's client does: its state is unknown.
        """
        deadline = trio.current_time() + timeout
        channel = await self.channel(address)
        try:
            return await channel.request(command, max(deadline - trio.current_time(), 0))
        except RequestTimeoutError as exc:
            channel.close(f"a request timed out: {exc}")
            raise

    async def send_oneway(self, address: str, command: Command) -> None:
        """Send a request that nobody answers. ConnectError where there is no connection."""
        (await self.channel(address)).send_oneway(command)

    def close_channel(self, address: str, reason: str) -> None:
        """Close the connection to one address, if there is one."""
        if (channel := self._channels.get(address)) is not None:
            channel.close(reason)

    def close(self) -> None:
        """Close all connections, and open none any more: who still asks gets a ConnectError."""
        self._is_closed = True
        for channel in list(self._channels.values()):
            channel.close("the client stops")

    async def _connect(self, address: str) -> Channel:
        attempt = self._connecting[address] = _Attempt()
        try:
            channel = await self._open_channel(address)
        except ConnectError as exc:
            attempt.failure = str(exc)
            raise
        else:
            self._channels[address] = channel
            channel.on_close.append(lambda: self._forget(address, channel))
            return channel
        finally:
            del self._connecting[address]
            attempt.ended.set()

    async def _open_channel(self, address: str) -> Channel:
        self._check_open(address)
        sock = await open_connection(
            address,
            source_ip=self._source_ip,
            connect_timeout=self._connect_timeout,
            links=self._reactor.links,
        )
        try:
            self._check_open(address)
            return Channel(self._reactor, sock, self._dispatcher.serve)
        except OSError as exc:  # the peer took the connection and reset it at once
            sock.close()
            raise ConnectError(f"no connection to {address}: {exc}") from None
        except ConnectError:
            sock.close()
            raise

    def _check_open(self, address: str) -> None:
        if self._is_closed:
            raise ConnectError(f"no connection to {address}: the client is closed")

    def _forget(self, address: str, channel: Channel) -> None:
        if self._channels.get(address) is channel:
            del self._channels[address]


async def open_connection(
    address: str, *, source_ip: str | None, connect_timeout: float, links: LinkHook | None = None
) -> socket.socket:
    """Connect to `host:port`, from an address of our own if one is given, over what is left of the links.

    ConnectError where that fails.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
    except OSError as exc:  # too many open files, or a machine without IPv6
        raise ConnectError(f"no connection to {address}: {exc}") from None
    try:
        if source_ip:
            await sock.bind((source_ip, 0))
        with trio.fail_after(connect_timeout):
            if links is not None and links.is_active:
                await links.dial(host, int(port))
            await sock.connect((host, int(port)))
        return socket.socket(fileno=sock.detach())
    except trio.TooSlowError:
        raise ConnectError(f"no connection to {address} within {connect_timeout:g} s") from None
    except (OSError, ValueError, OverflowError) as exc:  # OverflowError: a port that is none
        raise ConnectError(f"no connection to {address}: {exc}") from None
    finally:
        sock.close()
