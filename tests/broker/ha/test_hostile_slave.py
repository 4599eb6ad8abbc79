"""Slaves whose reports are false, and a sync master that must not count them."""

import pytest
import trio

from rmqlab.remoting.codes import ResponseCode
from tests.broker.syncmaster import StartMaster

STRICT = {"ha_refuse_false_reports": True, "in_sync_replicas": 2}
FIRST = {
    "negative": [-1],
    "the least": [-(2**63)],
    "beyond the end": [10**12],
    "the largest": [2**63 - 1],
    "inside a message": [7],
    "all, then less": [0, 5, 3],
    "more than was sent": [0, 10**9],
}


@pytest.mark.parametrize("reports", FIRST.values(), ids=FIRST)
async def test_false_reports_acknowledge_no_send(start_master: StartMaster, reports: list[int]) -> None:
    """store-ha#37, #41, #52: with the switches; 4.9.8 believes each first report."""
    master = start_master(**STRICT)
    master.send()
    slave = await master.slave()
    for report in reports:
        with trio.move_on_after(5):  # the connection may be closed already
            try:
                await slave.report(report)
            except trio.BrokenResourceError:
                break
    await master.recorder.wait_until(
        lambda: "ha_first_report" in master.recorder.kinds or "ha_disconnected" in master.recorder.kinds
    )
    replies = master.send() + master.late()
    assert replies
    assert ResponseCode.SUCCESS not in {reply.code for reply in replies}


async def test_a_report_cut_into_bytes_counts_once_it_is_whole(start_master: StartMaster) -> None:
    master = start_master(**STRICT)
    slave = await master.slave()
    for byte in bytes(7):
        await slave.stream.send_all(bytes([byte]))
    assert master.send()[-1].code == ResponseCode.SLAVE_NOT_AVAILABLE
    await master.report(slave, 0)  # the eighth byte, and seven of the next report
    assert "ha_first_report" in master.recorder.kinds
