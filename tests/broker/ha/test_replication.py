"""Master and slave together: real stores, loopback sockets.

A slave reports at once, to spare 5 s of each test.
"""

import pathlib
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest
import trio

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import Recorder
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore

AT_ONCE = HaSettings(ha_report_at_once=True)
FILE = 65_536
HOST = ("127.0.0.1", 10911)
NOW = 1_795_200_000_000

OpenStore = Callable[..., MessageStore]


@pytest.fixture
def open_store(tmp_path: pathlib.Path) -> Iterator[OpenStore]:
    opened: list[MessageStore] = []

    def open_store(name: str, *, is_slave: bool = False, **changes: Any) -> MessageStore:
        settings: dict[str, Any] = {
            "store_path_root_dir": tmp_path / name,
            "mapped_file_size_commit_log": FILE,
            "mapped_file_size_consume_queue": 1000,
            "max_hash_slot_num": 100,
            "max_index_num": 400,
        }
        config = StoreConfig(**settings | changes)
        opened.append(MessageStore.open(config, now_millis=lambda: NOW, is_slave=is_slave))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def put(store: MessageStore, count: int, *, body_size: int = 1000) -> None:
    for number in range(count):
        store.put(NewMessage("orders", number % 4, bytes([number % 251]) * body_size, HOST, HOST, NOW))


def log_bytes(store: MessageStore, start: int) -> bytes:
    parts = []
    while view := store.read_log(start, 2**20):
        parts.append(bytes(view))
        start += len(view)
    return b"".join(parts)


def queues(store: MessageStore) -> dict[tuple[str, int], tuple[int, int]]:
    return {key: (store.min_queue_offset(*key), store.max_queue_offset(*key)) for key in store.topics_queues()}


@attrs.define
class Run:
    """Starts masters and slaves within one test."""

    nursery: trio.Nursery
    reactor: Reactor
    recorder: Recorder
    masters: list[HaMaster] = attrs.field(factory=list)

    def serve(self, store: MessageStore, settings: HaSettings = AT_ONCE) -> tuple[HaMaster, str]:
        master = HaMaster(self.reactor, store, settings, on_ack=self.recorder.acked, emit=self.recorder.emit)
        self.masters.append(master)
        host, port = master.listen("127.0.0.1", 0)
        self.nursery.start_soon(master.run_forever)
        return master, f"{host}:{port}"

    async def follow(
        self, store: MessageStore, address: str, push: Callable[[], None] = lambda: None
    ) -> trio.CancelScope:
        """Start a slave; return the scope that stops it."""

        def received() -> None:
            store.dispatch()
            push()
            self.recorder.changed()

        settings = attrs.evolve(AT_ONCE, ha_master_address=address)
        slave = HaSlave(
            self.reactor,
            store,
            settings,
            KnownMaster.from_settings(settings),
            on_received=received,
            emit=self.recorder.emit,
        )
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await slave.run_forever()

        self.nursery.start_soon(run)
        return scope

    async def until_end(self, store: MessageStore, end: int) -> None:
        with trio.fail_after(30):
            await self.recorder.wait_until(lambda: store.max_commit_log_offset >= end)


@pytest.fixture
async def run(nursery: trio.Nursery, reactor: Reactor, recorder: Recorder, open_store: OpenStore) -> AsyncIterator[Run]:
    assert open_store is not None  # asked for so that its stores close after us
    made = Run(nursery, reactor, recorder)
    yield made
    nursery.cancel_scope.cancel()
    for master in made.masters:
        master.close()


@pytest.mark.parametrize("frame_size", [32_768, 1000])
async def test_the_slave_s_log_and_queues_equal_the_master_s_across_files(
    run: Run, open_store: OpenStore, frame_size: int
) -> None:
    """store-ha#45, #38, #42, #48: with blanks, and records cut by frames.

    They are sent before and after the slave joins.
    """
    source, copy = open_store("master"), open_store("slave", is_slave=True)
    put(source, 30)
    master, address = run.serve(source, attrs.evolve(AT_ONCE, ha_transfer_batch_size=frame_size))
    await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    put(source, 200)  # three files more
    master.push()
    end = source.max_commit_log_offset
    await run.until_end(copy, end)
    await run.recorder.wait_until(lambda: master.push_to_slave_max_offset == end)
    assert log_bytes(copy, 0) == log_bytes(source, 0)
    assert queues(copy) == queues(source)
    assert copy.dispatch_behind_bytes == 0
    assert run.recorder.acks == sorted(run.recorder.acks)


async def test_an_empty_slave_gets_the_last_file_only(run: Run, open_store: OpenStore) -> None:
    """store-ha#36, #44."""
    source, copy = open_store("master"), open_store("slave", is_slave=True)
    put(source, 150)
    _, address = run.serve(source)
    await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    start = source.max_commit_log_offset // FILE * FILE
    assert copy.min_commit_log_offset == start == 2 * FILE
    assert log_bytes(copy, start) == log_bytes(source, start)


async def test_a_returning_slave_resumes_where_it_stopped(run: Run, open_store: OpenStore) -> None:
    """store-ha#37, #47: it missed more than a file."""
    source, copy = open_store("master"), open_store("slave", is_slave=True)
    put(source, 20)
    _, address = run.serve(source)
    first = await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    first.cancel()
    await run.recorder.wait_until(lambda: "ha_disconnected" in run.recorder.kinds)
    put(source, 100)
    await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    assert log_bytes(copy, 0) == log_bytes(source, 0)
    assert queues(copy) == queues(source)


async def test_a_slave_that_stopped_inside_a_record_restarts_at_the_record_s_start(
    run: Run, open_store: OpenStore
) -> None:
    """store-ha#49, #48: the half record is cut at the restart, and is received again.

    Until then it waits undispatched.
    """
    source, copy = open_store("master"), open_store("slave", is_slave=True)
    put(source, 3)
    whole = source.max_commit_log_offset // 3 * 2
    assert copy.append_raw(0, bytes(source.read_log(0, whole + 500)))
    copy.dispatch()
    assert copy.dispatch_behind_bytes == 500
    copy.close()
    copy = open_store("slave", is_slave=True)
    assert copy.max_commit_log_offset == whole
    _, address = run.serve(source)
    await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    assert [fields["offset"] for kind, fields in run.recorder.events if kind == "ha_first_report"] == [whole]
    assert log_bytes(copy, 0) == log_bytes(source, 0)


async def test_a_slave_can_be_replicated_from(run: Run, open_store: OpenStore) -> None:
    """Section 4.1: every broker listens, of any role."""
    source, copy, second = open_store("master"), open_store("slave", is_slave=True), open_store("second", is_slave=True)
    put(source, 100)
    master, address = run.serve(source)
    middle, middle_address = run.serve(copy)
    await run.follow(copy, address, middle.push)
    await run.until_end(copy, source.max_commit_log_offset)
    await run.follow(second, middle_address)
    await run.until_end(second, source.max_commit_log_offset)
    put(source, 100)
    master.push()
    await run.until_end(second, source.max_commit_log_offset)
    start = second.min_commit_log_offset
    assert log_bytes(second, start) == log_bytes(source, start)


async def test_a_slave_with_smaller_files_closes_repeatedly_and_reports_the_reason(
    run: Run, open_store: OpenStore
) -> None:
    """store-ha#43, section 4.5: the next header reveals a body that was dropped.

    The body did not fit.
    """
    source, copy = open_store("master"), open_store("slave", is_slave=True, mapped_file_size_commit_log=FILE // 4)
    put(source, 40)
    _, address = run.serve(source, attrs.evolve(AT_ONCE, ha_transfer_batch_size=10_000))
    await run.follow(copy, address)
    await run.recorder.wait_until(lambda: "ha_client_disconnected" in run.recorder.kinds)
    assert run.recorder.reasons("ha_client_disconnected")[0] == "it sent bytes from 20000 on, our log ends at 10000"


async def test_slow_silent_and_dead_slaves_do_not_hold_up_the_others(run: Run, open_store: OpenStore) -> None:
    """Section 4.4: every connection is served by itself.

    The slow one has all of it in the end.
    """
    source, copy = open_store("master"), open_store("slave", is_slave=True)
    put(source, 30)
    master, address = run.serve(source)
    host, _, port = address.rpartition(":")
    slow, silent, dead = [await trio.open_tcp_stream(host, int(port)) for _ in range(3)]
    await slow.send_all(bytes(8))
    await dead.send_all(bytes(8))
    await run.follow(copy, address)
    await run.until_end(copy, source.max_commit_log_offset)
    await dead.aclose()
    put(source, 5000)  # more than sockets buffer
    master.push()
    end = source.max_commit_log_offset
    await run.until_end(copy, end)
    with trio.fail_after(30):
        await run.recorder.wait_until(lambda: master.push_to_slave_max_offset == end)
    assert log_bytes(copy, 0) == log_bytes(source, 0)
    states = sorted((one["state"], one["diff"] == 0) for one in master.snapshot()["connections"])
    assert states == [("READY", False), ("TRANSFER", False), ("TRANSFER", True)]
    got = bytearray()
    while len(got) < end:
        header = await exactly(slow, 12)
        got += await exactly(slow, int.from_bytes(header[8:]))
    assert bytes(got) == log_bytes(source, 0)
    for stream in (slow, silent):
        await trio.aclose_forcefully(stream)


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = await stream.receive_some(size - len(data))
        assert part, "the stream ended"
        data += part
    return bytes(data)


async def test_memory_stays_flat_while_a_long_log_is_replicated(run: Run, open_store: OpenStore) -> None:
    """Unmapped memory does not grow in 48 MB of replication, after the first 8 MB.

    Both sides run in this process. The bound is generous: a copy of one pass would be 1 MB, of the log 40.
    """
    big = {"mapped_file_size_commit_log": 4 * 2**20, "max_hash_slot_num": 1000, "max_index_num": 100_000}
    source = open_store("master", **big)
    copy = open_store("slave", is_slave=True, **big)
    master, address = run.serve(source)
    await run.follow(copy, address)

    async def replicate(megabytes: int) -> None:
        for _ in range(megabytes):
            put(source, 32, body_size=32_000)
            master.push()
            await trio.lowlevel.checkpoint()
        await run.until_end(copy, source.max_commit_log_offset)

    await replicate(8)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        await replicate(48)
        grown, peak = (size - before for size in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert copy.max_commit_log_offset > 50 * 10**6
    assert grown < 2 * 2**20
    assert peak < 8 * 2**20
