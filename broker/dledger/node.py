"""One member of a DLedger group on the network: its port, calls and clock.

Section 2.1, class DLedgerRpcNettyService. The member itself is `rmqlab.dledger.server.Server`, which has no network and
no clock. All its outputs of one pass of the event loop are collected at the end of the pass.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

import attrs
import trio

from rmqlab.broker.dledger.entrylog import EntryLog, GroupServer
from rmqlab.broker.dledger.putter import decide
from rmqlab.broker.failure_log import FailureLog
from rmqlab.broker.tasks import TaskStarter
from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.diskwork import DiskWork
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.pending import MOST_PENDING_BYTES
from rmqlab.dledger.server import CALL_TIMEOUT_MS, Call
from rmqlab.remoting.command import Command, request
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Reply, Request, Route
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.runtime.net.worker import calls_in_thread
from rmqlab.store.files.diskcalls import DiskCalls

logger = logging.getLogger(__name__)

OK: Final = 200
"""Header code of every response (dledger#12)."""
MOST_CALLS: Final = 4096
"""Calls to one member that may wait for their response or for a connection."""
MOST_CALL_BYTES: Final = 2 * MOST_PENDING_BYTES
"""Bytes of entries in these calls from which on a call with entries fails at once.

A member counts what it pushes in one comparison of logs (`rmqlab.dledger.pending`); a peer can demand others.
"""

SHORTEST_NAP: Final = 0.001
"""Seconds between two turns of a member."""


@attrs.define(eq=False)
class _Sent:
    call: Call
    deadline: int
    size: int
    """Bytes of the call's entries."""
    channel: Channel | None = None
    opaque: int = 0
    is_ended: bool = False


@attrs.define(eq=False)
class _Peer:
    """The calls to one other member."""

    id: str
    address: str
    sent: dict[_Sent, None] = attrs.field(factory=dict)
    """Calls without response, in the order of their deadlines. Those without a channel wait for a connection."""
    size: int = 0
    """Bytes of the entries in these calls."""
    is_connecting: bool = False

    def add(self, sent: _Sent) -> bool:
        """Add a call that waits for its response. Return False if there is no room."""
        if len(self.sent) >= MOST_CALLS or (sent.size and self.size >= MOST_CALL_BYTES):
            return False
        self.sent[sent] = None
        self.size += sent.size
        return True

    def remove(self, sent: _Sent) -> None:
        """Forget a call, if it waits."""
        if sent in self.sent:
            del self.sent[sent]
            self.size -= sent.size

    @property
    def first(self) -> _Sent | None:
        """The call whose deadline is next."""
        return next(iter(self.sent), None)


@attrs.define(eq=False)
class GroupNode:
    """Drives a member: passes requests to it, and sends its requests."""

    log: EntryLog
    client: RemotingClient
    reactor: Reactor
    tasks: TaskStarter
    on_roles: Callable[[Iterable[RoleChange]], None]
    """Receives changes of role, in their order."""
    on_log: Callable[[], None]
    """Called after inputs, when the log may have grown, been cut, or been committed."""
    _peers: dict[str, _Peer] = attrs.field(factory=dict, init=False)
    _is_deferred: bool = attrs.field(default=False, init=False)
    _failures: FailureLog = attrs.field(factory=lambda: FailureLog(logger), init=False)
    """About the list of peers of each member, and about disk work, by name."""
    _sleeping: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.server.member.settings
        self._peers = {peer: _Peer(peer, settings.peers[peer]) for peer in settings.others}
        self.log.on_append.append(self.settle_soon)

    @property
    def server(self) -> GroupServer:
        return self.log.server

    # ---- requests of other members, of operators and of DLedger's clients ----

    def routes(self) -> dict[int, Route["GroupNode"]]:
        """Return the handlers of the group's port."""
        codes = (
            DLedgerRequestCode.VOTE,
            DLedgerRequestCode.HEART_BEAT,
            DLedgerRequestCode.PUSH,
            DLedgerRequestCode.LEADERSHIP_TRANSFER,
            DLedgerRequestCode.METADATA,
            DLedgerRequestCode.GET,
            DLedgerRequestCode.APPEND,
        )
        return {code: Route(code, None, _handle) for code in codes}

    def handle(self, command: Command, parked: Request) -> None:
        """Pass a request to the member. BodyError if its body does not fit."""
        self.server.handle(command.code, command.body, parked, self.log.now())
        parked.drop_content()  # the response may come later, and the connection may close before
        self.settle_soon()

    def note_synced(self) -> None:
        """Acknowledge entries that a flush has synced."""
        self.server.note_synced(self.log.now())
        self.settle_soon()

    # ---- time ----

    async def work_forever(self) -> NoReturn:
        """Run the member's due timers."""
        while True:
            deadline = max(self._wake_at(), trio.current_time() + SHORTEST_NAP)
            with trio.CancelScope(deadline=deadline) as self._sleeping:
                await trio.sleep_forever()
            now = self.log.now()
            self._expire_calls(now)
            self.server.work(now)
            self._settle()

    def _wake_at(self) -> float:
        firsts = [first for peer in self._peers.values() if (first := peer.first) is not None]
        return min([self.server.wake_at, *(first.deadline for first in firsts)]) / 1000

    def settle_soon(self) -> None:
        """Send the outputs of the member at the end of this pass."""
        if not self._is_deferred:
            self._is_deferred = True
            self.reactor.defer(self._settle)

    def _settle(self) -> None:
        self._is_deferred = False
        server = self.server
        for call in server.take_calls():
            self._send(call)
        for parked, response in server.take_responses():
            parked.reply(Reply(OK, body=response.encode()))
        for parked in server.take_dropped():
            parked.settle()
        for work in server.disk_work:
            for calls in work.take_started():
                self.tasks.start_soon(self._make_calls, work, calls)
        self.on_log()
        for decision, outcome in server.take_outcomes():
            decide(decision, outcome)
        if changes := server.take_role_changes():
            self.on_roles(changes)
        self._sleeping.deadline = min(self._sleeping.deadline, self._wake_at())

    async def _make_calls(self, work: DiskWork, calls: DiskCalls[None]) -> None:
        """Make slow calls on the member's files in a thread. Log once that they fail.

        An error that is no OSError is raised, too: it is an internal error.
        """
        try:
            await calls_in_thread(calls)
        except Exception as exc:
            work.fail(exc)
            self._note_end(work)
            raise
        self._note_end(work)

    def _note_end(self, work: DiskWork) -> None:
        if work.error:
            self._failures.add(work.name, f"cannot write {work.name} to disk: {work.error}; retrying")
        else:
            self._failures.recovered(work.name)
        self.server.resume(self.log.now())
        self.settle_soon()

    # ---- calls to other members ----

    def _send(self, call: Call) -> None:
        peer = self._peers[call.peer]
        sent = _Sent(call, self.log.now() + CALL_TIMEOUT_MS, call.size)
        if not peer.add(sent):
            self._end(sent, None)
            return
        channel = self.client.connected(peer.address)
        if channel is not None:
            self._send_on(channel, sent)
        elif not peer.is_connecting:
            peer.is_connecting = True
            self.tasks.start_soon(self._connect, peer)

    async def _connect(self, peer: _Peer) -> None:
        """Open the connection, and send the requests that wait for it."""
        try:
            channel = await self.client.channel(peer.address)
        except RemotingError:
            channel = None
        finally:
            peer.is_connecting = False
        for sent in [sent for sent in peer.sent if sent.channel is None]:
            if channel is not None:
                self._send_on(channel, sent)
            else:
                self._end(sent, None)

    def _send_on(self, channel: Channel, sent: _Sent) -> None:
        command = request(sent.call.code, body=sent.call.request.encode())
        sent.channel = channel
        sent.opaque = channel.send_request(command, lambda response: self._end(sent, response))

    def _end(self, sent: _Sent, response: Command | None) -> None:
        """Report a response, or None for a lost connection or a timeout, once."""
        if sent.is_ended:
            return
        sent.is_ended = True
        peer = self._peers[sent.call.peer]
        peer.remove(sent)
        if response is None and sent.channel is not None:
            sent.channel.forget(sent.opaque)
        self.server.receive(sent.call, None if response is None else response.body, self.log.now())
        if sent.call.code is DLedgerRequestCode.METADATA:
            self._log_peer_fault(peer.id)
        self.settle_soon()

    def _log_peer_fault(self, peer: str) -> None:
        """Log once that a peer has a different list of peers."""
        if fault := self.server.peer_lists.faults.get(peer):
            self._failures.add(peer, fault)
        else:
            self._failures.recovered(peer)

    def _expire_calls(self, now: int) -> None:
        for peer in self._peers.values():
            while (first := peer.first) is not None and first.deadline <= now:
                self._end(first, None)


def _handle(node: GroupNode, _header: None, parked: Request) -> None:
    node.handle(parked.command, parked)
