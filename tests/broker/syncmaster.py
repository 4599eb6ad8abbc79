"""A master with slaves under a test's control.

It replicates over sockets, and gets requests without one.
"""

import struct
from collections.abc import Callable

import attrs
import trio

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command


@attrs.define
class Slave:
    """A slave under the test's control."""

    stream: trio.SocketStream

    async def report(self, offset: int) -> None:
        await self.stream.send_all(struct.pack(">q", offset))

    async def is_at_end(self) -> bool:
        """Read to the end of the stream."""
        try:
            while await self.stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        return True


@attrs.define
class Master:
    """A sync master that replicates over real sockets, and is talked to without."""

    talk: TalkingBroker
    ha: HaMaster
    recorder: Recorder
    address: tuple[str, int]
    slaves: list[trio.SocketStream] = attrs.field(factory=list)

    @property
    def end(self) -> int:
        return self.talk.broker.store.max_commit_log_offset

    async def slave(self, first_report: int | None = None, source: str | None = None) -> Slave:
        """Connect one from an address; with a first report, wait until it was taken."""
        known = self.recorder.kinds.count("ha_connected")
        slave = Slave(await trio.open_tcp_stream(*self.address, local_address=source))
        self.slaves.append(slave.stream)
        await self.recorder.wait_until(lambda: self.recorder.kinds.count("ha_connected") > known)
        if first_report is not None:
            await self.report(slave, first_report)
        return slave

    async def report(self, slave: Slave, offset: int) -> None:
        """Let a slave report, and wait until the master knows."""
        host, port = slave.stream.socket.getsockname()
        await slave.report(offset)
        await self.recorder.wait_until(lambda: self._ack_of(f"{host}:{port}") == offset)

    def _ack_of(self, peer: str) -> int:
        acks = {one["address"]: one["slave_ack_offset"] for one in self.ha.snapshot()["connections"]}
        return int(acks.get(peer, -1))

    def send(self) -> list[Command]:
        """Send a message; its replies so far."""
        replies = self.talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))
        self.ha.push()
        return replies

    def late(self) -> list[Command]:
        """Let the slave's time be over, and give all replies there are."""
        self.talk.clock.advance(3)
        self.talk.broker.slave_waits.expire(self.talk.clock.now(), self.ha)
        return self.talk.peer.replies


StartMaster = Callable[..., Master]
"""Starts a master: a name, and settings."""
