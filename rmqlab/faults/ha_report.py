"""An unknown peer at a broker's HA port, which reports offsets that it lacks.

RocketMQ 4.9 believes any report (scenario forged-ack): it releases sends that wait for a slave.
"""

import contextlib
import math
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, Final

import attrs
import trio

from rmqlab.faults.specification import CannotPlayError, SupervisorFault, TargetNode, option
from rmqlab.runtime.clock import real_seconds

REPORT = struct.Struct(">q")
REPORT_PERIOD: Final = 5.0
"""Seconds of the cluster's clock between reports, as of a slave."""
CONNECT_SECONDS: Final = 5.0
_CHUNK: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class ForgedHaReport(SupervisorFault):
    """An unknown peer at the HA port claims to have all of the log; 4.9 believes it.

    It stays connected, silent, until it is healed or the broker drops it after 20 s without a report. With `--repeat`
    it reports again every 5 s, as a slave does.
    """

    family = "ha-report"
    example: ClassVar = {"target": "broker-a:master", "is_repeated": True}
    is_brokers_only = True

    offset: int = option(
        "The peer claims to have the log up to here.", unit="bytes", default=2**62, least=0, most=2**63 - 1
    )
    is_repeated: bool = option("Report again every 5 s, as a slave does.", default=False, flag="--repeat")

    async def start(self, nodes: Sequence[TargetNode], rate: float) -> Callable[[], Awaitable[str]]:
        """Connect and report to each broker. CannotPlayError if a broker has no HA port."""
        slaves: list[ForgedSlave] = []
        try:
            for node in nodes:
                slaves.append(await ForgedSlave.connect(node.host, node.ha_port or 0, self.offset))  # noqa: PERF401 -- those before a failure are closed
        except CannotPlayError:
            for slave in slaves:
                await slave.stream.aclose()
            raise
        return partial(_stay, slaves, REPORT_PERIOD / rate if self.is_repeated else math.inf)


async def _stay(slaves: "Sequence[ForgedSlave]", period: float) -> str:
    """Stay connected until the last broker has closed."""
    async with trio.open_nursery() as nursery:
        for slave in slaves:
            nursery.start_soon(slave.stay, period)
    return "the broker closed the connection"


@attrs.frozen(eq=False)
class ForgedSlave:
    """A connection to an HA port that has reported once."""

    stream: trio.SocketStream
    report: bytes

    @classmethod
    async def connect(cls, host: str, port: int, offset: int) -> "ForgedSlave":
        """Connect and report. CannotPlayError if that fails."""
        try:
            with trio.fail_after(real_seconds(CONNECT_SECONDS)):
                stream = await trio.open_tcp_stream(host, port)
                await stream.send_all(REPORT.pack(offset))
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as exc:
            raise CannotPlayError(f"no connection to the HA port at {host}:{port}: {exc}") from None
        return cls(stream, REPORT.pack(offset))

    async def stay(self, period: float) -> None:
        """Read what arrives, and repeat the report until the broker closes.

        `period` is in real seconds.
        """
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
