"""Frames of the log, sent through a socket that accepts arbitrary chunks."""

import struct
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.broker.ha.sender import PASS_SIZE, LogSender
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import MasterStream, StreamError
from rmqlab.broker.ha.testing import FileSize, MemoryLog


@attrs.define
class Wire:
    """A socket.

    Takes as many bytes a call as `takes` says, then blocks; without `takes`, everything.
    """

    takes: list[int] | None = None
    got: bytearray = attrs.field(factory=bytearray)

    def sendmsg(self, buffers: Sequence[bytes | memoryview], /) -> int:
        data = b"".join(buffers)
        if self.takes is not None:
            if not self.takes:
                raise BlockingIOError
            data = data[: self.takes.pop(0)]
        self.got += data
        return len(data)


def frames(wire: bytes | bytearray) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(wire):
        offset, size = struct.unpack_from(">qi", wire, at)
        found.append((offset, bytes(wire[at + 12 : at + 12 + size])))
        at += 12 + size
    return found


def sender_of(log: MemoryLog, report: int, *, frame_size: int = 32_768, now: float = 0.0) -> LogSender:
    stream = MasterStream.accepted(HaSettings(), 0.0)
    stream.receive(
        struct.pack(">q", report),
        log_end=log.max_commit_log_offset,
        file_size=log.config.mapped_file_size_commit_log,
        now=now,
    )
    return LogSender(stream, log, frame_size)


def log_of(size: int, file_size: int = 65_536, first: int = 0) -> MemoryLog:
    return MemoryLog(FileSize(file_size), first=first, data=bytearray(index * 7 % 251 for index in range(size)))


def test_frames_are_contiguous_bounded_and_within_one_file() -> None:
    """store-ha#38, #45."""
    log, wire = log_of(150_000), Wire()
    assert sender_of(log, 100).send(wire, 0.0) is False
    sent = frames(wire.got)
    assert [(offset, len(body)) for offset, body in sent] == [
        (100, 32_768),
        (32_868, 32_668),
        (65_536, 32_768),
        (98_304, 32_768),
        (131_072, 18_928),
    ]
    assert b"".join(body for _, body in sent) == log.data[100:]


@given(st.lists(st.integers(1, 40), max_size=200), st.integers(1, 30))
def test_a_socket_with_a_small_buffer_receives_the_same_bytes(takes: list[int], frame_size: int) -> None:
    """store-ha#46, from master to slave: cuts in headers, in bodies, between passes."""
    whole, cut = Wire(), Wire()
    sender_of(log_of(300, 64), 5, frame_size=frame_size).send(whole, 0.0)
    sender = sender_of(log_of(300, 64), 5, frame_size=frame_size)
    for count in takes:
        cut.takes = [count]
        sender.send(cut, 0.0)
    cut.takes = None
    assert sender.send(cut, 0.0) is False
    assert cut.got == whole.got


def test_an_unsent_frame_is_rebuilt_with_the_newly_appended_bytes() -> None:
    log, wire = log_of(100), Wire(takes=[])
    sender = sender_of(log, 10)
    assert sender.send(wire, 0.0) is True
    log.append(b"x" * 50)
    wire.takes = None
    sender.send(wire, 0.0)
    assert [len(body) for _, body in frames(wire.got)] == [140]


def test_a_frame_that_was_begun_keeps_its_size() -> None:
    log, wire = log_of(100), Wire(takes=[3])
    sender = sender_of(log, 10)
    sender.send(wire, 0.0)
    log.append(b"x" * 50)
    wire.takes = None
    sender.send(wire, 0.0)
    assert [len(body) for _, body in frames(wire.got)] == [90, 50]


def test_a_due_heartbeat_is_sent_before_data_and_never_within_a_frame() -> None:
    """store-ha#39."""
    log, wire = log_of(100), Wire(takes=[20])
    sender = sender_of(log, 10)
    sender.send(wire, 4.9)
    log.append(b"x" * 50)
    wire.takes = None
    sender.stream.last_write_at = 0.0
    sender.send(wire, 5.0)
    sender.stream.last_write_at = 0.0
    log.append(b"y")
    sender.send(wire, 5.0)
    assert [(offset, len(body)) for offset, body in frames(wire.got)] == [(10, 90), (100, 50), (150, 0), (150, 1)]


def test_an_idle_heartbeat_names_the_next_offset() -> None:
    """store-ha#39, #44: also where the log ends at the start of a file."""
    log, wire = log_of(100), Wire()
    sender = sender_of(log, 100)
    assert sender.send(wire, 4.9) is False
    assert wire.got == b""
    sender.send(wire, 5.0)
    sender.send(wire, 9.9)
    sender.send(wire, 10.0)
    assert frames(wire.got) == [(100, b""), (100, b"")]


@pytest.mark.parametrize("wanted", [10, 70_000], ids=["expired", "beyond the end"])
def test_a_request_beyond_the_log_gets_heartbeats_only(wanted: int) -> None:
    """store-ha#57."""
    wire = Wire()
    sender = sender_of(log_of(100, first=65_536), wanted)
    sender.send(wire, 1.0)
    sender.send(wire, 5.0)
    assert frames(wire.got) == [(wanted, b"")]


def test_a_file_that_expires_within_a_frame_ends_the_connection() -> None:
    log, wire = log_of(65_536 + 100), Wire(takes=[50])
    sender = sender_of(log, 10)
    sender.send(wire, 0.0)
    log.drop_before(65_536)
    wire.takes = None
    with pytest.raises(StreamError, match="the log lost the bytes from 10 on"):
        sender.send(wire, 0.0)


def test_a_pass_ends_although_there_is_more() -> None:
    log, wire = log_of(PASS_SIZE + 2**21, 2**26), Wire()
    sender = sender_of(log, 1)
    assert sender.send(wire, 0.0) is True
    assert PASS_SIZE <= len(wire.got) < PASS_SIZE + 2**21
    assert sender.send(wire, 0.0) is False
    assert b"".join(body for _, body in frames(wire.got)) == log.data[1:]
