"""The protocol of both sides, without bytes of any log."""

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.broker.ha.settings import MAX_FRAME, HaSettings
from rmqlab.broker.ha.stream import BadFrameError, FrameHeader, MasterStream, SlaveStream, StreamError

FILE = 65_536
SETTINGS = HaSettings()


def reports(*offsets: int) -> bytes:
    return b"".join(struct.pack(">q", offset) for offset in offsets)


def receive(stream: MasterStream, data: bytes, *, log_end: int = 200_000, now: float = 0.0) -> int | None:
    return stream.receive(data, log_end=log_end, file_size=FILE, now=now)


# ---- the master's side -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "log_end", "position"),
    [
        pytest.param(0, 0, 0, id="store-ha#36 nothing on either side"),
        pytest.param(0, 70_031, 65_536, id="store-ha#36 start of the last file"),
        pytest.param(0, 65_536, 65_536, id="store-ha#36 the last file is full"),
        pytest.param(777, 70_031, 777, id="store-ha#37 inside a record"),
        pytest.param(70_031, 70_031, 70_031, id="store-ha#37 caught up"),
        pytest.param(90_000, 70_031, 90_000, id="store-ha#37 beyond our end"),
    ],
)
def test_the_first_report_decides_where_sending_begins(report: int, log_end: int, position: int) -> None:
    stream = MasterStream.accepted(SETTINGS, 0.0)
    assert receive(stream, reports(report), log_end=log_end) == report
    assert (stream.request_offset, stream.ack_offset, stream.next_offset) == (report, report, position)


def test_nothing_is_begun_before_a_whole_report() -> None:
    """store-ha#35."""
    stream = MasterStream.accepted(SETTINGS, 0.0)
    assert receive(stream, reports(5)[:7]) is None
    assert not stream.is_begun
    assert receive(stream, reports(5)[7:]) == 5
    assert stream.is_begun


def test_of_several_reports_only_the_last_whole_one_counts() -> None:
    stream = MasterStream.accepted(SETTINGS, 0.0)
    assert receive(stream, reports(10, 999_999, 30) + b"\0") == 30
    assert stream.request_offset == 30
    assert receive(stream, reports(40)[1:]) == 40


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=20), st.data())
def test_cuts_in_the_reports_change_nothing(offsets: list[int], data: st.DataObject) -> None:
    """store-ha#46, from slave to master."""
    stream, wire = MasterStream.accepted(SETTINGS, 0.0), reports(*offsets)
    seen = []
    while wire:
        step = data.draw(st.integers(1, len(wire)))
        answer = receive(stream, wire[:step])
        wire = wire[step:]
        if answer is not None:
            seen.append(answer)
    assert seen[-1] == stream.ack_offset == offsets[-1]
    assert stream.request_offset == seen[0]


def test_a_later_report_beyond_our_end_is_refused_and_acknowledges_nothing() -> None:
    """store-ha#41; the first one is not looked at."""
    stream = MasterStream.accepted(SETTINGS, 0.0)
    assert receive(stream, reports(500), log_end=100) == 500
    with pytest.raises(StreamError, match="reported 101, our log ends at 100"):
        receive(stream, reports(101), log_end=100)
    assert stream.ack_offset == 500


HARD = attrs.evolve(SETTINGS, ha_refuse_false_reports=True, ha_restart_expired_slave=True)


@pytest.mark.parametrize("first", [101, 81, 39, 2**63 - 1])
def test_an_impossible_first_report_is_rejected_with_the_switch(first: int) -> None:
    """Beyond the end, beyond what we can have given, before our first byte."""
    stream = MasterStream.accepted(HARD, 0.0)
    with pytest.raises(StreamError):
        stream.receive(reports(first), log_first=40, log_end=100, max_servable_offset=80, file_size=FILE, now=0.0)
    assert (stream.is_begun, stream.ack_offset) == (False, -1)
    stream = MasterStream.accepted(SETTINGS, 0.0)
    assert (
        stream.receive(reports(first), log_first=40, log_end=100, max_servable_offset=80, file_size=FILE, now=0.0)
        == first
    )


@pytest.mark.parametrize("first", [0, 40, 80])
def test_a_first_report_that_may_be_true_is_taken(first: int) -> None:
    stream = MasterStream.accepted(HARD, 0.0)
    assert (
        stream.receive(reports(first), log_first=40, log_end=100, max_servable_offset=80, file_size=FILE, now=0.0)
        == first
    )


def test_a_later_report_of_what_was_not_sent_is_refused_where_that_is_switched_on() -> None:
    stream = MasterStream.accepted(HARD, 0.0)
    assert receive(stream, reports(50)) == 50
    stream.next_offset = 60
    assert receive(stream, reports(60)) == 60
    with pytest.raises(StreamError, match="reported 61, and was sent bytes up to 60 only"):
        receive(stream, reports(61))
    assert stream.ack_offset == 60


@pytest.mark.parametrize("log_first", [0, FILE])
def test_an_empty_slave_gets_all_where_that_is_switched_on(log_first: int) -> None:
    stream = MasterStream.accepted(attrs.evolve(SETTINGS, ha_bootstrap_from_first_byte=True), 0.0)
    stream.receive(reports(0), log_first=log_first, log_end=5 * FILE + 7, file_size=FILE, now=0.0)
    assert stream.next_offset == log_first


@given(
    st.binary(max_size=200),
    st.lists(st.integers(1, 40), max_size=30),
    st.integers(0, 2**40),
    st.booleans(),
)
def test_any_input_is_a_report_or_closes_the_connection(
    data: bytes,
    cuts: list[int],
    log_end: int,
    switched: bool,  # noqa: FBT001 - hypothesis gives it by position
) -> None:
    """No other error.

    Nothing beyond our end is acknowledged after the first, and nothing at all below zero.
    """
    stream = MasterStream.accepted(HARD if switched else SETTINGS, 0.0)
    stream_of = iter(cuts)
    try:
        while data:
            cut = next(stream_of, len(data))
            was_begun = stream.is_begun
            ack = receive(stream, data[:cut], log_end=log_end)
            data = data[cut:]
            if ack is not None:
                assert 0 <= ack <= (log_end if was_begun or switched else 2**63)
    except StreamError:
        pass
    assert len(stream._cut) < 8


def test_a_report_below_zero_is_refused() -> None:
    with pytest.raises(StreamError, match="reported -1"):
        receive(MasterStream.accepted(SETTINGS, 0.0), reports(-1))


def test_a_slave_is_given_up_20_s_after_accept_or_after_its_last_byte() -> None:
    """store-ha#40."""
    stream = MasterStream.accepted(SETTINGS, 100.0)
    assert stream.silent_at == 120.0
    receive(stream, b"\0", now=110.0)
    assert stream.silent_at == 130.0


def test_a_heartbeat_is_due_5_s_after_accept_or_after_the_last_bytes_out() -> None:
    """store-ha#39."""
    stream = MasterStream.accepted(SETTINGS, 100.0)
    assert stream.heartbeat_at == 105.0
    stream.wrote(103.0)
    assert stream.heartbeat_at == 108.0


# ---- the slave's side --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 32_768, MAX_FRAME - 12])
def test_a_header_that_continues_the_log_is_taken(size: int) -> None:
    stream = SlaveStream.connected(SETTINGS, 300, 0.0)
    assert stream.header(struct.pack(">qi", 300, size), log_end=300) == FrameHeader(300, size)


@pytest.mark.parametrize("offset", [299, 301, 0])
@pytest.mark.parametrize("size", [pytest.param(0, id="heartbeat"), pytest.param(10, id="data")])
def test_a_header_that_contradicts_the_log_is_refused(offset: int, size: int) -> None:
    """store-ha#43; the text names both offsets."""
    stream = SlaveStream.connected(SETTINGS, 300, 0.0)
    with pytest.raises(StreamError, match=f"from {offset} on, our log ends at 300"):
        stream.header(struct.pack(">qi", offset, size), log_end=300)


def test_an_empty_slave_accepts_any_offset() -> None:
    """store-ha#43."""
    stream = SlaveStream.connected(SETTINGS, 0, 0.0)
    assert stream.header(struct.pack(">qi", 131_072, 10), log_end=0).offset == 131_072


@pytest.mark.parametrize("size", [-1, MAX_FRAME - 11, 2**31 - 1])
def test_a_frame_larger_than_the_limit_of_4_9_is_rejected(size: int) -> None:
    with pytest.raises(StreamError, match=f"frame of {size} bytes"):
        SlaveStream.connected(SETTINGS, 0, 0.0).header(struct.pack(">qi", 0, size), log_end=0)


def test_the_first_report_is_sent_5_s_after_connecting_with_the_current_offset() -> None:
    """store-ha#39."""
    stream = SlaveStream.connected(SETTINGS, 300, 100.0)
    assert stream.repeated(104.9) is None
    assert stream.repeated(105.0) == reports(300)
    assert stream.repeated(105.1) is None
    assert stream.repeated(110.0) == reports(300)


def test_the_first_report_leaves_at_once_where_that_is_switched_on() -> None:
    """Wire-compatible (section 4.6)."""
    stream = SlaveStream.connected(attrs.evolve(SETTINGS, ha_report_at_once=True), 300, 100.0)
    assert stream.repeated(100.0) == reports(300)
    assert stream.repeated(100.1) is None


def test_a_raised_offset_is_reported_and_delays_the_next_report() -> None:
    """store-ha#42, #39."""
    stream = SlaveStream.connected(SETTINGS, 300, 100.0)
    assert stream.advanced(300, 101.0) is None
    assert stream.advanced(400, 102.0) == reports(400)
    assert stream.advanced(400, 102.0) is None
    assert stream.repeated(106.9) is None
    assert stream.repeated(107.0) == reports(400)


def test_a_silent_master_is_never_given_up_unless_that_is_switched_on() -> None:
    assert SlaveStream.connected(SETTINGS, 0, 100.0).silent_at is None
    stream = SlaveStream.connected(attrs.evolve(SETTINGS, ha_drop_silent_master=True), 0, 100.0)
    assert stream.silent_at == 120.0


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 2**62 + 1])
def test_an_empty_log_does_not_begin_at_what_is_no_offset(offset: int) -> None:
    """Issue 12.14: any other first offset is taken (section 4.5)."""
    stream = SlaveStream.connected(SETTINGS, 0, 100.0)
    with pytest.raises(BadFrameError):
        stream.header(struct.pack(">qi", offset, 10), log_end=0)


def test_a_slave_gives_up_when_no_report_left_for_the_housekeeping_interval() -> None:
    """HAClient.run: written bytes count, and the connect.

    Received bytes do not.
    """
    stream = SlaveStream.connected(attrs.evolve(SETTINGS, ha_housekeeping_interval=3000), 300, 100.0)
    assert stream.unreported_at == 103.0
    stream.last_read_at = 102.0
    assert stream.unreported_at == 103.0
    assert stream.advanced(400, 102.5) is not None
    assert stream.unreported_at == 105.5
