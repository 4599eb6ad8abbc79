"""The connections of a process, and what rules do to the links that they go over.

A link is told by the address of the peer. Rules apply at once to connections that live: their sockets are
exchanged for shaped ones, and back when nothing is done to them any more. Without rules a connection costs an
entry here when it is made, and nothing afterwards.
"""

import contextlib
import errno
import os
import random
import selectors
import socket
import struct
from collections.abc import Callable
from typing import NoReturn, Protocol

import attrs
import trio

from rmqlab.runtime.fault_rules import LinkRule, NodeRules
from rmqlab.runtime.faultysocket import FaultySocket
from rmqlab.runtime.netem import SYN_MOMENTS, SYN_TIMEOUT, UNIMPAIRED, Impairment
from rmqlab.runtime.timers import Timers

MAX_LIMBO = 1000
"""Connections from outside that the system has made, though their packets vanish. More are reset."""

Transport = socket.socket | FaultySocket
OnAccept = Callable[[socket.socket], None]


class Owner(Protocol):
    """Who has a connection's socket."""

    def replace_transport(self, sock: Transport) -> None:
        """Use this one in the place of the one before. Called between two passes, never within."""


@attrs.frozen
class Ends:
    """How rules know a connection: who the peer is, where it serves if it does, at which port it is served."""

    host: str
    address: str
    port: int


class Links:
    """All connections of one reactor. `follow` takes the rules."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        timers: Timers,
        *,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.rules: tuple[LinkRule, ...] = ()
        self.served_ports: set[int] = set()
        """Ports that this process listens at."""
        self._selector = selector
        self._timers = timers
        self._now = now
        self._owners: dict[socket.socket, Owner] = {}
        self._shaped: dict[socket.socket, tuple[FaultySocket, Ends]] = {}
        self._limbo: list[tuple[socket.socket, OnAccept, Ends]] = []
        self._chance = random.Random()  # noqa: S311 -- jitter

    # ---- connections ----

    def attach(self, owner: Owner, sock: socket.socket) -> Transport:
        """Take note of a connection; answer what its owner is to use instead of its socket."""
        self._owners[sock] = owner
        if self.rules and (ends := self._ends_of(sock)) is not None:
            inbound, outbound = self._shapes(ends)
            if inbound != UNIMPAIRED or outbound != UNIMPAIRED:
                shaped = self._shape(sock, ends)
                shaped.set_impairments(inbound, outbound)
                return shaped
        return sock

    def forget(self, sock: Transport) -> None:
        """A connection is about to be closed. A shaped one says itself when it is gone."""
        self._owners.pop(sock.raw if isinstance(sock, FaultySocket) else sock, None)

    def admit(self, sock: socket.socket, on_accept: OnAccept) -> None:
        """Hand a new connection on, unless its link is refused, or a blackhole: then the system took it for nothing."""
        ends = self._ends_of(sock)
        kinds = set() if ends is None else {rule.kind for rule in self._rules_of(ends) if not rule.is_outbound}
        if ends is None:
            sock.close()
        elif "refuse" in kinds or (self._is_blocked(ends) and len(self._limbo) >= MAX_LIMBO):
            _abort(sock)
        elif self._is_blocked(ends):
            self._limbo.append((sock, on_accept, ends))
        else:
            on_accept(sock)

    async def dial(self, host: str, port: int) -> None:
        """Wait as long as the network takes before a connection is made. OSError where it would not be."""
        ends = Ends(host, f"{host}:{port}", port)
        began = self._now()
        for moment in SYN_MOMENTS:
            await trio.sleep_until(began + moment)
            rules = self._rules_of(ends)
            if any(rule.kind == "refuse" and rule.is_outbound for rule in rules):
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            if not self._is_blocked(ends):
                shape = Impairment.of(rules)
                await trio.sleep(shape.latency + self._chance.uniform(0, shape.jitter))
                return
        await trio.sleep_until(began + SYN_TIMEOUT)
        _time_out()

    # ---- rules ----

    def follow(self, rules: NodeRules) -> None:
        """Play by these rules from now on."""
        self.rules = rules.links
        for sock, owner in [*self._owners.items()]:
            if sock not in self._shaped and (ends := self._ends_of(sock)) is not None:
                self._interpose(sock, owner, ends)
        for shaped, ends in [*self._shaped.values()]:
            self._reshape(shaped, ends)
        limbo, self._limbo = self._limbo, []
        for sock, on_accept, _ in limbo:
            self.admit(sock, on_accept)

    def close(self) -> None:
        """Close what no owner has."""
        for sock, _, _ in self._limbo:
            sock.close()
        self._limbo.clear()
        for shaped, _ in [*self._shaped.values()]:
            if shaped.is_lingering:
                shaped.abandon()

    def _interpose(self, sock: socket.socket, owner: Owner, ends: Ends) -> None:
        if self._shapes(ends) == (UNIMPAIRED, UNIMPAIRED):
            return
        shaped = self._shape(sock, ends)
        key = self._selector.unregister(sock)
        owner.replace_transport(shaped)
        shaped.take_over(key.events, key.data)

    def _shape(self, sock: socket.socket, ends: Ends) -> FaultySocket:
        shaped = FaultySocket(
            sock,
            self._selector,
            self._timers,
            on_straight=self._straighten,
            on_gone=self._drop,
            now=self._now,
        )
        self._shaped[sock] = shaped, ends
        return shaped

    def _drop(self, shaped: FaultySocket) -> None:
        self._shaped.pop(shaped.raw, None)

    def _reshape(self, shaped: FaultySocket, ends: Ends) -> None:
        before = shaped.inbound.shape, shaped.outbound.shape
        inbound, outbound = self._shapes(ends)
        shaped.set_impairments(inbound, outbound)
        if any(new.is_reset and not old.is_reset for new, old in zip((inbound, outbound), before, strict=True)):
            shaped.reset()

    def _straighten(self, shaped: FaultySocket) -> None:
        """Give the owner its socket back."""
        owner = self._owners.get(shaped.raw)
        if owner is None or shaped.raw not in self._shaped:
            return
        del self._shaped[shaped.raw]
        events, callback = shaped.give_back()
        owner.replace_transport(shaped.raw)
        if events:
            self._selector.register(shaped.raw, events, callback)

    def _shapes(self, ends: Ends) -> tuple[Impairment, Impairment]:
        rules = [rule for rule in self._rules_of(ends) if rule.is_shaped]
        return (
            Impairment.of(rule for rule in rules if not rule.is_outbound),
            Impairment.of(rule for rule in rules if rule.is_outbound),
        )

    def _rules_of(self, ends: Ends) -> list[LinkRule]:
        return [rule for rule in self.rules if rule.concerns(ends.host, ends.address, ends.port)]

    def _is_blocked(self, ends: Ends) -> bool:
        """True if no connection can be made: where one direction is a blackhole the answer is lost, if not the question."""
        return any(rule.kind == "blackhole" for rule in self._rules_of(ends))

    def _ends_of(self, sock: socket.socket) -> Ends | None:
        """None for a connection that has ended already."""
        with contextlib.suppress(OSError):
            host, port = sock.getpeername()[:2]
            own_port = sock.getsockname()[1]
            if own_port in self.served_ports:
                return Ends(host, "", own_port)
            return Ends(host, f"{host}:{port}", port)
        return None


def _abort(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _time_out() -> NoReturn:
    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
