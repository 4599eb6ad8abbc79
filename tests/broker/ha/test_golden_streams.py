"""Streams of a real 4.9.4 master and slave, replayed to either side of ours."""

import itertools
import json
import pathlib
import struct
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from rmqlab.broker.ha.receiver import LogReceiver
from rmqlab.broker.ha.sender import LogSender
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import MasterStream, SlaveStream, StreamError
from rmqlab.broker.ha.testing import FileSize, MemoryLog

WIRE = pathlib.Path(__file__).parents[2] / "golden" / "wire"
FILE = FileSize(65_536)  # of the recorded master; both sides had the same


@attrs.frozen
class Line:
    """One report or one frame."""

    at: float
    is_report: bool
    data: bytes

    @property
    def offset(self) -> int:
        return int(struct.unpack_from(">q", self.data)[0])


def connections(name: str) -> list[list[Line]]:
    """The recorded connections of a file, each a list of lines in order."""
    found: dict[int, list[Line]] = {}
    for text in (WIRE / f"{name}_ha_stream.jsonl").read_text().splitlines():
        line: dict[str, Any] = json.loads(text)
        found.setdefault(line["stream"], []).append(
            Line(line["t"], line["from"] == "slave", bytes.fromhex(line["hex"]))
        )
    return list(found.values())


CONNECTIONS = [
    pytest.param(lines, id=f"{name}[{number}]")
    for name in ("e1", "e2", "e3", "e4")
    for number, lines in enumerate(connections(name))
]


@attrs.define
class Bytes:
    """A socket that has these bytes and then blocks."""

    data: bytes

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self.data:
            raise BlockingIOError
        part = self.data[: len(buffer)]
        buffer[: len(part)] = part
        self.data = self.data[len(part) :]
        return len(part)


@attrs.define
class Sent:
    """A socket that takes everything."""

    data: bytearray = attrs.field(factory=bytearray)

    def sendmsg(self, buffers: Sequence[bytes | memoryview], /) -> int:
        before = len(self.data)
        for buffer in buffers:
            self.data += buffer
        return len(self.data) - before


def slave_log_before(lines: list[Line]) -> MemoryLog:
    """The slave's log of the length in its first report; its content is irrelevant."""
    end = lines[0].offset
    return MemoryLog(FILE, first=0, data=bytearray(end)) if end else MemoryLog(FILE)


def log_bytes(lines: list[Line]) -> dict[int, bytes]:
    return {line.offset: line.data[12:] for line in lines if not line.is_report and len(line.data) > 12}


@pytest.mark.parametrize("lines", CONNECTIONS)
def test_our_slave_fills_its_log_and_reports_as_the_recorded_one_did(lines: list[Line]) -> None:
    """store-ha#42, #43, #44, #45: the same offsets after the same frames."""
    log = slave_log_before(lines)
    stream = SlaveStream.connected(HaSettings(), log.max_commit_log_offset, lines[0].at - 5.0)
    receiver = LogReceiver(stream, log)
    ours, theirs, reported = [], [], lines[0].offset
    for line in lines:
        if not line.is_report:
            receiver.receive(Bytes(line.data), line.at)
            if (report := stream.advanced(log.max_commit_log_offset, line.at)) is not None:
                ours.append(int.from_bytes(report))
        elif line.offset != reported:  # reports that repeat the last one are a matter of time
            theirs.append(line.offset)
            reported = line.offset
    assert ours[: len(theirs)] == theirs
    assert len(ours) - len(theirs) <= 1  # a recording may stop between a frame and its report
    for offset, body in log_bytes(lines).items():
        assert log.read_log(offset, len(body)) == body


@pytest.mark.parametrize("lines", CONNECTIONS)
def test_recorded_slaves_kept_the_time_between_reports_that_ours_keeps(lines: list[Line]) -> None:
    """store-ha#39: repeated every 5 to 6 s, counted from the last report of any kind."""
    known = [line for line in lines if line.is_report]
    stream = SlaveStream.connected(HaSettings(), known[0].offset, known[0].at - 5.0)
    assert stream.repeated(stream.report_at) == known[0].data
    for before, line in itertools.pairwise(known):
        if line.offset > before.offset:
            assert stream.advanced(line.offset, line.at) == line.data
        else:
            assert stream.repeated(before.at + 4.99) is None
            assert stream.repeated(line.at + 0.01) == line.data


@pytest.mark.parametrize("lines", CONNECTIONS)
def test_our_master_begins_where_the_recorded_one_did_and_sends_the_same_bytes(lines: list[Line]) -> None:
    """store-ha#36, #37, #38: heartbeats aside, frames are equal too if read at once."""
    frames = [line for line in lines if not line.is_report]
    bodies = log_bytes(lines)
    end = max([offset + len(body) for offset, body in bodies.items()], default=frames[0].offset)
    log = MemoryLog(FILE, first=0, data=bytearray(end))
    for offset, body in bodies.items():
        log.data[offset : offset + len(body)] = body
    first_report = next(line for line in lines if line.is_report)

    stream = MasterStream.accepted(HaSettings(), 0.0)
    # Only what was there at the time decides where an empty slave begins.
    log_end = frames[0].offset if first_report.offset == 0 and frames[0].offset == 0 else end
    stream.receive(first_report.data, log_end=log_end, file_size=65_536, now=0.0)
    assert stream.next_offset == frames[0].offset

    sent = Sent()
    LogSender(stream, log, 32_768).send(sent, 0.0)
    at, first = 0, frames[0].offset
    while at < len(sent.data):
        offset, size = struct.unpack_from(">qi", sent.data, at)
        assert offset == first
        assert sent.data[at + 12 : at + 12 + size] == log.data[offset : offset + size]
        at += 12 + size
        first += size
    assert first == end


def test_our_master_closes_on_the_report_on_which_the_recorded_one_did() -> None:
    """store-ha#41, e4: the slave's log ends beyond the master's.

    The second report of a connection is refused.
    """
    refused = 0
    for lines in connections("e4"):
        stream = MasterStream.accepted(HaSettings(), 0.0)
        known = [line for line in lines if line.is_report]
        stream.receive(known[0].data, log_end=0, file_size=65_536, now=0.0)
        assert stream.next_offset == 71_818
        for line in known[1:]:
            assert line is known[-1]
            with pytest.raises(StreamError):
                stream.receive(line.data, log_end=0, file_size=65_536, now=5.0)
            refused += 1
    assert refused == 2
