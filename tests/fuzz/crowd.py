"""Many connections at once that send little, read nothing, or close one direction.

They stay open while a well-formed request must get its reply.
"""

import contextlib
from collections.abc import AsyncIterator

import trio

from tests.fuzz import frames
from tests.fuzz.odd import Odd

CROWD = 300
"""Connections of one batch."""
TURNS = 8
"""Rounds in which each of them sends some bytes."""


@contextlib.asynccontextmanager
async def crowd(odd: Odd, address: str, probe: int) -> AsyncIterator[int]:
    """Open the connections, and let each behave in its own way. Gives their number."""
    host, _, port = address.rpartition(":")
    request = frames.frame(frames.JSON, b'{"code":%d,"opaque":1}' % probe, b"")
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(CROWD):
            with contextlib.suppress(OSError):  # more connections than the port accepts are closed
                streams.append(await stack.enter_async_context(await trio.open_tcp_stream(host, int(port))))
        ways = [odd.choice(("mute", "dribble", "greedy", "half")) for _ in streams]
        for turn in range(TURNS):
            for stream, way in zip(streams, ways, strict=True):
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await _behave(stream, way, request, turn)
        yield len(streams)


async def _behave(stream: trio.SocketStream, way: str, request: bytes, turn: int) -> None:
    with trio.move_on_after(0.01):  # a peer that reads nothing is read no further, either
        if way == "dribble":
            await stream.send_all(request[turn : turn + 1])
        elif way == "greedy":
            await stream.send_all(request * 200)
        elif way == "half" and turn == 0:
            await stream.send_all(request[:-1])
            await stream.send_eof()
