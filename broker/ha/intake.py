"""Dispatch of received log, and read-ahead of the next log file.

The log is acknowledged before it is dispatched. A master dispatches its own puts at once; only entries lost in a crash
are dispatched here. During a bulk transfer, the index waits and file preparation runs in a thread, because receiving
limits the rate.
"""

import logging
from collections.abc import Callable
from typing import NoReturn, Protocol

import trio

from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.messagestore import MessageStore

log = logging.getLogger(__name__)

DISPATCH_CHUNK = 2 * 2**20
"""Bytes that a slave dispatches before sockets have their turn."""
NO_ROOM_PAUSE = 1.0
_BULK = 256 * 1024
"""Bytes at once that make a bulk."""
_QUIET_TIME = 0.02
"""Seconds after a bulk until it counts as over, and the index gets its turn."""
WARM_AHEAD = 64 * 2**20
"""Bytes that are brought into memory before they are written."""


class Growth(Protocol):
    """Events set when the log has grown."""

    dispatch_due: trio.Event
    bulk_begun: trio.Event


async def dispatch_forever(store: MessageStore, growth: Growth, on_progress: Callable[[], None]) -> NoReturn:
    """Dispatch received records, or those left by a crash, piece by piece.

    The pieces are small, so that no client waits. Of a bulk, the index comes last (see
    `rmqlab.store.dispatch.Dispatcher.step`).
    """
    quiet_at, has_room = 0.0, True
    while True:
        with trio.move_on_at(quiet_at if store.dispatcher.is_index_behind else float("inf")):
            await growth.dispatch_due.wait()
        growth.dispatch_due = trio.Event()
        try:
            before = store.dispatched_offset
            while store.dispatch(DISPATCH_CHUNK, may_index=trio.current_time() >= quiet_at):
                if store.dispatched_offset - before > _BULK:
                    quiet_at = trio.current_time() + _QUIET_TIME
                    growth.bulk_begun.set()
                before = store.dispatched_offset
                on_progress()
                await trio.lowlevel.checkpoint()
        except OSError as exc:  # the disk is full: replication continues, dispatch waits (store-and-ha section 3.9)
            if has_room:
                log.warning("no room for queue entries: %s; tried every %g s", exc.strerror or exc, NO_ROOM_PAUSE)
            has_room = False
            growth.dispatch_due.set()
            await trio.sleep(NO_ROOM_PAUSE)
        else:
            if not has_room:
                log.warning("there is room for queue entries again")
            has_room = True


async def warm_forever(store: MessageStore, growth: Growth) -> NoReturn:
    """Prefault the next part of the log's file during a bulk transfer."""
    while True:
        await growth.bulk_begun.wait()
        growth.bulk_begun = trio.Event()
        file = store.log.files.last
        if file is not None:
            await in_thread(file.warm, WARM_AHEAD)
