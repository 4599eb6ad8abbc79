"""Streams between nodes and the supervisor: without delay and faults."""

import collections

import attrs
import trio

from rmqlab.simulation.machine import Machine, Node, ProcessResource


@attrs.define(eq=False, init=False)
class PipeEnd(trio.abc.Stream, ProcessResource):
    """One end of a stream.

    Bytes and the end arrive at the other end at once, also while its node is paused.
    """

    machine: Machine
    node: Node
    other: "PipeEnd"
    is_closed: bool
    _received: collections.deque[bytes]
    _is_ended: bool
    _arrived: trio.Event

    def __init__(self, machine: Machine, node: Node) -> None:
        self.machine, self.node = machine, node
        self._received = collections.deque()
        self._is_ended = self.is_closed = False
        self._arrived = trio.Event()
        node.resources[self] = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send.

        Raises BrokenResourceError if the other end is closed, ClosedResourceError if this one is.
        """
        await trio.lowlevel.checkpoint()
        if self.is_closed:
            raise trio.ClosedResourceError
        if self.other.is_closed:
            raise trio.BrokenResourceError
        self.other.arrive(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the received bytes, or b"" at the end."""
        await trio.lowlevel.checkpoint()
        while not self._received and not self._is_ended:
            if self.is_closed:
                raise trio.ClosedResourceError
            self._arrived = trio.Event()
            await self._arrived.wait()
        if not self._received:
            return b""
        data = self._received.popleft()
        if max_bytes is not None and len(data) > max_bytes:
            self._received.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        return data

    async def aclose(self) -> None:
        self.abandon()
        await trio.lowlevel.checkpoint()

    def abandon(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.node.resources.pop(self, None)
            self.other.end()

    def arrive(self, data: bytes) -> None:
        """Bytes of the other end arrive."""
        self._received.append(data)
        self.machine.call_in(self.node, self._wake)

    def end(self) -> None:
        """The other end is closed."""
        self._is_ended = True
        self.machine.call_in(self.node, self._wake)

    def _wake(self) -> None:
        self._arrived.set()


def pipe(machine: Machine, one: Node, other: Node) -> tuple[PipeEnd, PipeEnd]:
    """Return both ends of a new stream between two nodes."""
    ends = PipeEnd(machine, one), PipeEnd(machine, other)
    ends[0].other, ends[1].other = ends[1], ends[0]
    return ends
