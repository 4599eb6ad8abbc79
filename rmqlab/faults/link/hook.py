"""The link faults in force at the connections of one event loop.

A link is known by the address of the peer. Rules apply at once to live connections: a `FaultySocket` replaces their
socket, which returns once no direction is impaired and no bytes are in flight. Without rules a connection costs an
entry here when it is made, and is free afterwards.
"""

import contextlib
import errno
import os
import random
import selectors
import socket
import struct
from collections.abc import Callable, Sequence
from typing import NoReturn

import attrs
import trio

from rmqlab.faults.link.fault import Connects, Transform, impairment_of
from rmqlab.faults.link.faultysocket import FaultySocket
from rmqlab.faults.link.netem import SYN_MOMENTS, SYN_TIMEOUT, UNIMPAIRED, Impairment
from rmqlab.faults.rules import LinkRule, NodeRules
from rmqlab.runtime.net.fault_hooks import OnAccept, Transport, TransportOwner
from rmqlab.runtime.net.timers import Timers

MAX_LIMBO = 1000
"""Connections that the system accepted although their packets should vanish. More are reset."""


@attrs.frozen
class Ends:
    """Identifies a connection for rules by the peer's IP address and serving ends.

    `address` is where the peer serves, if it does; `port` is the served port.
    """

    host: str
    address: str
    port: int


class LinkFaults:
    """All connections of one event loop and their link faults (a `LinkHook`)."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        timers: Timers,
        *,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._rules: tuple[LinkRule, ...] = ()
        self._transforms: dict[tuple[str, bool], Transform] = {}  # by fault and direction
        self.served_ports: set[int] = set()
        """Ports that this process listens at."""
        self._selector = selector
        self._timers = timers
        self._now = now
        self._owners: dict[socket.socket, TransportOwner] = {}
        self._impaired: dict[socket.socket, tuple[FaultySocket, Ends]] = {}
        self._limbo: list[tuple[socket.socket, OnAccept, Ends]] = []
        self._chance = random.Random(random.getrandbits(64))  # noqa: S311 -- jitter; a seeded process repeats it

    @property
    def is_active(self) -> bool:
        """True while there are rules: only then `admit` and `dial` need to be asked."""
        return bool(self._rules)

    # ---- connections ----

    def attach(self, owner: TransportOwner, sock: socket.socket) -> Transport:
        """Register a connection. Return what its owner should use instead of the socket."""
        self._owners[sock] = owner
        if self._rules and (ends := self._ends_of(sock)) is not None:
            inbound, outbound = self._impairments(ends)
            if inbound != UNIMPAIRED or outbound != UNIMPAIRED:
                faulty = self._replace(sock, ends)
                faulty.set_impairments(inbound, outbound)
                return faulty
        return sock

    def forget(self, sock: Transport) -> None:
        """A connection is about to be closed.

        A `FaultySocket` reports itself when it is gone.
        """
        raw = sock.raw if isinstance(sock, FaultySocket) else sock
        if isinstance(raw, socket.socket):
            self._owners.pop(raw, None)

    def admit(self, sock: socket.socket, on_accept: OnAccept) -> None:
        """Pass an accepted connection on.

        Abort it if its link is refused; keep it back while its link is a blackhole, or this node accepts none.
        """
        ends = self._ends_of(sock)
        if ends is None:
            sock.close()
        elif self._is_refused(ends, is_outbound=False) or (self._is_kept(ends) and len(self._limbo) >= MAX_LIMBO):
            _abort(sock)
        elif self._is_kept(ends):
            self._limbo.append((sock, on_accept, ends))
        else:
            on_accept(sock)

    async def dial(self, host: str, port: int) -> None:
        """Wait as long as the network takes before a connect.

        OSError if the connect should fail.
        """
        ends = Ends(host, f"{host}:{port}", port)
        began = self._now()
        for moment in SYN_MOMENTS:
            await trio.sleep_until(began + moment)
            if self._is_refused(ends, is_outbound=True):
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            impairment = impairment_of(rule.fault for rule in self._rules_of(ends))
            is_lost = impairment.loss and self._chance.random() < impairment.loss
            if not is_lost and not self._is_hanging(ends):
                await trio.sleep(impairment.latency + self._chance.uniform(0, impairment.jitter))
                return
        await trio.sleep_until(began + SYN_TIMEOUT)
        _time_out()

    # ---- rules ----

    def follow(self, rules: NodeRules) -> None:
        """Put these rules in force instead of those before.

        A fault that remains in force keeps the state of its transform.
        """
        self._rules = rules.links
        self._transforms = {(rule.id, rule.is_outbound): fn for rule in rules.links if (fn := self._transform_of(rule))}
        for sock, owner in [*self._owners.items()]:
            if sock not in self._impaired and (ends := self._ends_of(sock)) is not None:
                self._interpose(sock, owner, ends)
        for faulty, ends in [*self._impaired.values()]:
            self._change(faulty, ends)
        limbo, self._limbo = self._limbo, []
        for sock, on_accept, _ in limbo:
            self.admit(sock, on_accept)

    def close(self) -> None:
        """Close sockets without an owner."""
        for sock, _, _ in self._limbo:
            sock.close()
        self._limbo.clear()
        for faulty, _ in [*self._impaired.values()]:
            if faulty.is_lingering:
                faulty.abandon()

    def _transform_of(self, rule: LinkRule) -> Transform | None:
        if not rule.is_enforced_here:
            return None
        way = "sent" if rule.is_outbound else "received"
        return self._transforms.get((rule.id, rule.is_outbound)) or rule.fault.open_transform(f"{rule.node} {way}")

    def _interpose(self, sock: socket.socket, owner: TransportOwner, ends: Ends) -> None:
        if self._impairments(ends) == (UNIMPAIRED, UNIMPAIRED):
            return
        faulty = self._replace(sock, ends)
        key = self._selector.unregister(sock)
        owner.replace_transport(faulty)
        faulty.take_over(key.events, key.data)

    def _replace(self, sock: socket.socket, ends: Ends) -> FaultySocket:
        faulty = FaultySocket(
            sock,
            self._selector,
            self._timers,
            on_transparent=self._restore,
            on_gone=self._drop,
            now=self._now,
        )
        self._impaired[sock] = faulty, ends
        return faulty

    def _drop(self, faulty: FaultySocket) -> None:
        self._impaired.pop(faulty.raw, None)

    def _change(self, faulty: FaultySocket, ends: Ends) -> None:
        before = faulty.inbound.impairment, faulty.outbound.impairment
        inbound, outbound = self._impairments(ends)
        faulty.set_impairments(inbound, outbound)
        if any(new.is_reset and not old.is_reset for new, old in zip((inbound, outbound), before, strict=True)):
            faulty.reset()

    def _restore(self, faulty: FaultySocket) -> None:
        """Return the real socket to its owner."""
        owner = self._owners.get(faulty.raw)
        if owner is None or faulty.raw not in self._impaired:
            return
        del self._impaired[faulty.raw]
        events, callback = faulty.give_back()
        owner.replace_transport(faulty.raw)
        if callback is not None:
            self._selector.register(faulty.raw, selectors.EVENT_READ, callback)
            self._selector.modify(faulty.raw, events, callback)  # which may be none, that `register` rejects

    def _impairments(self, ends: Ends) -> tuple[Impairment, Impairment]:
        """Return the effect on received and on sent bytes."""
        rules = [rule for rule in self._rules_of(ends) if rule.is_enforced_here]
        return (
            self._together([rule for rule in rules if not rule.is_outbound]),
            self._together([rule for rule in rules if rule.is_outbound]),
        )

    def _together(self, rules: Sequence[LinkRule]) -> Impairment:
        """Return the effect of all rules of one direction, with their transforms."""
        impairment = impairment_of(rule.fault for rule in rules)
        keys = dict.fromkeys((rule.id, rule.is_outbound) for rule in rules)
        own = tuple(self._transforms[key] for key in keys if key in self._transforms)
        return attrs.evolve(impairment, transforms=(*impairment.transforms, *own)) if own else impairment

    def _rules_of(self, ends: Ends) -> list[LinkRule]:
        return [rule for rule in self._rules if rule.concerns(ends.host, ends.address, ends.port)]

    def _is_refused(self, ends: Ends, *, is_outbound: bool) -> bool:
        """True if a connect in this direction fails at once."""
        rules = self._rules_of(ends)
        return any(rule.fault.connects is Connects.REFUSED and rule.is_outbound is is_outbound for rule in rules)

    def _is_kept(self, ends: Ends) -> bool:
        """True if this node does not accept a connection that the system has made."""
        not_accepted = Connects.HANGING, Connects.WAITING
        return self._is_lost(ends) or any(
            rule.fault.connects in not_accepted and not rule.is_outbound for rule in self._rules_of(ends)
        )

    def _is_hanging(self, ends: Ends) -> bool:
        """True if a connect of this node gets no reply.

        At a single address the peer cannot keep a connection back, so a connect hangs instead of waiting there.
        """
        rules = [rule for rule in self._rules_of(ends) if rule.is_outbound]
        return self._is_lost(ends) or any(
            rule.fault.connects is Connects.HANGING
            or (rule.fault.connects is Connects.WAITING and rule.is_enforced_here)
            for rule in rules
        )

    def _is_lost(self, ends: Ends) -> bool:
        """True if a blackhole either way loses the SYN or its reply."""
        return any(rule.fault.connects is Connects.LOST for rule in self._rules_of(ends))

    def _ends_of(self, sock: socket.socket) -> Ends | None:
        """Return None for a connection that has ended already."""
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
