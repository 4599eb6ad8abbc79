"""Stand-ins for the network, for tests."""

import attrs
import trio

from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.remoting_errors import ConnectError


@attrs.define
class ScriptedClient:
    """Stand-in for a RemotingClient: records requests, responds from a script.

    The script's keys are an address, or an address and a request code; the value None means that the peer is
    unreachable. Other requests get an empty response with code 0.
    """

    replies: dict[str | tuple[str, int], Command | None] = attrs.field(factory=dict)
    asked: list[tuple[float, str, Command]] = attrs.field(factory=list)
    """Recorded requests: time, address, command."""
    oneways: list[tuple[str, Command]] = attrs.field(factory=list)

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109 - the real one's form
        """Return the response of the script."""
        await trio.lowlevel.checkpoint()
        self.asked.append((trio.current_time(), address, command))
        by_address = self.replies.get(address, Command(ResponseCode.SUCCESS))
        reply = self.replies.get((address, command.code), by_address)
        if reply is None:
            raise ConnectError(f"no connection to {address}")
        return reply

    async def send_oneway(self, address: str, command: Command) -> None:
        """Record the request."""
        await trio.lowlevel.checkpoint()
        self.oneways.append((address, command))
