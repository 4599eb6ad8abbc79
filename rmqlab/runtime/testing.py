"""Stand-ins for the network, for tests."""

import attrs
import trio

from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.channel import ConnectError


@attrs.define
class ScriptedClient:
    """In the place of a RemotingClient: notes what is asked, and answers from a script.

    The script is by address, or by address and request code; None stands for a peer that is not there. What the
    script does not name is answered with an empty success.
    """

    answers: dict[str | tuple[str, int], Command | None] = attrs.field(factory=dict)
    asked: list[tuple[float, str, Command]] = attrs.field(factory=list)
    """Requests: when, whom, what."""
    oneways: list[tuple[str, Command]] = attrs.field(factory=list)

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109 - the real one's form
        """Answer as the script says."""
        await trio.lowlevel.checkpoint()
        self.asked.append((trio.current_time(), address, command))
        by_address = self.answers.get(address, Command(ResponseCode.SUCCESS))
        answer = self.answers.get((address, command.code), by_address)
        if answer is None:
            raise ConnectError(f"no connection to {address}")
        return answer

    async def send_oneway(self, address: str, command: Command) -> None:
        """Note it."""
        await trio.lowlevel.checkpoint()
        self.oneways.append((address, command))
