"""What follows when the commit log has grown: replication, dispatch to queues and index, group flush.

Appends of one pass are followed up once, at its end. The slaves come first: they work while we dispatch.
"""

import contextlib

import trio

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.pending_acks import PendingAcks
from rmqlab.runtime.reactor import Reactor
from rmqlab.store.messagestore import MessageStore

PUSH_SIZE = 32 * 1024
"""Bytes appended within a pass after which the slaves get them at once: they can work while the pass goes on."""
TRICKLE = 64 * 1024
"""Bytes that a slave dispatches in the pass that received them; what is more is left to a task of its own."""


class AppendFollowUp:
    """Notes that the log grew, and sees to what hangs on it."""

    def __init__(self, reactor: Reactor, store: MessageStore, ha_master: HaMaster, flush_waits: PendingAcks) -> None:
        self.is_flush_wanted = trio.Event()
        """Set when a send waits for the disk."""
        self.is_dispatch_wanted = trio.Event()
        """Set when something is in no queue or index yet that came from the master, or that a crash left behind."""
        self.is_bulk = trio.Event()
        """Set while the master sends as fast as it can."""
        self._reactor = reactor
        self._store = store
        self._ha_master = ha_master
        self._flush_waits = flush_waits
        self._is_noted = False
        self._is_received = False
        self._unpushed = 0

    def appended(self, size: int = 0) -> None:
        """So many bytes were stored: push them to the slaves at the end of this pass, or now if they are many."""
        self._unpushed += size
        if self._unpushed >= PUSH_SIZE:
            self._unpushed = 0
            self._ha_master.push()
        if not self._is_noted:
            self._is_noted = True
            self._reactor.defer(self._follow_up)

    def received(self) -> None:
        """Bytes came from the master; they have been acknowledged already."""
        self._is_received = True
        self.appended()

    def _follow_up(self) -> None:
        self._is_noted = False
        self._unpushed = 0
        self._ha_master.push()
        if self._is_received:
            self._is_received = False
            self._dispatch_trickle()
        else:
            self._store.enter_appended()
            if self._store.dispatcher.is_index_behind:  # after a crash; or there was no room for it
                self.is_dispatch_wanted.set()
        if len(self._flush_waits):
            self.is_flush_wanted.set()

    def _dispatch_trickle(self) -> None:
        """Enter what came in queues at once: for a few records, waking a task would cost more than the work."""
        with contextlib.suppress(OSError):  # no room: the task tries again, and says so
            self._store.dispatch(TRICKLE)
        if self._store.dispatch_behind_bytes:
            self.is_dispatch_wanted.set()
