"""Makes a broker follow its member's role: master while it leads, else slave.

Section 8.2, class DLedgerRoleChangeHandler.
"""

from collections.abc import Iterable
from typing import Final, NoReturn

import attrs
import trio

from rmqlab.broker.dledger.entrylog import EntryLog
from rmqlab.broker.state import Broker
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.member import Role
from rmqlab.remoting.names import MASTER_ID

STEP: Final = 0.1
"""Seconds between two checks whether a new leader has committed and dispatched its log."""
LEADERS_ROLE: Final = "SYNC_MASTER"


@attrs.define(eq=False)
class RoleChanges:
    """Changes that a broker has not made yet.

    The newest one replaces those before.
    """

    is_known: trio.Event = attrs.field(factory=trio.Event)
    """Set when the member has its first role: the broker registers then (dledger#52)."""
    failed: RoleChange | None = attrs.field(default=None, init=False)
    """The change that is tried again."""
    _due: RoleChange | None = attrs.field(default=None, init=False)
    _is_due: trio.Event = attrs.field(factory=trio.Event, init=False)

    def add(self, changes: Iterable[RoleChange]) -> None:
        """Note changes of the member's role, in their order."""
        for change in changes:
            self._due = change
            self._is_due.set()

    def retry(self, change: RoleChange) -> None:
        """Note a change that could not be made, unless a newer one is due."""
        self.failed = change
        if self._due is None:
            self.add([change])

    async def next(self) -> RoleChange:
        """Wait for a change and return the newest."""
        await self._is_due.wait()
        due, self._due, self._is_due = self._due, None, trio.Event()
        assert due is not None
        return due


async def follow_roles(broker: Broker, log: EntryLog, changes: RoleChanges) -> NoReturn:
    """Change the broker's role after each change of the member's.

    An error, as of a file that cannot be read, ends it; called again, it makes the same change again.
    """
    while True:
        change = await changes.next()
        try:
            if await _make(broker, log, change, is_new=change is not changes.failed):
                changes.is_known.set()
        except Exception:
            changes.retry(change)
            raise


async def _make(broker: Broker, log: EntryLog, change: RoleChange, *, is_new: bool) -> bool:
    """Give the broker the role of its member.

    False if the member stops leading before it is ready.
    """
    if change.role is not Role.LEADER:
        become_slave(broker, change)
        return True
    if is_new:
        broker.emit("member_elected", broker_name=broker.config.broker_name, term=change.term)
    if not await _is_ready_to_lead(broker, log):
        return False
    become_master(broker, change)
    return True


async def _is_ready_to_lead(broker: Broker, log: EntryLog) -> bool:
    """Wait until all entries are committed and dispatched (dledger#53).

    False if the member stops leading before.
    """
    while log.server.member.is_leader:
        if _has_dispatched_all(broker, log):
            return True
        await trio.sleep(STEP)
    return False


def _has_dispatched_all(broker: Broker, log: EntryLog) -> bool:
    """Return True if the queues have all entries of the log, and no others."""
    entries = log.entries
    if entries.cut_to is not None or entries.end_index == -1:
        return entries.cut_to is None
    return entries.end_index == entries.committed_index and broker.store.dispatch_behind_bytes == 0


def become_slave(broker: Broker, change: RoleChange) -> None:
    """Set the broker id to the member's number, refuse writes, and register at once.

    The registration is oneway, so metadata are copied only after the next periodic one has named the master, up to
    30 s later (BrokerController.changeToSlave, rmq#7790).
    """
    _change(broker, "SLAVE", broker.settings.dledger.number, change)


def become_master(broker: Broker, change: RoleChange) -> None:
    """Set broker id 0, recompute queue offsets, accept writes, and register at once."""
    broker.store.queues.end_rebuild(broker.store.log)
    broker.store.queues.recover_counters()
    _change(broker, LEADERS_ROLE, MASTER_ID, change)


def _change(broker: Broker, role: str, broker_id: int, change: RoleChange) -> None:
    if change.role is Role.CANDIDATE and broker.config.broker_role == role:
        return
    broker.take_role(role, broker_id)
    broker.emit(
        "member_role_changed",
        broker_name=broker.config.broker_name,
        role=role,
        broker_id=broker_id,
        term=change.term,
    )
    broker.sync.forget_master()
    broker.registration.register_soon(oneway=True)
