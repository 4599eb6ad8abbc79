"""Plays a text trace of one HA connection: commands in, what both sides do out.

No sockets, no waiting.

A trace is a file of blocks, each a line of commands and, below `----`, what follows from it:

    append 100
    ----
    0.000 master -> slave  frame 0 +100
    0.000 slave -> master  report 100

Lines that begin with `#` are comments. Commands, with times in seconds and everything else in bytes:

    set KEY=VALUE ...     settings of both sides, and `file_size` of a commit log file
    master FIRST..END     the master's log (its bytes follow from their offsets)
    slave FIRST..END [N]  the slave's log; from N on its bytes are not the master's
    append N              the master's log grows
    expire OFFSET         the master deletes its log before this offset
    connect               a connection is made, both timers start
    report OFFSET         a report that the slave's core did not send
    mute                  the slave's timers stand still from now on
    deliver N             let only N bytes more reach the slave, then cut the connection
    cut                   cut the connection
    wait SECONDS          let time pass, with every timer on the way
    logs                  show both logs, and whether the slave's bytes are the master's
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from rmqlab.broker.ha.receiver import LogReceiver
from rmqlab.broker.ha.sender import LogSender
from rmqlab.broker.ha.settings import HEADER_SIZE, HaSettings
from rmqlab.broker.ha.stream import HEADER, REPORT, MasterStream, SlaveStream, StreamError
from rmqlab.broker.ha.testing import FileSize, MemoryLog

SEPARATOR = "----"


@attrs.frozen
class Block:
    """Some commands of a trace, and the output that is expected of them."""

    comment: str
    commands: tuple[str, ...]
    expected: str


def parse_trace(text: str) -> list[Block]:
    """Split a trace at its empty lines. ValueError for a block without a separator."""
    blocks = []
    for part in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        lines = part.split("\n")
        comment = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
        rest = lines[len(comment) :]
        if not rest:
            blocks.append(Block("\n".join(comment), (), ""))
            continue
        if SEPARATOR not in rest:
            raise ValueError(f"expected {SEPARATOR} after {rest[0]!r}")
        at = rest.index(SEPARATOR)
        blocks.append(Block("\n".join(comment), tuple(rest[:at]), "\n".join(rest[at + 1 :])))
    return blocks


def format_trace(blocks: Sequence[Block]) -> str:
    """Write a trace as `parse_trace` reads it."""
    parts = []
    for block in blocks:
        lines = [block.comment] if block.comment else []
        if block.commands:
            lines += [*block.commands, SEPARATOR]
            lines += [block.expected] if block.expected else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def play(path: Path) -> list[Block]:
    """Play a trace from its beginning.

    Returns its blocks with the output that they gave now.
    """
    pair = Pair()
    return [attrs.evolve(block, expected=pair.play(block.commands)) for block in parse_trace(path.read_text())]


def log_bytes(first: int, end: int) -> bytes:
    """The bytes of a log, which follow from their offsets."""
    return bytes((offset * 31 + offset // 251) % 251 for offset in range(first, end))


@attrs.define(eq=False)
class Wire:
    """Bytes on their way from one side to the other.

    Used as a socket that does not block.
    """

    pending: bytearray = attrs.field(factory=bytearray)
    is_closed: bool = False

    def sendmsg(self, buffers: Sequence[bytes | memoryview], /) -> int:
        """Take everything, as long as nothing is on its way."""
        if self.pending:
            raise BlockingIOError
        for buffer in buffers:
            self.pending += buffer
        return len(self.pending)

    def recv_into(self, buffer: memoryview, /) -> int:
        """Return the bytes in flight; 0 after the connection was cut."""
        if not self.pending and not self.is_closed:
            raise BlockingIOError
        got = min(len(buffer), len(self.pending))
        buffer[:got] = self.pending[:got]
        del self.pending[:got]
        return got


@attrs.define(eq=False)
class Connection:
    """Both cores of one connection, and the wire between them."""

    master: MasterStream
    sender: LogSender
    slave: SlaveStream
    receiver: LogReceiver
    wire: Wire = attrs.field(factory=Wire)
    left: int | None = None
    """Bytes that still reach the slave before the connection is cut; None for no limit."""


class Pair:
    """A master and a slave, each with a log in memory."""

    def __init__(self) -> None:
        self.now = 0.0
        self._settings = HaSettings()
        self._file_size = 1000
        self._master_log = MemoryLog(FileSize(self._file_size))
        self._slave_log = MemoryLog(FileSize(self._file_size))
        self._connection: Connection | None = None
        self._is_mute = False
        self._output: list[str] = []
        self._commands: dict[str, Callable[..., None]] = {
            "set": self._set,
            "master": lambda span: self._fill(self._master_log, span),
            "slave": lambda span, differs_from=None: self._fill(self._slave_log, span, differs_from),
            "append": self._append,
            "expire": lambda offset: self._master_log.drop_before(int(offset)),
            "connect": self._connect,
            "mute": self._mute,
            "report": lambda offset: self._report(REPORT.pack(int(offset))),
            "deliver": self._deliver,
            "cut": lambda: self._close("the connection is cut"),
            "wait": self._wait,
            "logs": self._show_logs,
        }

    def play(self, commands: Sequence[str]) -> str:
        """Carry out commands; returns what both sides did."""
        self._output.clear()
        for line in commands:
            name, *arguments = line.split()
            self._commands[name](*arguments)
            self._exchange()
        return "\n".join(self._output)

    # ---- commands ----------------------------------------------------------------------------------------

    def _set(self, *pairs: str) -> None:
        changes: dict[str, Any] = {}
        for pair in pairs:
            key, value = pair.split("=")
            changes[key] = value == "on" if value in ("on", "off") else int(value)
        self._file_size = changes.pop("file_size", self._file_size)
        for log in (self._master_log, self._slave_log):
            log.config = FileSize(self._file_size)
        if size := changes.pop("slave_file_size", 0):
            self._slave_log.config = FileSize(size)
        self._settings = attrs.evolve(self._settings, **changes)

    @staticmethod
    def _fill(log: MemoryLog, span: str, differs_from: str | None = None) -> None:
        first, end = map(int, span.split(".."))
        equal_until = end if differs_from is None else int(differs_from)
        log.first = first
        log.data = bytearray(log_bytes(first, equal_until) + b"\xff" * (end - equal_until))

    def _append(self, count: str) -> None:
        end = self._master_log.max_commit_log_offset
        self._master_log.append(log_bytes(end, end + int(count)))

    def _connect(self) -> None:
        master = MasterStream.accepted(self._settings, self.now)
        slave = SlaveStream.connected(self._settings, self._slave_log.max_commit_log_offset, self.now)
        sender = LogSender(master, self._master_log, self._settings.ha_transfer_batch_size)
        self._connection = Connection(master, sender, slave, LogReceiver(slave, self._slave_log))
        self._check_timers()

    def _mute(self) -> None:
        self._is_mute = True

    def _deliver(self, count: str) -> None:
        assert self._connection is not None
        self._connection.left = int(count)

    def _wait(self, seconds: str) -> None:
        end = self.now + float(seconds)
        while (due := min(self._timers(), default=end)) < end:
            self.now = max(due, self.now)
            self._check_timers()
            self._exchange()
        self.now = end
        self._check_timers()

    def _show_logs(self) -> None:
        master, slave = self._master_log, self._slave_log
        first = max(master.min_commit_log_offset, slave.min_commit_log_offset)
        end = min(master.max_commit_log_offset, slave.max_commit_log_offset)
        is_equal = master.read_whole(first, end) == slave.read_whole(first, end)
        shared = f"equal in [{first}, {end})" if is_equal else f"different in [{first}, {end})"
        self._output.append(
            f"master {_span(master)}, slave {_span(slave)}, {shared if first < end else 'nothing shared'}"
        )

    # ---- what both sides do ------------------------------------------------------------------------------

    def _timers(self) -> Iterator[float]:
        if (connection := self._connection) is None:
            return
        yield connection.master.silent_at
        if connection.master.is_begun:
            yield connection.master.heartbeat_at
        if not self._is_mute:
            yield from (connection.slave.report_at, connection.slave.unreported_at)
            if connection.slave.silent_at is not None:
                yield connection.slave.silent_at

    def _check_timers(self) -> None:
        """As HaClient and HaConnection do it: silence first, then what is due."""
        if self._connection is not None and not self._is_mute:
            self._check_slave(self._connection.slave)
        if (connection := self._connection) is not None and self.now >= connection.master.silent_at:
            self._close("master: the slave was silent")

    def _check_slave(self, slave: SlaveStream) -> None:
        if slave.silent_at is not None and self.now >= slave.silent_at:
            self._close("slave: the master was silent")
        elif self.now >= slave.unreported_at:
            self._close("slave: no report left")
        elif (report := slave.repeated(self.now)) is not None:
            self._report(report)

    def _exchange(self) -> None:
        """Let both sides send and receive until neither has anything to do."""
        while (connection := self._connection) is not None and connection.master.is_begun:
            try:
                connection.sender.send(connection.wire, self.now)
            except StreamError as exc:
                self._close(f"master: {exc}")
                return
            if not connection.wire.pending:
                return
            self._show_frames(bytes(connection.wire.pending))
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        if connection.left is not None:
            del connection.wire.pending[connection.left :]
            connection.wire.is_closed = True
        had = self._slave_log.max_commit_log_offset
        trouble = ""
        try:
            while connection.wire.pending or connection.wire.is_closed:
                connection.receiver.receive(connection.wire, self.now)
        except StreamError as exc:
            trouble = f"slave: {exc}"
        if self._slave_log.max_commit_log_offset > had:
            report = connection.slave.advanced(self._slave_log.max_commit_log_offset, self.now)
            if report is not None and not connection.wire.is_closed:
                self._report(report)
        if trouble:
            self._close(trouble)

    def _report(self, report: bytes) -> None:
        assert self._connection is not None
        self._show(f"slave -> master  report {REPORT.unpack(report)[0]}")
        log = self._master_log
        try:
            self._connection.master.receive(
                report,
                log_end=log.max_commit_log_offset,
                log_first=log.min_commit_log_offset,
                file_size=self._file_size,
                now=self.now,
            )
        except StreamError as exc:
            self._close(f"master: {exc}")

    def _close(self, reason: str) -> None:
        self._show(f"closed  {reason}")
        self._connection = None

    def _show_frames(self, sent: bytes) -> None:
        while sent:
            offset, size = HEADER.unpack_from(sent)
            self._show(f"master -> slave  {f'frame {offset} +{size}' if size else f'heartbeat {offset}'}")
            sent = sent[HEADER_SIZE + size :]

    def _show(self, text: str) -> None:
        self._output.append(f"{self.now:.3f} {text}")


def _span(log: MemoryLog) -> str:
    return f"[{log.min_commit_log_offset}, {log.max_commit_log_offset})"
