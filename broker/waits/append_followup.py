"""Follow-up of appends to the commit log.

Replication, dispatch to queues and index, group flush. All appends of one pass of the event loop are followed up once,
at its end. Slaves are served first, because they can write while this broker dispatches.
"""

import contextlib

import trio

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.waits.flushing import GroupFlush
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.store.messagestore import MessageStore

PUSH_SIZE = 32 * 1024
"""Bytes. More than this is pushed to slaves before the pass ends, so that they work meanwhile."""
TRICKLE = 64 * 1024
"""Bytes that a slave dispatches in the pass that received them; the dispatch task does the rest."""


class AppendFollowUp:
    """Collects the appends of a pass and follows them up at its end."""

    def __init__(self, reactor: Reactor, store: MessageStore, ha_master: HaMaster, group_flush: GroupFlush) -> None:
        self.flush_due = trio.Event()
        """Set when the log of a DLedger group has grown."""
        self.group_flush = group_flush
        self.dispatch_due = trio.Event()
        """Set when records from the master, or from before a crash, are not in queues and index yet."""
        self.bulk_begun = trio.Event()
        """Set while the master sends as fast as it can."""
        self._grown = trio.Event()
        self._reactor = reactor
        self._store = store
        self._ha_master = ha_master
        self._is_noted = False
        self._is_received = False
        self._is_pushed = True
        self._unpushed = 0

    def appended(self, size: int = 0) -> None:
        """Note that `size` bytes were stored, and schedule their push to the slaves.

        They are pushed at the end of this pass, or at once if PUSH_SIZE bytes have accumulated, or if the pass serves
        one request only: nothing will join its bytes, and the slave works while the request is completed.
        """
        self._unpushed += size
        self._is_pushed = False
        if self._unpushed >= PUSH_SIZE or self._reactor.serves_one:
            self._push()
        if not self._is_noted:
            self._is_noted = True
            self._reactor.defer(self._follow_up)

    async def wait_grown(self) -> None:
        """Wait for the end of the next pass in which the log grows."""
        if self._grown.is_set():
            self._grown = trio.Event()
        await self._grown.wait()

    def received(self) -> None:
        """Note bytes received from the master, which are already acknowledged to it."""
        self._is_received = True
        self.appended()

    def _push(self) -> None:
        self._unpushed = 0
        self._is_pushed = True
        self._ha_master.push()

    def _follow_up(self) -> None:
        self._is_noted = False
        if not self._is_pushed:
            self._push()
        if self._is_received:
            self._is_received = False
            self._dispatch_trickle()
        else:
            self._store.enter_appended()
            if self._store.dispatcher.is_index_behind:  # after a crash, or after a full disk
                self.dispatch_due.set()
        self.group_flush.begin()
        self._grown.set()

    def _dispatch_trickle(self) -> None:
        """Dispatch received records at once.

        For a few records, waking a task costs more than the work.
        """
        with contextlib.suppress(OSError):  # disk full: the dispatch task retries and logs it
            self._store.dispatch(TRICKLE)
        if self._store.dispatch_behind_bytes:
            self.dispatch_due.set()
