"""The network of an event loop: its sockets, and how it waits for them.

Processes use the kernel's network (`KernelNetwork`). A simulation sets another one for each of its nodes; its sockets
are instances of `socket.socket` without a descriptor.
"""

import contextlib
import selectors
import socket
from collections.abc import Callable
from typing import Protocol

import trio

from rmqlab.runtime.net.turns import Turns, observed_turns


class Network(Protocol):
    """The network of one node."""

    def open_selector(self) -> selectors.BaseSelector:
        """Return a selector for the sockets of this network."""

    async def wait_ready(self, selector: selectors.BaseSelector, /) -> None:
        """Wait until the selector has a ready socket, or a little less."""

    def observed_turns(self) -> contextlib.AbstractContextManager[Turns | None]:
        """Observe this trio run until the block ends.

        None if the event loop must not wait in its selector, outside of trio.
        """

    def call_soon(self, fn: Callable[[], None], /) -> None:
        """Call `fn` in the trio thread, after the tasks that are ready now."""

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """Return a listening socket. OSError if the address is taken or not local."""

    async def connect(self, host: str, port: int, source_ip: str | None) -> socket.socket:
        """Return a connected socket. OSError, ValueError or OverflowError if that fails.

        `source_ip` is the local address to bind.
        """


class KernelNetwork:
    """The network of this machine."""

    def open_selector(self) -> selectors.BaseSelector:
        return selectors.DefaultSelector()

    async def wait_ready(self, selector: selectors.BaseSelector) -> None:
        await trio.lowlevel.wait_readable(selector.fileno())  # type: ignore[attr-defined]  # of those with a descriptor

    def observed_turns(self) -> contextlib.AbstractContextManager[Turns]:
        return observed_turns()

    def call_soon(self, fn: Callable[[], None]) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(fn)

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(backlog)
        except OSError:
            sock.close()
            raise
        return sock

    async def connect(self, host: str, port: int, source_ip: str | None) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with trio.socket.socket(family, socket.SOCK_STREAM) as sock:
            if source_ip:
                await sock.bind((source_ip, 0))
            await sock.connect((host, port))
            return socket.socket(fileno=sock.detach())


_KERNEL: Network = KernelNetwork()
_NETWORK = trio.lowlevel.RunVar[Network]("network of this process", default=_KERNEL)


def set_network(network: Network) -> None:
    """Use this network in this trio run, instead of the kernel's."""
    _NETWORK.set(network)


def network() -> Network:
    """Return the network of this trio run; the kernel's outside of one."""
    return _NETWORK.get() if trio.lowlevel.in_trio_run() else _KERNEL
