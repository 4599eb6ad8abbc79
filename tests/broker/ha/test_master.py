"""A master with slaves that are plain sockets.

Where time matters a test asks for the mock clock, and moves it.
"""

import os
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from unittest.mock import ANY

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rmqlab.broker.ha.master import HaMaster, offset_of_slaves
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.testing import MemoryLog, Recorder
from rmqlab.runtime.net.reactor import Reactor

LINUX = sys.platform == "linux"  # other systems have one loopback address only


@attrs.define
class Slave:
    """A slave under the test's control."""

    stream: trio.SocketStream

    async def report(self, offset: int) -> None:
        await self.stream.send_all(struct.pack(">q", offset))

    async def frame(self) -> tuple[int, bytes]:
        offset, size = struct.unpack(">qi", await self._exactly(12))
        return offset, await self._exactly(size)

    async def is_at_end(self) -> bool:
        """Wait for the next bytes; return True at the end of the stream."""
        try:
            return await self.stream.receive_some(1) == b""
        except trio.BrokenResourceError:  # closed with bytes of ours unread
            return True

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = await self.stream.receive_some(size - len(data))
            assert part, f"the stream ended after {data!r}"
            data += part
        return data


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(first=0, data=bytearray(b"abcdefghij" * 10))


@pytest.fixture
async def master(
    nursery: trio.Nursery, reactor: Reactor, log: MemoryLog, recorder: Recorder
) -> AsyncIterator[HaMaster]:
    settings = HaSettings(ha_max_connections=3)
    made = HaMaster(reactor, log, settings, on_ack=recorder.acked, emit=recorder.emit)
    nursery.start_soon(made.run_forever)
    yield made
    made.close()


Connect = Callable[[], Awaitable[Slave]]


@pytest.fixture
async def connect(master: HaMaster, recorder: Recorder) -> AsyncIterator[Connect]:
    host, port = master.listen("127.0.0.1", 0)
    opened: list[trio.SocketStream] = []

    async def connect() -> Slave:
        count = recorder.kinds.count("ha_connected")
        opened.append(await trio.open_tcp_stream(host, port))
        if count < 3:
            await recorder.wait_until(lambda: recorder.kinds.count("ha_connected") > count)
        return Slave(opened[-1])

    yield connect
    for stream in opened:
        await trio.aclose_forcefully(stream)


async def test_nothing_is_sent_before_the_first_report(
    connect: Connect, recorder: Recorder, mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    """store-ha#35: no heartbeat before the report; afterwards one, and data."""
    slave = await connect()
    frames: list[tuple[int, bytes]] = []

    async def read() -> None:
        frames.append(await slave.frame())
        recorder.changed()

    nursery.start_soon(read)
    mock_clock.jump(6)
    await wait_all_tasks_blocked(0.01)
    assert frames == []
    await slave.report(90)
    await recorder.wait_until(lambda: bool(frames))
    assert frames == [(90, b"")]
    assert await slave.frame() == (90, b"abcdefghij")


async def test_a_slave_that_reports_at_once_is_served_at_once(
    connect: Connect, log: MemoryLog, mock_clock: MockClock
) -> None:
    """Section 4.6."""
    del mock_clock  # time stands still: no heartbeat comes between
    slave = await connect()
    await slave.report(0)
    assert await slave.frame() == (0, bytes(log.data))


async def test_appended_bytes_leave_when_they_are_pushed(
    connect: Connect, master: HaMaster, log: MemoryLog, mock_clock: MockClock
) -> None:
    del mock_clock  # time stands still: no heartbeat comes between
    slave = await connect()
    await slave.report(95)
    assert await slave.frame() == (95, b"fghij")
    log.append(b"more")
    master.push()
    assert await slave.frame() == (100, b"more")


async def test_an_idle_master_sends_a_heartbeat_every_5_s(connect: Connect, mock_clock: MockClock) -> None:
    """store-ha#39: independent of what the slave reports."""
    slave = await connect()
    await slave.report(95)
    await slave.frame()
    began = trio.current_time()
    mock_clock.autojump_threshold = 0.01
    for beat in (5.0, 10.0, 15.0):
        assert await slave.frame() == (100, b"")
        assert trio.current_time() - began == pytest.approx(beat)


async def test_a_slave_that_never_reports_is_closed_20_s_after_accept(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock
) -> None:
    """store-ha#40."""
    slave = await connect()
    assert master.connection_count == 1
    began = trio.current_time()
    mock_clock.autojump_threshold = 0.01
    assert await slave.is_at_end()
    assert trio.current_time() - began == pytest.approx(20.0)
    assert recorder.reasons("ha_disconnected") == ["no report for 20 s"]
    assert master.connection_count == 0


async def test_a_slave_is_closed_20_s_after_its_last_report(connect: Connect, mock_clock: MockClock) -> None:
    """store-ha#40."""
    slave = await connect()
    mock_clock.jump(12)
    await slave.report(100)
    assert await slave.frame() == (100, b"")
    began = trio.current_time()
    mock_clock.autojump_threshold = 0.01
    for _ in range(3):
        assert await slave.frame() == (100, b"")
    assert await slave.is_at_end()
    assert trio.current_time() - began == pytest.approx(20.0)


@pytest.mark.parametrize("_time", range(5))
async def test_reports_that_came_while_the_master_stood_still_are_no_silence(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock, _time: int
) -> None:
    """4.9 reads before it checks the time; repeated, as the order of tasks varies."""
    slave = await connect()
    await slave.report(100)
    await recorder.wait_until(lambda: recorder.acks == [100])
    os.write(
        slave.stream.socket.fileno(), struct.pack(">q", 100)
    )  # at once: nobody else runs between this and the jump
    mock_clock.jump(25)
    await wait_all_tasks_blocked(0.01)
    assert master.connection_count == 1


async def test_a_second_report_beyond_our_end_closes_the_connection(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock
) -> None:
    """store-ha#41: the first raises the common offset for good (section 4.9)."""
    del mock_clock  # time stands still: no heartbeat comes between
    slave = await connect()
    await slave.report(150)
    await recorder.wait_until(lambda: recorder.acks == [150])
    await slave.report(160)
    assert await slave.is_at_end()
    assert recorder.reasons("ha_disconnected") == ["it reported 160, our log ends at 100"]
    assert master.push_to_slave_max_offset == 150


async def test_a_slave_ahead_of_us_gets_bytes_as_soon_as_our_log_has_passed_it(
    connect: Connect, master: HaMaster, log: MemoryLog, recorder: Recorder, mock_clock: MockClock
) -> None:
    """Section 4.9: from its offset, even in the middle of a record."""
    del mock_clock  # time stands still: no heartbeat comes between
    slave = await connect()
    await slave.report(103)
    await recorder.wait_until(lambda: recorder.acks == [103])
    log.append(b"0123456")
    master.push()
    assert await slave.frame() == (103, b"3456")


async def test_a_slave_whose_data_expired_stays_and_gets_heartbeats_only(
    connect: Connect, log: MemoryLog, master: HaMaster, mock_clock: MockClock
) -> None:
    """store-ha#57."""
    log.data, log.first = bytearray(b"x" * 10), 65_536
    slave = await connect()
    await slave.report(50)
    mock_clock.autojump_threshold = 0.01
    assert await slave.frame() == (50, b"")
    master.push()
    assert await slave.frame() == (50, b"")
    assert master.connection_count == 1


async def test_one_slave_of_several_is_enough_and_the_common_offset_only_rises(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock
) -> None:
    """store-ha#52."""
    del mock_clock  # time stands still: no heartbeat comes between
    one, other = await connect(), await connect()
    await one.report(80)
    await recorder.wait_until(lambda: recorder.acks == [80])
    await other.report(40)
    await recorder.wait_until(lambda: recorder.kinds.count("ha_first_report") == 2)
    await other.report(90)
    await recorder.wait_until(lambda: recorder.acks == [80, 90])
    await one.stream.aclose()
    await other.stream.aclose()
    await recorder.wait_until(lambda: recorder.kinds.count("ha_disconnected") == 2)
    assert master.push_to_slave_max_offset == 90


async def test_a_slave_counts_from_accept_until_it_goes_and_while_it_is_near(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock
) -> None:
    """store-ha#50, #55: connected, and less than 256 MiB behind."""
    del mock_clock  # time stands still: no heartbeat comes between
    assert not master.is_slave_ok(1, 0)
    slave = await connect()
    assert master.is_slave_ok(268_435_455, 0)
    assert not master.is_slave_ok(268_435_456, 0)
    await slave.report(100)
    await recorder.wait_until(lambda: recorder.acks == [100])
    assert master.is_slave_ok(268_435_555, 0)
    assert not master.is_slave_ok(268_435_556, 0)
    await slave.stream.aclose()
    await recorder.wait_until(lambda: "ha_disconnected" in recorder.kinds)
    assert not master.is_slave_ok(1, 0)


async def test_connections_are_bounded_those_that_never_report_included(connect: Connect, master: HaMaster) -> None:
    for _ in range(3):
        await connect()
    assert await (await connect()).is_at_end()
    assert master.connection_count == 3


async def test_a_slave_that_stops_reading_is_served_again_after_it_resumes(connect: Connect, log: MemoryLog) -> None:
    """store-ha#46: also where a frame is cut by a full socket."""
    log.data = bytearray(bytes(range(256)) * 65_536)
    slave = await connect()
    await slave.report(1)
    await wait_all_tasks_blocked(0.01)
    got = bytearray(1)
    while len(got) < len(log.data):
        offset, body = await slave.frame()
        assert offset == len(got)
        got += body
    assert got[1:] == log.data[1:]


async def test_the_snapshot_contains_the_offset_of_each_slave(
    connect: Connect, recorder: Recorder, master: HaMaster, mock_clock: MockClock
) -> None:
    del mock_clock  # time stands still: no heartbeat comes between
    slave = await connect()
    await slave.report(90)
    await recorder.wait_until(lambda: recorder.acks == [90])
    await slave.frame()
    host, port = slave.stream.socket.getsockname()
    assert master.snapshot() == {
        "connections": [
            {
                "address": f"{host}:{port}",
                "slave_ack_offset": 90,
                "diff": 10,
                "transferred_bytes_per_second": 0,
                "in_sync": True,
                "transfer_from_where": 100,
                "state": "TRANSFER",
                "seconds_since_report": ANY,
            }
        ],
        "push_to_slave_max_offset": 90,
        "slave_troubles": [],
    }


@pytest.mark.parametrize(
    ("acks", "slaves", "offset"),
    [([], 1, -1), ([30], 1, 30), ([30], 2, -1), ([10, 30, 20], 1, 30), ([10, 30, 20], 2, 20), ([10, -1], 2, -1)],
)
def test_so_many_slaves_have_the_log_up_to_there(acks: list[int], slaves: int, offset: int) -> None:
    assert offset_of_slaves(acks, slaves) == offset


async def test_connections_per_address_are_limited_and_a_flood_is_logged_once(
    nursery: trio.Nursery, reactor: Reactor, log: MemoryLog, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Two of hundreds of half-open connections stay; one log line; others are served."""
    settings = HaSettings(ha_max_connections=3, ha_max_connections_per_address=2)
    seconds = 0.0
    master = HaMaster(reactor, log, settings, on_ack=recorder.acked, emit=recorder.emit, now=lambda: seconds)
    host, port = master.listen("127.0.0.1", 0)
    flood = [await trio.open_tcp_stream(host, port) for _ in range(200)]
    slave = Slave(await trio.open_tcp_stream(host, port, local_address="127.0.0.2" if LINUX else None))
    if LINUX:
        await slave.report(95)
        assert await slave.frame() == (95, b"fghij")
    assert [len(await stream.receive_some(1)) for stream in flood[2:]] == [0] * 198
    assert master.connection_count == (3 if LINUX else 2)
    seconds = 60.0
    flood.append(await trio.open_tcp_stream(host, port))
    assert len(await flood[-1].receive_some(1)) == 0
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines[0] == (
        "2 slaves are connected, 2 of them from 127.0.0.1: turned away since the last such line: 1 from 127.0.0.1"
    )
    assert lines[1].endswith("turned away since the last such line: 198 from 127.0.0.1")
    assert len(lines) == 2
    for stream in [*flood, slave.stream]:
        await trio.aclose_forcefully(stream)
    master.close()
    nursery.cancel_scope.cancel()


async def test_a_flood_of_reports_is_read_in_passing_and_others_are_served(
    connect: Connect, recorder: Recorder, master: HaMaster, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Of reports received together the last counts; reads are of 64 KiB."""
    del mock_clock  # time stands still: no heartbeat comes between
    stranger, slave = await connect(), await connect()
    await slave.report(90)
    assert await slave.frame() == (90, b"abcdefghij")
    await stranger.report(95)
    assert await stranger.frame() == (95, b"fghij")

    async def flood() -> None:
        await stranger.stream.send_all(struct.pack(">q", 96) * 500_000 + struct.pack(">q", 99))

    nursery.start_soon(flood)
    await recorder.wait_until(lambda: 99 in recorder.acks)
    assert recorder.acks == [90, 95, 96, 99]
    assert master.connection_count == 2
    await slave.report(100)
    await recorder.wait_until(lambda: recorder.acks[-1] == 100)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(struct.pack(">q", -1), "it reported -1", id="negative"),
        pytest.param(struct.pack(">q", 5) * 2 + struct.pack(">q", 101), "", id="beyond the end, first of all"),
        pytest.param(b"GET / HTTP/1.1", "", id="another protocol"),
    ],
)
async def test_a_report_that_no_slave_sends_costs_one_line_and_no_byte(
    connect: Connect, recorder: Recorder, master: HaMaster, sent: bytes, reason: str, mock_clock: MockClock
) -> None:
    """4.9 believes any first report that is not negative.

    From the second on it closes (store-ha#41).
    """
    del mock_clock  # time stands still: no heartbeat comes between
    stranger = await connect()
    await stranger.stream.send_all(sent)
    if reason:
        assert await stranger.is_at_end()
        assert recorder.reasons("ha_disconnected") == [reason]
        assert master.push_to_slave_max_offset == 0
        return
    await recorder.wait_until(lambda: "ha_first_report" in recorder.kinds)
    await stranger.report(2**62)
    assert await stranger.is_at_end()
    assert len(recorder.reasons("ha_disconnected")) == 1
