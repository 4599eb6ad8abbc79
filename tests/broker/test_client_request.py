"""Requests of a broker to its clients (class Broker2Client)."""

from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.client_request import ask_client
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.remoting_errors import ConnectionLostError, RequestTimeoutError


@attrs.define
class Leaver:
    """A channel that closes 2 s after a request, or had closed before it."""

    is_closed: bool = False

    async def request(self, _command: Command, _timeout: float) -> Command:
        await trio.sleep(0 if self.is_closed else 2)
        self.is_closed = True
        raise ConnectionLostError("closed")


@attrs.define
class Responder:
    is_closed: bool = False

    async def request(self, command: Command, _timeout: float) -> Command:
        return command


async def test_a_client_that_closes_its_connection_meanwhile_times_out(autojump_clock: MockClock) -> None:
    """NettyRemotingAbstract.invokeSyncImpl: nothing ends the wait."""
    del autojump_clock
    began = trio.current_time()
    with pytest.raises(RequestTimeoutError, match="closed"):
        await ask_client(cast("Any", Leaver()), Command(307), 10.0)
    assert trio.current_time() == pytest.approx(began + 10)


async def test_a_connection_that_closed_before_the_request_fails_at_once(autojump_clock: MockClock) -> None:
    """RemotingSendRequestException."""
    del autojump_clock
    began = trio.current_time()
    with pytest.raises(ConnectionLostError):
        await ask_client(cast("Any", Leaver(is_closed=True)), Command(307), 10.0)
    assert trio.current_time() < began + 2


async def test_a_response_is_returned() -> None:
    command = Command(307)
    assert await ask_client(cast("Any", Responder()), command, 10.0) is command
