"""An unknown peer at a broker's HA port, which reports offsets that it lacks.

RocketMQ 4.9 believes any report (scenario forged-ack): it releases sends that wait for a slave.
"""

import contextlib
import math
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, Final

import attrs
import trio

from rmqlab.faults.specification import CannotPlayError, SupervisorFault, TargetNode, option
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.reactor import READ, Reactor, open_reactor
from rmqlab.runtime.net.remoting_client import open_connection
from rmqlab.runtime.net.remoting_errors import ConnectError

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
    example: ClassVar = {"target": "broker-a:master", "repeat": True}
    is_brokers_only = True

    offset: int = option(
        "The peer claims to have the log up to here.", unit="bytes", default=2**62, least=0, most=2**63 - 1
    )
    repeat: bool = option("Report again every 5 s, as a slave does.", default=False)

    async def start(self, nodes: Sequence[TargetNode], rate: float) -> Callable[[], Awaitable[str]]:
        """Connect and report to each broker. CannotPlayError if a broker has no HA port."""
        slaves: list[ForgedSlave] = []
        try:
            for node in nodes:
                slaves.append(await ForgedSlave.connect(node.host, node.ha_port or 0, self.offset))  # noqa: PERF401 -- those before a failure are closed
        except BaseException:  # also trio.Cancelled
            for slave in slaves:
                slave.sock.close()
            raise
        return partial(_stay, slaves, REPORT_PERIOD / rate if self.repeat else math.inf)


async def _stay(slaves: "Sequence[ForgedSlave]", period: float) -> str:
    """KeepRunning connected until the last broker has closed."""
    async with open_reactor() as reactor, trio.open_nursery() as nursery:
        for slave in slaves:
            nursery.start_soon(slave.stay, reactor, period)
    return "the broker closed the connection"


@attrs.frozen(eq=False)
class ForgedSlave:
    """A connection to an HA port that has reported once."""

    sock: socket.socket
    report: bytes
    _closed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @classmethod
    async def connect(cls, host: str, port: int, offset: int) -> "ForgedSlave":
        """Connect and report. CannotPlayError if that fails."""
        try:
            address, seconds = f"{host}:{port}", real_seconds(CONNECT_SECONDS)
            sock = await open_connection(address, source_ip=None, connect_timeout=seconds)
        except ConnectError as exc:
            raise CannotPlayError(f"the HA port cannot be reached: {exc}") from None
        slave = cls(sock, REPORT.pack(offset))
        slave.send()
        return slave

    def send(self) -> None:
        """Send the report, which always fits into the socket's buffer."""
        with contextlib.suppress(OSError):  # closed by the broker: `stay` sees it
            self.sock.send(self.report)

    async def stay(self, reactor: Reactor, period: float) -> None:
        """Read what arrives, and repeat the report until the broker closes.

        `period` is in real seconds.
        """
        reactor.register(self.sock, READ, self._read)
        try:
            while not self._closed.is_set():
                with trio.move_on_after(real_seconds(period)):
                    await self._closed.wait()
                self.send()
        finally:
            reactor.unregister(self.sock)
            self.sock.close()

    def _read(self, _events: int) -> None:
        try:
            is_open = bool(self.sock.recv(_CHUNK))
        except BlockingIOError:
            return
        except OSError:
            is_open = False
        if not is_open:
            self._closed.set()
