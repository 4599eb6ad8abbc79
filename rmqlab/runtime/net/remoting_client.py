"""A remoting client: one shared channel per address, opened on first use.

Source: class NettyRemotingClient.
"""

import functools
import os
import socket
from collections.abc import Mapping, Sequence

import attrs
import trio

from rmqlab.remoting.command import Command
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Dispatcher, Route
from rmqlab.runtime.net.fault_hooks import LinkHook
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.network import network
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_errors import ConnectError, RequestTimeoutError
from rmqlab.runtime.text.time_text import time_given

CONNECT_TIMEOUT = 3.0
"""Seconds (remoting-and-nameserver section 1.11)."""
_NO_TABLE: Mapping[int, Route[object]] = {}


@attrs.define(eq=False)
class _Attempt:
    """A connection attempt that several tasks may wait for."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: str | None = None


class RemotingClient:
    """Sends requests to servers by address.

    Requests of a server to this client are passed to the dispatcher; without one they get a reply with code 3.
    """

    def __init__(
        self,
        reactor: Reactor,
        dispatcher: Dispatcher[object] | None = None,
        *,
        source_ip: str | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        meter: Meter | None = None,
    ) -> None:
        self._reactor = reactor
        self._dispatcher = dispatcher or Dispatcher(_NO_TABLE, None)
        self._source_ip = source_ip
        self._connect_timeout = connect_timeout
        self._meter = meter
        self._channels: dict[str, Channel] = {}
        self._connecting: dict[str, _Attempt] = {}
        self._is_closed = False
        reactor.request_faults.watch(self._dispatcher)

    def connected(self, address: str) -> Channel | None:
        """Return the channel to an address if it is open, or None."""
        return self._channels.get(address)

    async def channel(self, address: str) -> Channel:
        """Return the channel to `host:port`, and open it if needed.

        ConnectError if that fails.
        """
        await trio.lowlevel.checkpoint()
        while (channel := self._channels.get(address)) is None:
            if (attempt := self._connecting.get(address)) is None:
                return await self._connect(address)
            await attempt.ended.wait()
            if attempt.failure is not None:  # retrying here would serialize the failures of all waiting tasks
                raise ConnectError(attempt.failure)
        return channel

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as Channel.request
        """Send a request and return its response.

        ConnectError, ConnectionLostError or RequestTimeoutError without a response. `timeout` is in seconds. After a
        timeout the connection is closed, as in Java's client, because its state is unknown.
        """
        deadline = trio.current_time() + timeout
        channel = await self.channel(address)
        try:
            return await channel.request(command, max(deadline - trio.current_time(), 0), timeout)
        except RequestTimeoutError as exc:
            channel.close(f"a request timed out: {exc}")
            raise

    async def request_all(
        self,
        address: str,
        commands: Sequence[Command],
        timeout: float,  # noqa: ASYNC109 - as Channel.request
    ) -> list[Command | None]:
        """Send several requests at once; return the response of each, None without one.

        Cheaper than a task for each request. Raises ConnectError. `timeout` is in seconds, for all of them together:
        then the connection is closed, as by `request`.
        """
        responses: dict[int, Command | None] = {}
        all_done = trio.Event()

        def on_reply(index: int, response: Command | None) -> None:
            responses[index] = response
            if len(responses) == len(commands):
                all_done.set()

        with trio.move_on_after(timeout) as waiting:
            channel = await self.channel(address)
            for index, command in enumerate(commands):
                channel.send_request(command, functools.partial(on_reply, index))
            if commands:
                await all_done.wait()
        if waiting.cancelled_caught:
            self.close_channel(address, f"a request timed out: no response within {time_given(timeout)}")
        return [responses.get(index) for index in range(len(commands))]

    async def send_oneway(self, address: str, command: Command) -> None:
        """Send a oneway request. ConnectError if there is no connection."""
        (await self.channel(address)).send_oneway(command)

    def close_channel(self, address: str, reason: str) -> None:
        """Close the connection to one address if it is open."""
        if (channel := self._channels.get(address)) is not None:
            channel.close(reason)

    def close(self) -> None:
        """Close all connections. Later requests raise ConnectError."""
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
            return Channel(self._reactor, sock, self._dispatcher.serve, meter=self._meter)
        except OSError as exc:  # the peer accepted the connection and reset it at once
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
    """Return a socket connected to `host:port`. ConnectError if that fails.

    `source_ip` is the local address to bind. `links` can delay the connect or make it fail.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with trio.fail_after(connect_timeout):
            if links is not None and links.is_active:
                await links.dial(host, int(port))
            return await network().connect(host, int(port), source_ip)
    except trio.TooSlowError:
        raise ConnectError(f"no connection to {address} within {connect_timeout:g} s") from None
    except OSError as exc:  # also too many open files
        raise ConnectError(f"no connection to {address}: {_reason(exc)}") from None
    except (ValueError, OverflowError):  # a broker registered it, and a nameserver sent it
        raise ConnectError(f"no connection to {shown(address)}: expected host:port") from None


def _reason(exc: OSError) -> str:
    """Return why a connect failed.

    The error number and the address, which trio puts into its text, are left out.
    """
    if exc.errno is not None and exc.errno > 0:  # gaierror has negative numbers
        return os.strerror(exc.errno)
    return str(exc)
