"""What follows when the commit log has grown: replication, group flush, and on a slave the dispatch to queues.

Appends of one pass are followed up once, at its end.
"""

import trio

from broker.commit import OffsetWaits
from broker.ha.master import HaMaster
from remoting.reactor import Reactor
from store.messagestore import MessageStore


class LogGrowth:
    """Notes that the log grew, and sees to what hangs on it."""

    def __init__(self, reactor: Reactor, store: MessageStore, ha_master: HaMaster, flush_waits: OffsetWaits) -> None:
        self.is_flush_wanted = trio.Event()
        """Set when a send waits for the disk."""
        self.is_dispatch_wanted = trio.Event()
        """Set when bytes came from the master that are in no queue yet."""
        self._reactor = reactor
        self._store = store
        self._ha_master = ha_master
        self._flush_waits = flush_waits
        self._is_noted = False

    def appended(self) -> None:
        """A message was stored: push it to the slaves at the end of this pass."""
        if not self._is_noted:
            self._is_noted = True
            self._reactor.defer(self._follow_up)

    def received(self) -> None:
        """Bytes came from the master; they have been acknowledged already."""
        self.is_dispatch_wanted.set()
        self.appended()

    def _follow_up(self) -> None:
        self._is_noted = False
        self._ha_master.push()
        if len(self._flush_waits):
            self.is_flush_wanted.set()
