"""Frames received into a log from a socket with arbitrary chunks."""

import errno
import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.broker.ha.receiver import MANY_FRAMES, PASS_SIZE, LogReceiver
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import SlaveStream, StreamError
from rmqlab.broker.ha.testing import FileSize, MemoryLog


@attrs.define
class Wire:
    """A socket.

    `wire` has the remaining bytes; a call returns at most `gives` bytes, and blocks if that is 0.
    """

    wire: bytes
    gives: list[int] = attrs.field(factory=list)
    ends: bool = False
    calls: int = 0

    def recv_into(self, buffer: memoryview, /) -> int:
        self.calls += 1
        if not self.wire and self.ends:
            return 0
        limit = self.gives.pop(0) if self.gives else len(self.wire)
        if not self.wire or limit == 0:
            raise BlockingIOError
        part = self.wire[: min(len(buffer), limit)]
        buffer[: len(part)] = part
        self.wire = self.wire[len(part) :]
        return len(part)


def frame(offset: int, body: bytes = b"") -> bytes:
    return struct.pack(">qi", offset, len(body)) + body


def framed(data: bytes, size: int, first: int = 0) -> bytes:
    return b"".join(frame(first + at, data[at : at + size]) for at in range(0, len(data), size))


def receiver_of(log: MemoryLog) -> LogReceiver:
    return LogReceiver(SlaveStream.connected(HaSettings(), log.max_commit_log_offset, 0.0), log)


@given(
    st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=20),
    st.lists(st.integers(0, 400), max_size=60),
)
def test_cuts_in_the_stream_change_nothing(sizes: list[tuple[int, bool]], gives: list[int]) -> None:
    """store-ha#46, #45: with heartbeats between frames, and calls that block anywhere."""
    wire, expected = b"", b""
    for size, is_beat in sizes:
        wire += frame(len(expected)) if is_beat else b""
        body = bytes((len(expected) + index) % 251 for index in range(size))
        wire += frame(len(expected), body)
        expected += body
    log = MemoryLog(FileSize(2**20))
    receiver, sock = receiver_of(log), Wire(wire, gives)
    while sock.wire:
        receiver.receive(sock, 0.0)
    assert log.data == expected


def test_a_stream_received_byte_by_byte_fills_the_same_log() -> None:
    """store-ha#46."""
    data = bytes(range(256)) * 3
    log, wire = MemoryLog(), framed(data, 100)
    receiver, sock = receiver_of(log), Wire(wire, [1] * len(wire))
    while sock.wire:
        receiver.receive(sock, 0.0)
    assert log.data == data


def test_only_whole_frames_count() -> None:
    """store-ha#42: half a frame is neither appended nor reported."""
    log = MemoryLog()
    receiver = receiver_of(log)
    receiver.receive(Wire(frame(0, b"whole") + frame(5, b"half of it")[:-1]), 0.0)
    assert log.data == b"whole"
    assert receiver.stream.advanced(log.max_commit_log_offset, 0.0) == struct.pack(">q", 5)
    receiver.receive(Wire(b"t"), 0.0)
    assert log.data == b"wholehalf of it"


def test_one_receive_call_handles_many_frames() -> None:
    data = bytes(20 * 32_768)
    log, sock = MemoryLog(FileSize(2**20)), Wire(framed(data, 32_768))
    receiver_of(log).receive(sock, 0.0)
    assert log.data == data
    assert sock.calls <= 4


@pytest.mark.parametrize("gives", [[], [100_000] * 20, [12, 1, 300_000, 5] * 9])
def test_a_frame_larger_than_the_buffer_is_taken_like_any_other(gives: list[int]) -> None:
    data = bytes(number % 251 for number in range(900_000))
    wire = frame(0, data[:100]) + frame(100, data[100:700_000]) + framed(data[700_000:], 50_000, first=700_000)
    log, sock = MemoryLog(FileSize(2**20)), Wire(wire, list(gives))
    receiver = receiver_of(log)
    while sock.wire:
        receiver.receive(sock, 0.0)
    assert log.data == data


def test_a_pass_ends_although_there_is_more() -> None:
    data = bytes(2 * PASS_SIZE)
    log, sock = MemoryLog(FileSize(2**22)), Wire(framed(data, 2**17))
    receiver = receiver_of(log)
    receiver.receive(sock, 0.0)
    assert PASS_SIZE / 2 < len(log.data) < 2 * PASS_SIZE
    while sock.wire:
        receiver.receive(sock, 0.0)
    assert log.data == data


@pytest.mark.parametrize(
    ("first", "log_first"),
    [
        pytest.param(65_536, 65_536, id="store-ha#44 at a file's start"),
        pytest.param(65_600, 65_536, id="section 4.5: elsewhere, written at the file's first byte"),
    ],
)
def test_an_empty_slave_begins_where_the_master_does(first: int, log_first: int) -> None:
    log = MemoryLog()
    receiver = receiver_of(log)
    receiver.receive(Wire(frame(first)), 0.0)
    assert (log.min_commit_log_offset, log.max_commit_log_offset) == (log_first, log_first)
    assert receiver.stream.advanced(log.max_commit_log_offset, 0.0) == struct.pack(">q", log_first)


def test_a_stream_that_began_inside_a_file_contradicts_itself_next() -> None:
    """store-ha#43: only a file-aligned start is accepted."""
    log = MemoryLog()
    receiver = receiver_of(log)
    with pytest.raises(StreamError, match="from 65610 on, our log ends at 65546"):
        receiver.receive(Wire(frame(65_600, b"0123456789") + frame(65_610, b"more")), 0.0)
    assert log.data == b"0123456789"


@pytest.mark.parametrize("offset", [4, 6, 0])
def test_an_invalid_frame_offset_ends_the_stream_before_the_body_arrives(offset: int) -> None:
    """store-ha#43."""
    log = MemoryLog()
    receiver = receiver_of(log)
    with pytest.raises(StreamError, match=f"from {offset} on, our log ends at 5"):
        receiver.receive(Wire(frame(0, b"first") + frame(offset, b"x" * 100)[:12]), 0.0)
    assert log.data == b"first"


def test_a_body_that_does_not_fit_is_dropped_and_the_next_header_contradicts() -> None:
    """Section 4.5: what differing file sizes lead to."""
    log = MemoryLog(FileSize(100))
    receiver = receiver_of(log)
    receiver.receive(Wire(frame(0, b"x" * 60) + frame(60, b"y" * 50)), 0.0)
    assert log.data == b"x" * 60
    with pytest.raises(StreamError, match="from 110 on, our log ends at 60"):
        receiver.receive(Wire(frame(110)), 0.0)


def test_a_large_body_that_does_not_fit_is_dropped_across_passes() -> None:
    log = MemoryLog(FileSize(100))
    receiver, sock = receiver_of(log), Wire(frame(0, b"y" * 50_000), [1000, 3000])
    while sock.wire:
        receiver.receive(sock, 0.0)
    assert log.data == b""


def test_a_disk_without_room_ends_the_stream_with_the_reason() -> None:
    log = MemoryLog(fails_with=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(StreamError, match="cannot append 4 bytes at 0: No space left"):
        receiver_of(log).receive(Wire(frame(0, b"body")), 0.0)


@pytest.mark.parametrize("cut", [0, 5, 20])
def test_the_end_of_the_stream_is_reported(cut: int) -> None:
    log = MemoryLog()
    receiver, sock = receiver_of(log), Wire(frame(0, b"x" * 50)[:cut], ends=True)
    if cut:
        receiver.receive(sock, 0.0)
    with pytest.raises(StreamError, match="closed by the master"):
        receiver.receive(sock, 0.0)
    assert log.data == b""


@given(st.binary(max_size=300), st.lists(st.integers(0, 40), max_size=60), st.integers(0, 3))
def test_whatever_a_master_sends_is_frames_or_the_end(data: bytes, gives: list[int], frames: int) -> None:
    """The log contains only whole frames that continue it, for any size and offset."""
    log = MemoryLog(FileSize(2**20))
    receiver = receiver_of(log)
    sock = Wire(framed(b"x" * 10 * frames, 10) + data, gives, ends=True)
    good = b"x" * 10 * frames
    try:
        for _ in range(500):
            receiver.receive(sock, 0.0)
    except StreamError:
        pass
    else:
        raise AssertionError("the stream ended, and nobody noticed")
    assert log.data.startswith(good) or good.startswith(log.data)
    assert log.data[len(good) :] in _bodies(data, len(log.data) - len(log.data[len(good) :]), empty=not frames)


def _bodies(data: bytes, end: int, *, empty: bool) -> list[bytes]:
    """Return the possible gains of a log by frames in `data` that continue at `end`."""
    gained = [b""]
    while len(data) >= 12:
        offset, size = struct.unpack(">qi", data[:12])
        if size < 0 or len(data) < 12 + size or (offset != end and not (empty and len(gained[-1]) == 0)):
            break
        gained.append(gained[-1] + data[12 : 12 + size])
        end, data = offset + size, data[12 + size :]
        if offset + size < 0:
            break
    return gained


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(struct.pack(">qi", 5, -1), id="negative size"),
        pytest.param(struct.pack(">qi", 5, 2**31 - 1), id="size of 2 GiB"),
        pytest.param(struct.pack(">qi", -5, 4), id="negative offset"),
        pytest.param(struct.pack(">qi", 2**62, 4), id="offset far away"),
    ],
)
def test_a_header_out_of_range_ends_the_stream_and_writes_nothing(header: bytes) -> None:
    log = MemoryLog()
    receiver = receiver_of(log)
    with pytest.raises(StreamError):
        receiver.receive(Wire(frame(0, b"first") + header + b"body"), 0.0)
    assert log.data == b"first"


@pytest.mark.parametrize("size", [0, 1])
def test_a_flood_of_tiny_frames_gives_other_sockets_their_turn(size: int) -> None:
    """A pass over heartbeats without a pause took 0.3 s."""
    log = MemoryLog()
    receiver, body = receiver_of(log), b"x" * size
    wire = Wire(b"".join(frame(number * size, body) for number in range(60_000)))
    passes = list[int]()
    while wire.wire:
        before = len(wire.wire)
        receiver.receive(wire, 0.0)
        passes.append((before - len(wire.wire)) // (12 + size))
    assert max(passes[1:]) <= 2 * MANY_FRAMES
    assert log.max_commit_log_offset == 60_000 * size


def test_large_frames_are_received_in_large_pieces_again() -> None:
    log = MemoryLog()
    receiver = receiver_of(log)
    wire = Wire(b"".join(frame(0) for _ in range(50_000)) + framed(b"y" * 8 * PASS_SIZE, 32 * 1024))
    passes = 0
    while wire.wire:
        receiver.receive(wire, 0.0)
        passes += 1
        if log.max_commit_log_offset == 0:
            passes = 0
    assert log.max_commit_log_offset == 8 * PASS_SIZE
    assert passes <= 12
