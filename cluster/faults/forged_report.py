"""A stranger at a broker's HA port: it reports offsets that it does not have, and reads what it is sent.

RocketMQ 4.9 believes any report (scenario forged-ack): sends that wait for a slave are answered by it.
"""

import contextlib
import math
import struct

import attrs
import trio

from rmqlab.runtime.clock import real_seconds

REPORT = struct.Struct(">q")
REPORT_PERIOD = 5.0
"""Seconds of the cluster's clock between reports, as of a slave."""
CONNECT_SECONDS = 5.0
_CHUNK = 64 * 1024


class NoHaPortError(Exception):
    """Nobody listens for slaves at this address."""


@attrs.frozen(eq=False)
class Stranger:
    """A connection that has reported once."""

    stream: trio.SocketStream
    report: bytes

    @classmethod
    async def connect(cls, host: str, port: int, offset: int) -> "Stranger":
        """Connect and report. NoHaPortError where that fails."""
        try:
            with trio.fail_after(real_seconds(CONNECT_SECONDS)):
                stream = await trio.open_tcp_stream(host, port)
                await stream.send_all(REPORT.pack(offset))
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as exc:
            raise NoHaPortError(f"no connection to the HA port at {host}:{port}: {exc}") from None
        return cls(stream, REPORT.pack(offset))

    async def stay(self, period: float) -> None:
        """Read what comes, and report again after each period of real seconds, until the broker closes."""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self.stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._report_forever, period)
                while await self.stream.receive_some(_CHUNK):
                    pass
                nursery.cancel_scope.cancel()

    async def _report_forever(self, period: float) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while period < math.inf:
                await trio.sleep(real_seconds(period))
                await self.stream.send_all(self.report)
