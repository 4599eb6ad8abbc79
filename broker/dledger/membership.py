"""A broker's membership in a DLedger group: its node, its roles, its log."""

import logging
from typing import NoReturn

import attrs

from rmqlab.broker.dledger.entrylog import EntryLog
from rmqlab.broker.dledger.node import GroupNode
from rmqlab.broker.dledger.roles import RoleChanges, follow_roles
from rmqlab.broker.failure_log import FailureLog
from rmqlab.broker.state import Broker
from rmqlab.broker.tasks import TaskStarter
from rmqlab.broker.waits.append_followup import AppendFollowUp
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.worker import each_in_thread
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.heldentries import FAILURES
from rmqlab.store.truncate import forget_all, forget_from

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class GroupMember:
    """The parts of a broker that only a member of a group has."""

    node: GroupNode
    roles: RoleChanges

    async def follow_roles(self, broker: Broker) -> NoReturn:
        """Change the broker's role after each change of the member's."""
        await follow_roles(broker, self.node.log, self.roles)


@attrs.define(eq=False)
class LogFollower:
    """Dispatches committed entries, and drops queue entries of truncated ones."""

    store: MessageStore
    log: EntryLog
    growth: AppendFollowUp
    tasks: TaskStarter
    _committed: int = -1
    _written: int = -1
    _is_incomplete: bool = False
    """True after an error, which may have left entries behind the cut in some queues."""
    _failures: FailureLog = attrs.field(factory=lambda: FailureLog(logger), init=False)

    def follow(self) -> None:
        """React to changes of the log since the last call."""
        if (cut_to := self.log.entries.cut_to) is not None:
            self._follow_cut(cut_to)
        if self.log.max_offset != self._committed:
            self._committed = self.log.max_offset
            self.growth.received()
        if self.log.written_end != self._written:
            self._written = self.log.written_end
            self.growth.flush_due.set()

    def _follow_cut(self, cut_to: int) -> None:
        """Drop what is of the log behind a cut.

        If a file cannot be opened, the next call tries again.
        """
        self.store.flusher.cut(cut_to)  # a sync under way is of the log before the cut
        try:
            self._drop_from(cut_to)
        except FAILURES as exc:
            self._is_incomplete = True
            self._failures.add("queues", f"cannot cut the queues to the log's end: {exc}; retrying")
        else:
            self._is_incomplete = False
            self._failures.recovered("queues")
            self.log.entries.cut_to = None

    def _drop_from(self, cut_to: int) -> None:
        """Drop queue and index entries of replaced log entries.

        Usually no quorum had them, so they are in no queue. DLedger commits entries of earlier terms by counting
        copies, so a committed entry can be replaced, too. A real member then keeps its queue entries (section 6.2),
        ours drops them. If the log is emptied and begins again, all queue entries are invalid; a real member continues
        its queues where they ended, with wrong offsets from then on (dledger#60).
        """
        if cut_to <= self.log.entries.begin_position and not self.log.is_mixed:
            discards = [file.discard for file in forget_all(self.store)]
            self.tasks.start_soon(each_in_thread, discards)
        elif self._is_incomplete or cut_to < self.store.dispatched_offset:
            forget_from(self.store, cut_to)


def join_group(
    store: MessageStore,
    log: EntryLog,
    growth: AppendFollowUp,
    client: RemotingClient,
    reactor: Reactor,
    tasks: TaskStarter,
) -> GroupMember:
    """Make the node of a member whose log is open."""
    roles = RoleChanges()
    follower = LogFollower(store, log, growth, tasks)
    return GroupMember(GroupNode(log, client, reactor, tasks, roles.add, follower.follow), roles)
