"""Whole members on a simulated network, with faults of all kinds.

Time is in ms. Bytes between two members arrive in order, as on a TCP connection. A held link delivers them when it is
released; a reset one loses them.
"""

import contextlib
import functools
import heapq
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from rmqlab.dledger.bodies import LeadershipTransferRequest, Message
from rmqlab.dledger.codes import DLedgerCode, DLedgerError, DLedgerRequestCode
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Role
from rmqlab.dledger.server import CALL_TIMEOUT_MS, Call
from rmqlab.store.files.diskcalls import DiskCalls
from tests.dledger.faultynode import Appended, Caller, Node, whole_body
from tests.dledger.raftinvariants import Invariants

FLUSH_AFTER: Final = 10
OPERATOR: Final = "operator"


@attrs.define(eq=False)
class Link:
    """One direction between two members."""

    delay: int = 5
    is_held: bool = False
    epoch: int = 0
    """Number of resets."""
    last_at: int = 0
    waiting: list[Callable[[], None]] = attrs.field(factory=list)


@attrs.define(eq=False)
class FaultyGroup:
    """All members, what is under way between them, and the invariants."""

    root: Path
    size: int
    chance: random.Random
    loses_power: bool = False
    has_batches: bool = False
    preferred: tuple[str, ...] = ()
    acks_after_sync: bool = False
    call_times: Sequence[int] = (1, 1, 5, 100, 2000)
    """How long a call takes that a member lets a thread make."""
    now: int = 0
    nodes: dict[str, Node] = attrs.field(init=False)
    invariants: Invariants = attrs.field(init=False)
    links: dict[tuple[str, str], Link] = attrs.field(factory=dict)
    _events: list[tuple[int, int, Callable[[], None]]] = attrs.field(factory=list)
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        peers = {f"n{number}": f"host:{number}" for number in range(self.size)}
        self.nodes = {
            peer: Node(
                GroupSettings(
                    group="g",
                    self_id=peer,
                    peers=peers,
                    enable_batch_push=self.has_batches,
                    preferred_leader_ids=self.preferred,
                    ack_after_sync=self.acks_after_sync,
                ),
                self.root / peer,
                self.chance,
            )
            for peer in peers
        }
        self.links = {(one, other): Link() for one in peers for other in peers if one != other}
        self.invariants = Invariants(self.size // 2 + 1, not self.loses_power, self.acks_after_sync)
        for node in self.nodes.values():
            self.start(node)

    # ---- members ----

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.server is not None]

    @property
    def down(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.server is None]

    @property
    def stores(self) -> dict[str, EntryStore]:
        """The logs of the members that run."""
        return {node.start_name: node.running.store for node in self.up}

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.up if node.running.member.role is Role.LEADER]

    def start(self, node: Node) -> None:
        """Start a member; a disk that fails leaves it down."""
        try:
            node.start()
        except OSError:
            return
        self._settle(node)

    def stop(self, node: Node, *, loses_power: bool) -> None:
        """Kill a member; its connections are reset."""
        if loses_power:
            node.lose_power()
        else:
            node.kill()
        for other in self.nodes.values():
            if other is not node:
                self.reset(node.name, other.name)

    def append(self, node: Node, contents: list[bytes]) -> DLedgerCode | None:
        """Append at a member. Return the code of a refusal, DISK_ERROR for a failing disk."""
        server, appended = node.running, Appended()
        code: DLedgerCode | None = None
        try:
            entries = server.append([whole_body(content) for content in contents], appended, self.now)
        except DLedgerError as exc:
            code = exc.code
        except OSError:
            code = DLedgerCode.DISK_ERROR
        else:
            appended.entries.extend(entries)
        self._settle(node)
        return code

    def transfer(self, leader: Node, transferee: str) -> None:
        """Order a leader to hand over."""
        request = LeadershipTransferRequest(
            group="g",
            remote_id=leader.name,
            term=leader.running.member.term,
            transfer_id=leader.name,
            transferee_id=transferee,
        )
        self._handle(leader, DLedgerRequestCode.LEADERSHIP_TRANSFER, request.encode(), Caller(None))

    def expire(self, node: Node) -> None:
        """Delete the oldest data file of a member in a thread, if it has several."""
        store = node.running.store

        def deletion() -> DiskCalls[None]:
            with contextlib.suppress(OSError):  # tried again later
                yield from store.deletion_of_first_file()

        if len(store.data.files) > 1:
            self._make_calls(node, node.starts, deletion())

    def flush(self, node: Node) -> None:
        """Sync a member's files, as its broker does every 10 ms."""
        try:
            node.running.store.flush()
        except OSError:
            return
        self.invariants.observe(self.stores)
        if self.acks_after_sync:
            node.running.note_synced(self.now)
            self._settle(node)

    def _flush_later(self, node: Node) -> None:
        start = node.starts

        def flush() -> None:
            if node.server is not None and node.starts == start:
                node.is_flush_planned = False
                self.flush(node)

        node.is_flush_planned = True
        self._later(self.now + FLUSH_AFTER, flush)

    # ---- time ----

    def run(self, duration: int) -> None:
        """Let time pass."""
        end = self.now + duration
        while self._events and self._events[0][0] <= end:
            at, _, event = heapq.heappop(self._events)
            self.now = max(self.now, at)
            event()
        self.now = end

    def _later(self, at: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, event))

    def _plan(self, node: Node) -> None:
        wake_at = max(self.now + 1, node.running.wake_at)
        if wake_at < node.wake_at:
            node.wake_at = wake_at
            self._later(wake_at, functools.partial(self._wake, node, node.starts, wake_at))

    def _wake(self, node: Node, start: int, wake_at: int) -> None:
        if node.server is None or node.starts != start or node.wake_at != wake_at:
            return
        if node.paused_until > self.now:
            node.wake_at = node.paused_until
            self._later(node.paused_until, functools.partial(self._wake, node, start, node.paused_until))
            return
        node.wake_at = 2**62
        node.running.work(self.now)
        self._settle(node)

    # ---- messages ----

    def hold(self, one: str, other: str) -> None:
        """Deliver nothing between two members until `release`."""
        for pair in ((one, other), (other, one)):
            self.links[pair].is_held = True

    def release_all(self) -> None:
        for link in self.links.values():
            link.is_held = False
            waiting, link.waiting = link.waiting, []
            for deliver in waiting:
                self._transmit(link, deliver)

    def reset(self, one: str, other: str) -> None:
        """Lose the connection of two members, and all that is under way on it."""
        for pair in ((one, other), (other, one)):
            link = self.links[pair]
            link.epoch += 1
            link.waiting.clear()

    def _transmit(self, link: Link, deliver: Callable[[], None]) -> None:
        if link.is_held:
            link.waiting.append(deliver)
            return
        link.last_at = max(link.last_at, self.now + self.chance.randint(1, link.delay))
        self._later(link.last_at, deliver)

    def _settle(self, node: Node) -> None:
        """Send what a member wants to send, and check what it did."""
        server = node.running
        for call in server.take_calls():
            self._call(node, call)
        for caller, response in server.take_responses():
            self._respond(node, caller, response)
        server.take_dropped()
        for appended, outcome in server.take_outcomes():
            if outcome.dledger_code is DLedgerCode.SUCCESS:
                self.invariants.note_acknowledged(appended.entries)
                self.invariants.observe(self.stores)
        for work in server.disk_work:
            for calls in work.take_started():
                self._make_calls(node, node.starts, calls)
        for change in server.take_role_changes():
            self._check_change(node, change)
        if (
            self.acks_after_sync
            and not node.is_flush_planned
            and server.store.synced_end < server.store.data.max_offset
        ):
            self._flush_later(node)
        self._plan(node)

    def _make_calls(self, node: Node, start: int, calls: DiskCalls[None], error: OSError | None = None) -> None:
        """Let a member make slow calls, during which all else goes on."""
        if node.server is None or node.starts != start:
            return
        try:
            call = next(calls) if error is None else calls.throw(error)
        except StopIteration:
            node.running.resume(self.now)
            self._settle(node)
        else:
            self._later(
                self.now + self.chance.choice(self.call_times),
                functools.partial(self._make_call, node, start, calls, call),
            )

    def _make_call(self, node: Node, start: int, calls: DiskCalls[None], call: Callable[[], object]) -> None:
        if node.server is None or node.starts != start:
            return
        try:
            call()
        except OSError as exc:
            self._make_calls(node, start, calls, exc)
        else:
            self._make_calls(node, start, calls)

    def _check_change(self, node: Node, change: RoleChange) -> None:
        if change.role is Role.LEADER:
            self.invariants.elected(node.start_name, change.term, node.running.store)

    def _call(self, node: Node, call: Call) -> None:
        link = self.links[node.name, call.peer]
        caller, start, raw = Caller(node, call, link.epoch), node.starts, call.request.encode()
        self._later(self.now + CALL_TIMEOUT_MS, functools.partial(self._end, caller, start, None))
        self._transmit(link, functools.partial(self._deliver, self.nodes[call.peer], link, caller, start, raw))

    def _deliver(self, node: Node, link: Link, caller: Caller, start: int, raw: bytes) -> None:
        if link.epoch != caller.epoch:
            self._end(caller, start, None)
        elif node.server is not None and node.paused_until > self.now:
            self._later(node.paused_until, functools.partial(self._deliver, node, link, caller, start, raw))
        elif node.server is not None and caller.call is not None:
            self._handle(node, caller.call.code, raw, caller)

    def _handle(self, node: Node, code: DLedgerRequestCode, raw: bytes, caller: Caller) -> None:
        with contextlib.suppress(OSError):  # the caller gets code 1, without a body
            node.running.handle(code, raw, caller, self.now)
        self._settle(node)

    def _respond(self, node: Node, caller: Caller, response: Message) -> None:
        if caller.sender is None:
            return
        link = self.links[node.name, caller.sender.name]
        raw, start = response.encode(), caller.sender.starts
        if link.epoch == caller.epoch:
            self._transmit(link, functools.partial(self._return, link, caller, start, raw))

    def _return(self, link: Link, caller: Caller, start: int, raw: bytes) -> None:
        self._end(caller, start, raw if link.epoch == caller.epoch else None)

    def _end(self, caller: Caller, start: int, raw: bytes | None) -> None:
        """Pass a response to its caller, once; None after a reset or a timeout."""
        node, call = caller.sender, caller.call
        if node is None or call is None or caller.is_ended or node.server is None or node.starts != start:
            return
        if node.paused_until > self.now:
            self._later(node.paused_until, functools.partial(self._end, caller, start, raw))
            return
        caller.is_ended.append(True)
        with contextlib.suppress(OSError):  # counted at the boundary
            node.running.receive(call, raw, self.now)
        self._settle(node)
