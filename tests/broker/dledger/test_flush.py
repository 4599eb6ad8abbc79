"""When the log of a group is flushed."""

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.flushloops import ENTRIES_PERIOD, flush_entries_forever

SYNC = 0.004
"""Seconds that a sync takes."""


@attrs.define(eq=False)
class Log:
    """A log, as entries grow it and flushes sync it. Times are in seconds."""

    clock: MockClock
    acks_after_sync: bool
    failures: int = 0
    written: int = 0
    synced: list[tuple[float, int]] = attrs.field(factory=list)
    """The time of each sync's end, and the entries that it served."""
    began: float = 0.0
    growth: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        syncs = SimpleNamespace(run=self._sync)
        self.growth = SimpleNamespace(flush_due=trio.Event(), group_flush=SimpleNamespace(syncs=syncs))

    def append(self) -> None:
        self.written += 1
        self.growth.flush_due.set()

    async def _sync(self, target: int) -> bool:
        await trio.sleep(SYNC)
        if self.failures:
            self.failures -= 1
            return False
        self.synced.append((round(self.clock.current_time() - self.began, 6), target))
        return True

    async def flush(self, *appends_at: float) -> list[tuple[float, int]]:
        """Append at some times, and return the syncs."""
        self.began = self.clock.current_time()
        settings = SimpleNamespace(dledger=SimpleNamespace(dleger_ack_after_sync=self.acks_after_sync))
        store = SimpleNamespace(flush_job=lambda: self.written)
        broker = SimpleNamespace(growth=self.growth, settings=settings, store=store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush_entries_forever, cast("Any", broker), lambda: None)
            for at in appends_at:
                await trio.sleep_until(self.began + at)
                self.append()
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        return self.synced


async def test_a_flush_that_no_send_waits_for_begins_after_10_ms(autojump_clock: MockClock) -> None:
    """dledger#51"""
    assert await Log(autojump_clock, acks_after_sync=False).flush(0) == [(ENTRIES_PERIOD + SYNC, 1)]


async def test_a_flush_that_sends_wait_for_begins_at_once(autojump_clock: MockClock) -> None:
    """The next one begins at its end, and serves all that was appended meanwhile."""
    syncs = await Log(autojump_clock, acks_after_sync=True).flush(0, 0.001, 0.002)
    assert syncs == [(SYNC, 1), (2 * SYNC, 3)]


@pytest.mark.parametrize("acks_after_sync", [False, True])
async def test_a_flush_that_failed_is_tried_again_after_a_pause(
    autojump_clock: MockClock, *, acks_after_sync: bool
) -> None:
    ((end, count),) = await Log(autojump_clock, acks_after_sync=acks_after_sync, failures=2).flush(0)
    assert count == 1
    assert end >= 2 * ENTRIES_PERIOD + 3 * SYNC
