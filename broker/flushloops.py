"""The loops that flush log and consume queues by timers.

Source: store-and-ha section 3.6. Periods are RocketMQ's, in seconds of the process's clock. An idle broker is not
woken: each loop waits until the log grows when all is flushed.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import attrs
import trio

from rmqlab.broker.state import Broker

PAGE_SIZE: Final = 4096
ENTRIES_PERIOD: Final = 0.01


@attrs.define(eq=False)
class ThoroughTimer:
    """The longer of the two periods of a loop, at whose end it flushes everything.

    The first one has ended at the start.
    """

    period: float
    """Seconds. With 0, each flush is thorough."""
    due_at: float = attrs.field(factory=trio.current_time)

    def take_due(self) -> bool:
        """Return True if the period has ended, and begin the next one."""
        now = trio.current_time()
        if now < self.due_at:
            return False
        self.due_at = now + self.period
        return True

    def skip_ended(self) -> None:
        """Skip the periods that ended while the loop waited, as if the timer had run."""
        late = trio.current_time() - self.due_at
        if late >= 0 and self.period > 0:
            self.due_at += (late // self.period + 1) * self.period


async def flush_forever(broker: Broker) -> NoReturn:
    """Flush the commit log by RocketMQ's timers.

    Sends that wait after a failed flush are flushed again.
    """
    store, growth = broker.store, broker.growth
    group = growth.group_flush
    period = store.config.flush_interval_commit_log / 1000
    least_bytes = store.config.flush_commit_log_least_pages * PAGE_SIZE
    thorough = ThoroughTimer(store.config.flush_commit_log_thorough_interval / 1000)
    while True:
        if store.flushed_offset >= store.max_commit_log_offset:
            await growth.wait_grown()
            thorough.skip_ended()
        await trio.sleep(period)
        group.begin()
        if group.is_busy:
            continue
        is_due = thorough.take_due() or store.max_commit_log_offset - store.flushed_offset >= least_bytes
        job = store.flush_job() if is_due else None
        if job is not None:
            with group.held():
                is_done = await group.syncs.run(job)
            if is_done:
                group.begin()  # for sends that were appended meanwhile


async def flush_entries_forever(broker: Broker, on_synced: Callable[[], None]) -> NoReturn:
    """Flush the log of a group every 10 ms while it grows (dledger#51).

    In DLedger no send waits for it, because a quorum's memory counts. With `dleger_ack_after_sync` sends wait, so a
    flush begins at once, and the next one serves all that was appended until it ended.
    """
    growth = broker.growth
    syncs = growth.group_flush.syncs
    period = 0.0 if broker.settings.dledger.dleger_ack_after_sync else ENTRIES_PERIOD
    while True:
        await growth.flush_due.wait()
        growth.flush_due = trio.Event()
        await trio.sleep(period)
        job = broker.store.flush_job()
        if job is None:
            continue
        if await syncs.run(job):
            on_synced()
        else:
            growth.flush_due.set()
            await trio.sleep(ENTRIES_PERIOD)


async def flush_queues_forever(broker: Broker) -> NoReturn:
    """Flush consume queues that are dirty enough, each second.

    At the start and each minute: all of them, and the checkpoint. Only a growing log makes queues dirty.
    """
    store, growth = broker.store, broker.growth
    syncs = growth.group_flush.syncs
    period = store.config.flush_interval_consume_queue / 1000
    least_pages = store.config.flush_consume_queue_least_pages
    thorough = ThoroughTimer(store.config.flush_consume_queue_thorough_interval / 1000)
    while True:
        await trio.sleep(period)
        is_thorough = thorough.take_due()
        job = store.flush_queues_job(least_pages=0 if is_thorough else least_pages)
        if job is not None:
            await syncs.run(job)
        elif store.dispatch_behind_bytes or store.dispatcher.is_index_behind:
            continue
        elif is_thorough:
            await growth.wait_grown()
            thorough.skip_ended()
        else:
            with trio.move_on_at(thorough.due_at):
                await growth.wait_grown()
