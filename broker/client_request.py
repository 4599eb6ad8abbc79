"""Requests of a broker to its clients that have a response (class Broker2Client)."""

import trio

from rmqlab.remoting.command import Command
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.remoting_errors import ConnectionLostError, RequestTimeoutError


async def ask_client(channel: Channel, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as Channel.request
    """Return a client's response.

    A client that closes its connection meanwhile times out like one that does not respond: 4.9.8 ends no wait when a
    connection to its server closes (NettyRemotingAbstract.invokeSyncImpl). ConnectionLostError if it was closed before,
    RequestTimeoutError.
    """
    was_closed, give_up_at = channel.is_closed, trio.current_time() + timeout
    try:
        return await channel.request(command, timeout)
    except ConnectionLostError as exc:
        if was_closed:
            raise
        await trio.sleep_until(give_up_at)
        raise RequestTimeoutError(str(exc)) from None
