"""Loops of a broker: flushes, late sends, files of tables. Idle ones sleep."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.loops import (
    _expire_waits_forever,
    _save_offsets_forever,
    sample_log_forever,
    sweep_held_pulls_forever,
)
from rmqlab.broker.testing import open_talking_broker
from rmqlab.broker.waits.copy_waits import CopyWaits
from rmqlab.broker.waits.pending_acks import PendingAcks, WaitingSend
from rmqlab.runtime.net.alignedtimer import AlignedTimer
from rmqlab.store.files.configfile import keep_config_file
from rmqlab.store.results import PutStatus


@attrs.define(eq=False)
class Growth:
    """In the place of AppendFollowUp: counts who waits for growth."""

    flush_due: trio.Event = attrs.field(factory=trio.Event)
    grown: trio.Event = attrs.field(factory=trio.Event)
    waits: int = 0

    async def wait_grown(self) -> None:
        self.waits += 1
        await self.grown.wait()
        self.grown = trio.Event()


async def test_the_end_of_the_log_is_sampled_at_the_next_second_after_it_grew(autojump_clock: MockClock) -> None:
    del autojump_clock
    growth, samples = Growth(), list[tuple[float, int]]()
    store = SimpleNamespace(max_commit_log_offset=0)
    meter = SimpleNamespace(sent=0, received=0)
    broker = cast(
        "Any",
        SimpleNamespace(
            store=store,
            growth=growth,
            ha_master=SimpleNamespace(push_to_slave_max_offset=0),
            replication=meter,
            traffic=meter,
            emit=lambda _kind, *, max_offset, **_fields: samples.append((trio.current_time(), max_offset)),
        ),
    )
    second = math.ceil(trio.current_time())
    await trio.sleep_until(second + 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sample_log_forever, broker, AlignedTimer())
        await trio.sleep_until(second + 100.25)
        store.max_commit_log_offset = 10
        growth.grown.set()
        await trio.sleep_until(second + 102.5)
        assert samples == [(second + 1, 0), (second + 101, 10)]
        store.max_commit_log_offset = 5  # truncated: nothing wakes the loop
        await trio.sleep(7)
        nursery.cancel_scope.cancel()
    assert [end for _, end in samples[2:]] == [5]


async def test_late_sends_are_released_and_without_any_nothing_is_scanned(autojump_clock: MockClock) -> None:
    del autojump_clock
    growth, statuses = Growth(), list[PutStatus]()
    waits = PendingAcks(5.0, PutStatus.FLUSH_SLAVE_TIMEOUT)
    broker = cast(
        "Any",
        SimpleNamespace(
            growth=growth, flush_waits=waits, slave_waits=CopyWaits(5.0), ha_master=None, now=trio.current_time
        ),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expire_waits_forever, broker)
        await trio.sleep(100)
        assert growth.waits == 1
        waits.add(100, WaitingSend(lambda status, _cause: statuses.append(status)), now=trio.current_time())
        growth.grown.set()
        await trio.sleep(4.9)
        assert statuses == []
        await trio.sleep(0.7)
        assert statuses == [PutStatus.FLUSH_SLAVE_TIMEOUT]
        assert growth.waits == 2
        nursery.cancel_scope.cancel()


async def test_offsets_and_large_tables_are_saved_every_five_seconds(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: in slices, so that they do not delay requests."""
    del autojump_clock
    monkeypatch.setattr("rmqlab.broker.tables.tablefile.SAVED_AT_ONCE", 0)
    broker = open_talking_broker(tmp_path).broker
    try:
        monkeypatch.setattr(broker.offsets, "save", lambda: pytest.fail("not in slices"))
        broker.offsets.commit("g", "T", 0, 1)
        broker.topics.create_plain("T", 1)
        broker.subscriptions.find("g")
        unsaved = tmp_path / "full" / "topics.json"
        unsaved.parent.write_text("a file where the directory should be")
        keep_config_file(unsaved, b"2")
        unsaved.parent.unlink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_save_offsets_forever, broker, AlignedTimer())
            await trio.sleep(11)
            nursery.cancel_scope.cancel()
    finally:
        broker.store.close()
    assert unsaved.read_bytes() == b"2"
    saved = {path.name for path in (tmp_path / "store" / "config").iterdir()}
    assert saved >= {"consumerOffset.json", "topics.json", "subscriptionGroup.json"}


@pytest.mark.parametrize(("is_long", "period"), [(True, 5.0), (False, 0.7)])
async def test_held_pulls_are_swept_more_often_without_long_polling(
    autojump_clock: MockClock, period: float, *, is_long: bool
) -> None:
    """PullRequestHoldService.run."""
    del autojump_clock
    began, sweeps = trio.current_time(), list[float]()
    broker = cast(
        "Any",
        SimpleNamespace(
            config=SimpleNamespace(long_polling_enable=is_long, short_polling_time_mills=700),
            hold=SimpleNamespace(sweep=lambda _end_of: sweeps.append(round(trio.current_time() - began, 3))),
            store=SimpleNamespace(max_queue_offset=None),
        ),
    )
    with trio.move_on_after(3.5 * period):
        await sweep_held_pulls_forever(broker, AlignedTimer())
    assert sweeps == pytest.approx([period, 2 * period, 3 * period])
