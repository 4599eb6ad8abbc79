"""Settings that change while a slave is connected."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import HEADER, REPORT
from rmqlab.broker.ha.testing import MemoryLog, Recorder
from rmqlab.runtime.net.reactor import Reactor


async def test_a_master_applies_them_to_live_connections(
    reactor: Reactor, nursery: trio.Nursery, recorder: Recorder, mock_clock: MockClock
) -> None:
    """HAConnection reads them at each use: interval of heartbeats, size of frames."""
    log = MemoryLog(first=0, data=bytearray(100))
    master = HaMaster(reactor, log, HaSettings(), on_ack=recorder.acked, emit=recorder.emit)
    address = master.listen("127.0.0.1", 0)
    nursery.start_soon(master.run_forever)
    async with await trio.open_tcp_stream(*address) as slave:
        await slave.send_all(REPORT.pack(100))
        await recorder.wait_until(lambda: "ha_first_report" in recorder.kinds)
        mock_clock.autojump_threshold = 0.01
        await trio.sleep(1)
        master.replace_settings(
            attrs.evolve(master.settings, ha_send_heartbeat_interval=2000, ha_transfer_batch_size=10)
        )
        assert await received(slave, HEADER.size) == HEADER.pack(100, 0)
        assert trio.current_time() == pytest.approx(2.0)
        log.append(b"k" * 15)
        master.push()
        frames = HEADER.pack(100, 10) + b"k" * 10 + HEADER.pack(110, 5) + b"k" * 5
        assert await received(slave, len(frames)) == frames
    master.close()


async def received(stream: trio.SocketStream, size: int) -> bytes:
    """Receive exactly so many bytes, or fewer at the end of the stream."""
    data = b""
    while len(data) < size and (part := await stream.receive_some(size - len(data))):
        data += part
    return data
