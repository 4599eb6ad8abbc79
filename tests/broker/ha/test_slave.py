"""A slave with a master that is a plain socket.

Where time matters a test asks for the mock clock, and moves it.
"""

import itertools
import os
import struct
import sys
from collections.abc import AsyncIterator, Callable
from unittest.mock import ANY

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import MemoryLog, Recorder
from rmqlab.runtime.net.reactor import Reactor

AT_ONCE = HaSettings(ha_report_at_once=True)


@attrs.define
class Master:
    """A master under the test's control."""

    listener: trio.SocketListener
    streams: list[trio.SocketStream] = attrs.field(factory=list)

    @property
    def address(self) -> str:
        host, port = self.listener.socket.getsockname()
        return f"{host}:{port}"

    async def accept(self) -> trio.SocketStream:
        self.streams.append(await self.listener.accept())
        return self.streams[-1]


@pytest.fixture
async def master(own_host: str) -> AsyncIterator[Master]:
    made = Master((await trio.open_tcp_listeners(0, host=own_host))[0])
    yield made
    for stream in [made.listener, *made.streams]:
        await trio.aclose_forcefully(stream)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(first=0, data=bytearray(b"x" * 100))


Start = Callable[..., HaSlave]


@pytest.fixture
async def start(nursery: trio.Nursery, reactor: Reactor, log: MemoryLog, recorder: Recorder) -> AsyncIterator[Start]:
    def start(settings: HaSettings, known_master: KnownMaster | None = None) -> HaSlave:
        known_master = known_master or KnownMaster.from_settings(settings)
        slave = HaSlave(reactor, log, settings, known_master, on_received=recorder.changed, emit=recorder.emit)
        nursery.start_soon(slave.run_forever)
        return slave

    yield start
    nursery.cancel_scope.cancel()


async def report_of(stream: trio.SocketStream) -> int:
    data = b""
    while len(data) < 8:
        part = await stream.receive_some(8 - len(data))
        assert part, "the slave closed"
        data += part
    return int.from_bytes(data)


def frame(offset: int, body: bytes = b"") -> bytes:
    return struct.pack(">qi", offset, len(body)) + body


async def test_the_slave_connects_5_s_after_its_start_and_reports_5_s_later(
    start: Start, master: Master, mock_clock: MockClock
) -> None:
    """store-ha#47, #39: the address arrived while it waited (section 4.5)."""
    known_master = KnownMaster()
    start(HaSettings(), known_master)
    await wait_all_tasks_blocked()
    known_master.report_ha_address(master.address)
    mock_clock.autojump_threshold = 0.01
    stream = await master.accept()
    assert trio.current_time() == pytest.approx(5.0)
    for at in (10.0, 15.0, 20.0):
        assert await report_of(stream) == 100
        assert trio.current_time() == pytest.approx(at)


async def test_with_the_switch_on_it_connects_and_reports_at_once(
    start: Start, master: Master, mock_clock: MockClock
) -> None:
    """Wire-compatible (section 4.6)."""
    known_master = KnownMaster()
    start(AT_ONCE, known_master)
    await wait_all_tasks_blocked()
    known_master.report_ha_address(master.address)
    assert await report_of(await master.accept()) == 100
    mock_clock.autojump_threshold = 0.01
    assert await report_of(master.streams[0]) == 100
    assert trio.current_time() == pytest.approx(5.0)


async def test_new_settings_apply_to_a_live_connection(start: Start, master: Master, mock_clock: MockClock) -> None:
    """HAClient reads them at each use: the next report is due 2 s after the last one."""
    slave = start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    assert await report_of(await master.accept()) == 100
    mock_clock.autojump_threshold = 0.01
    await trio.sleep(1)
    slave.replace_settings(attrs.evolve(slave.settings, ha_send_heartbeat_interval=2000))
    for at in (2.0, 4.0):
        assert await report_of(master.streams[0]) == 100
        assert trio.current_time() == pytest.approx(at)


async def test_a_connect_that_fails_is_tried_again_every_5_s(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock
) -> None:
    """store-ha#47."""
    address, (host, port) = master.address, master.listener.socket.getsockname()
    await master.listener.aclose()
    slave = start(attrs.evolve(AT_ONCE, ha_master_address=address))
    mock_clock.autojump_threshold = 0.01
    await trio.sleep(9.0)
    assert recorder.kinds == []
    assert slave.snapshot()["connected"] is False
    master.listener = (await trio.open_tcp_listeners(port, host=host))[0]
    await master.accept()
    assert trio.current_time() == pytest.approx(10.0)


async def test_whole_frames_are_acknowledged_then_reported(
    start: Start, master: Master, log: MemoryLog, recorder: Recorder, mock_clock: MockClock
) -> None:
    """store-ha#42: with the offset after the last of them."""
    del mock_clock  # time stands still: no heartbeat comes between
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    stream = await master.accept()
    assert await report_of(stream) == 100
    await stream.send_all(frame(100) + frame(100, b"one") + frame(103, b"two") + frame(106, b"half")[:-1])
    assert await report_of(stream) == 106
    await recorder.wait_until(lambda: len(log.data) == 106)
    await stream.send_all(b"f")
    assert await report_of(stream) == 110
    assert log.data[100:] == b"onetwohalf"


async def test_a_heartbeat_is_not_echoed(start: Start, master: Master, mock_clock: MockClock) -> None:
    """store-ha#39: the slave's timer makes its heartbeats."""
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    stream = await master.accept()
    assert await report_of(stream) == 100
    await stream.send_all(frame(100))
    mock_clock.autojump_threshold = 0.01
    assert await report_of(stream) == 100
    assert trio.current_time() == pytest.approx(5.0)


async def test_a_heartbeat_makes_an_empty_slave_report_where_its_first_file_begins(
    start: Start, master: Master, log: MemoryLog, mock_clock: MockClock
) -> None:
    """store-ha#44."""
    del mock_clock  # time stands still: no heartbeat comes between
    log.data, log.first = bytearray(), None
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    stream = await master.accept()
    assert await report_of(stream) == 0
    await stream.send_all(frame(65_536))
    assert await report_of(stream) == 65_536


async def test_a_contradiction_closes_and_the_next_connection_follows_at_once(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """store-ha#43, #47: frames before it are kept and acknowledged."""
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    stream = await master.accept()
    await report_of(stream)
    mock_clock.jump(2)
    now = trio.current_time()
    await stream.send_all(frame(100, b"good") + frame(999))
    assert await report_of(stream) == 104
    assert await report_of(await master.accept()) == 104
    assert trio.current_time() == now
    assert recorder.reasons("ha_client_disconnected") == ["it sent bytes from 999 on, our log ends at 104"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"disconnected from master {master.address}: it sent bytes from 999 on, our log ends at 104"]


async def test_a_master_that_accepts_and_closes_is_not_hammered(
    start: Start, master: Master, mock_clock: MockClock
) -> None:
    """4.9 hammers; a delay is wire-compatible (section 4.6)."""
    start(HaSettings(ha_master_address=master.address))
    mock_clock.autojump_threshold = 0.01
    times = []
    for _ in range(10):
        await (await master.accept()).aclose()
        times.append(trio.current_time())
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])


async def test_no_news_of_the_master_never_clears_its_address(start: Start, master: Master) -> None:
    """Section 4.1; an address from the settings is never changed either."""
    known_master = KnownMaster()
    slave = start(AT_ONCE, known_master)
    known_master.report_ha_address(master.address)
    known_master.report_ha_address(None)
    assert slave.snapshot()["master_address"] == master.address
    by_settings = KnownMaster.from_settings(HaSettings(ha_master_address=master.address))
    fixed = start(AT_ONCE, by_settings)
    by_settings.report_ha_address("127.0.0.1:1")
    assert fixed.snapshot()["master_address"] == master.address
    too_short = KnownMaster.from_settings(HaSettings(ha_master_address="a:1"))
    short = start(AT_ONCE, too_short)
    assert short.snapshot()["master_address"] is None
    too_short.report_ha_address(master.address)
    assert short.snapshot()["master_address"] == master.address


async def test_another_address_counts_from_the_next_connection_on(
    start: Start, master: Master, mock_clock: MockClock
) -> None:
    del mock_clock  # time stands still: no heartbeat comes between
    known_master = KnownMaster()
    start(AT_ONCE, known_master)
    known_master.report_ha_address(master.address)
    stream = await master.accept()
    await report_of(stream)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    known_master.report_ha_address(f"127.0.0.1:{listener.socket.getsockname()[1]}")
    await stream.send_all(frame(100, b"on"))
    assert await report_of(stream) == 102
    await stream.aclose()
    async with listener, await listener.accept() as other:
        assert await report_of(other) == 102


async def test_a_silent_master_is_kept(start: Start, master: Master, mock_clock: MockClock) -> None:
    """Section 4.5: 4.9 never drops it."""
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address))
    stream = await master.accept()
    mock_clock.autojump_threshold = 0.01
    for _ in range(10):
        assert await report_of(stream) == 100
    assert trio.current_time() == pytest.approx(45.0)


async def test_with_the_switch_on_a_silent_master_is_dropped_after_20_s(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock
) -> None:
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address, ha_drop_silent_master=True))
    await master.accept()
    mock_clock.autojump_threshold = 0.01
    await recorder.wait_until(lambda: "ha_client_disconnected" in recorder.kinds)
    assert trio.current_time() == pytest.approx(20.0)
    assert recorder.reasons("ha_client_disconnected") == ["the master was silent for 20 s"]


async def test_a_slave_with_a_short_housekeeping_interval_reconnects_every_3_s(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock
) -> None:
    """As measured at a real slave with haHousekeepingInterval=3000.

    Its heartbeat, of 5 s, is never sent.
    """
    start(
        attrs.evolve(AT_ONCE, ha_report_at_once=False, ha_master_address=master.address, ha_housekeeping_interval=3000)
    )
    await master.accept()
    mock_clock.autojump_threshold = 0.01
    closed = []
    for _ in range(3):
        await master.accept()
        closed.append(trio.current_time())
    assert closed == pytest.approx([3.0, 6.0, 9.0])
    assert recorder.reasons("ha_client_disconnected") == ["housekeeping: no report left for 3 s"] * 3


async def test_an_acknowledgement_puts_a_slaves_housekeeping_off(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock
) -> None:
    start(
        attrs.evolve(AT_ONCE, ha_report_at_once=False, ha_master_address=master.address, ha_housekeeping_interval=3000)
    )
    stream = await master.accept()
    mock_clock.autojump_threshold = 0.01
    for number in range(4):
        await trio.sleep(2)
        await stream.send_all(frame(100 + number, b"x"))
        assert await report_of(stream) == 101 + number
    assert "ha_client_disconnected" not in recorder.kinds
    await master.accept()
    assert trio.current_time() == pytest.approx(11.0)


@pytest.mark.parametrize("_time", range(5))
async def test_bytes_received_during_a_stall_of_the_slave_are_no_silence(
    start: Start, master: Master, recorder: Recorder, mock_clock: MockClock, _time: int
) -> None:
    """Which task runs first is chance: hence several times."""
    start(attrs.evolve(AT_ONCE, ha_master_address=master.address, ha_drop_silent_master=True))
    stream = await master.accept()
    assert await report_of(stream) == 100
    await wait_all_tasks_blocked(0.01)
    os.write(stream.socket.fileno(), frame(100, b"on"))  # at once: nobody else runs between this and the jump
    mock_clock.jump(25)
    assert await report_of(stream) == 102
    assert "ha_client_disconnected" not in recorder.kinds


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address only")
async def test_it_connects_from_its_own_address(
    nursery: trio.Nursery, reactor: Reactor, log: MemoryLog, recorder: Recorder, master: Master
) -> None:
    settings = attrs.evolve(AT_ONCE, ha_master_address=master.address)
    slave = HaSlave(
        reactor,
        log,
        settings,
        KnownMaster.from_settings(settings),
        on_received=recorder.changed,
        emit=recorder.emit,
        source_ip="127.77.1.9",
    )
    nursery.start_soon(slave.run_forever)
    stream = await master.accept()
    assert stream.socket.getpeername()[0] == "127.77.1.9"
    assert await report_of(stream) == 100
    assert slave.snapshot() == {
        "master_address": master.address,
        "connected": True,
        "verdict": "",
        "reported_offset": 100,
        "received_bytes_per_second": 0,
        "has_connected": True,
        "seconds_since_receipt": ANY,
    }
    nursery.cancel_scope.cancel()
