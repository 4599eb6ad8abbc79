"""Two connected sockets: of the kernel, and of a simulated network.

Tests do the same with both.
"""

import errno
import select
import socket
import struct
from collections.abc import Sequence

import attrs

from rmqlab.simulation.guest import Guest, VirtualClock
from rmqlab.simulation.machine import EPOCH, Machine, Node
from rmqlab.simulation.network import Fabric
from tests.simulation.machines import pass_time

ABORTS = struct.pack("ii", 1, 0)
PATIENCE_MS = 5000
"""How long the kernel may take until a packet has arrived."""
OVER = select.POLLHUP | select.POLLERR

Outcome = bytes | int | str
"""Received bytes, the number of bytes sent, or the name of an errno."""


@attrs.define(eq=False)
class Ends:
    """Both ends of a connection. Each call returns what happened."""

    sockets: Sequence[socket.socket]

    def send(self, end: int, data: bytes) -> Outcome:
        """Send all, and return the number of bytes."""
        try:
            sent = 0
            while sent < len(data):
                sent += self.sockets[end].send(data[sent:])
        except OSError as exc:
            return errno.errorcode[exc.errno or 0]
        return sent

    def receive(self, end: int, size: int) -> Outcome:
        """Receive so many bytes, or less if no more are there."""
        data = b""
        while len(data) < size:
            try:
                more = self.sockets[end].recv(size - len(data))
            except OSError as exc:
                return data or errno.errorcode[exc.errno or 0]
            if not more:
                break
            data += more
        return data

    def close(self, end: int) -> Outcome:
        self.sockets[end].close()
        return 0

    def abort(self, end: int) -> Outcome:
        """Close with a reset."""
        try:
            self.sockets[end].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORTS)
        except OSError as exc:
            return errno.errorcode[exc.errno or 0]
        return self.close(end)

    def has_peer(self, end: int) -> Outcome:
        """Ask for the peer's address."""
        try:
            self.sockets[end].getpeername()
        except OSError as exc:
            return errno.errorcode[exc.errno or 0]
        return 0

    def settle(self, end: int, expected: Outcome) -> None:
        """Wait until all packets have arrived that the next call at this end depends on."""
        raise NotImplementedError


class KernelEnds(Ends):
    """TCP over the loopback interface."""

    @classmethod
    def connected(cls, host: str) -> "KernelEnds":
        with socket.create_server((host, 0)) as listening:
            near = socket.create_connection(listening.getsockname())
            far = listening.accept()[0]
        for sock in near, far:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls([near, far])

    def settle(self, end: int, expected: Outcome) -> None:
        sock = self.sockets[end]
        if sock.fileno() < 0 or expected == "EAGAIN":
            return
        poll = select.poll()
        poll.register(sock, OVER if expected in {"EPIPE", "ECONNRESET", "ENOTCONN"} else select.POLLIN | OVER)
        if not isinstance(expected, int):
            poll.poll(PATIENCE_MS)


class SimulatedEnds(Ends):
    """A connection on a machine of two nodes, which run no code."""

    def __init__(self, machine: Machine, fabric: Fabric) -> None:
        self.machine, self.fabric = machine, fabric
        self.nodes = [idle_node(machine, name) for name in ("near", "far")]
        listening = fabric.listen(self.nodes[1], ("127.0.0.2", 0), 10)
        near = fabric.connect(self.nodes[0], "127.0.0.1", listening.own)
        super().__init__([near, listening.accept()[0]])
        listening.close()

    @classmethod
    def connected(cls, seed: str) -> "SimulatedEnds":
        machine = Machine(seed)
        return cls(machine, Fabric(machine))

    def settle(self, end: int, expected: Outcome) -> None:  # noqa: ARG002 -- virtual time has no end
        pass_time(self.machine)


def idle_node(machine: Machine, name: str) -> Node:
    """Return a node that runs no code."""
    return Node(Guest(name, VirtualClock(lambda: machine.now, EPOCH)), lambda: None)
