"""How every process logs: at a limited rate for each place in the code, in lines that steer no terminal, in bounded files.

A peer decides how often a warning is logged and what stands in it. So each place may log MOST records in a period and then
says how many more there were; control characters are escaped; and the log of a node never takes more than twice FILE_BYTES
of disk: it is moved to `node.log.1` when it is full (issue 12.14).
"""

import copy
import logging
import os
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import attrs

from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.printable import printable, printable_lines

if TYPE_CHECKING:
    from types import TracebackType

MOST = 50
"""Records of one place in a period."""
PERIOD = 60.0
"""Real seconds."""
FILE_BYTES = 32 * 2**20
"""Bytes of one log file; there is a full one of before beside it."""
_LONGEST_MESSAGE = 8192
_LONGEST_TRACEBACK = 64 * 2**10
"""Characters."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_Place = tuple[str, int, str]
_ExcInfo = tuple[type[BaseException], BaseException, "TracebackType | None"] | tuple[None, None, None]


@attrs.define
class _Window:
    """The records of one place since a period began."""

    ends_at: float
    like: logging.LogRecord
    count: int = 0


class RateLimit(logging.Filter):
    """Passes the first MOST records of each place in a period; what it held back is counted in one line after it.

    A place is a line of code, and of those that log several kinds of things, the attribute `group` of the record.
    The line comes with the next record from anywhere.
    """

    def __init__(
        self,
        handler: logging.Handler,
        most: int = MOST,
        period: float = PERIOD,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._handler = handler
        self._most = most
        self._period = period
        self._now = now
        self._windows: dict[_Place, _Window] = {}
        self._next_end = float("inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_summary", False):
            return True
        now = self._now()
        if now >= self._next_end:
            self.end_periods(now)
        place = record.pathname, record.lineno, str(getattr(record, "group", ""))
        window = self._windows.get(place)
        if window is None:
            window = self._windows[place] = _Window(now + self._period, _bare(record))
            self._next_end = min(self._next_end, window.ends_at)
        window.count += 1
        return window.count <= self._most

    def end_periods(self, until: float = float("inf")) -> None:
        """Say what was held back in the periods that end until then."""
        for place, window in list(self._windows.items()):
            if window.ends_at <= until:
                self._windows.pop(place, None)
                if window.count > self._most:
                    self._handler.handle(self._summary(window))
        self._next_end = min((window.ends_at for window in list(self._windows.values())), default=float("inf"))

    def _summary(self, window: _Window) -> logging.LogRecord:
        summary = window.like
        more = window.count - self._most
        summary.msg = f"... {more:,} more like it in {self._period:g} s: {summary.msg}"
        summary.is_summary = True
        summary.created = time.time()
        return summary


def _bare(record: logging.LogRecord) -> logging.LogRecord:
    """Copy what names the place, without the values of this time: a traceback holds on to all that its frames hold."""
    bare = copy.copy(record)
    bare.msg = str(record.msg)
    bare.args, bare.exc_info, bare.exc_text, bare.stack_info = None, None, None, None
    return bare


class PlainFormatter(logging.Formatter):
    """One line for each record, in the cluster's time; more only for a traceback. Everything is cut to a length."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.msg = printable(cut_text(record.getMessage(), _LONGEST_MESSAGE))
        record.args = None
        return super().format(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        return printable_lines(cut_text(super().formatException(ei), _LONGEST_TRACEBACK))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        seconds, millis = divmod(wall_millis(), 1000)
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{millis:03}"


class LogFile(RotatingFileHandler):
    """A log of bounded size, the owner's alone. Where it takes the process's output too, that follows to the new file."""

    def __init__(self, path: Path, *, takes_output: bool, file_bytes: int = FILE_BYTES) -> None:
        self._takes_output = takes_output
        super().__init__(path, maxBytes=file_bytes, backupCount=1, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIO:  # type: ignore[override]
        return open_log(Path(self.baseFilename))

    def doRollover(self) -> None:  # noqa: N802 - logging's name
        super().doRollover()
        if self._takes_output and self.stream is not None:
            for descriptor in (1, 2):
                os.dup2(self.stream.fileno(), descriptor)


def open_log(path: Path) -> TextIO:
    """Open a log for appending; make it, for its owner alone, where it is missing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


def log_to_file(path: Path, *, takes_output: bool = False) -> None:
    """Let this process log to a file. `takes_output`: its stdout and stderr are that file as well."""
    _log_to(LogFile(path, takes_output=takes_output), FORMAT, logging.INFO)


def log_to_stderr(level: int = logging.INFO, layout: str = FORMAT) -> None:
    """Let this process log to stderr."""
    _log_to(logging.StreamHandler(sys.stderr), layout, level)


def _log_to(handler: logging.Handler, layout: str, level: int) -> None:
    """Make a handler the only one."""
    root = logging.getLogger()
    for before in root.handlers[:]:
        root.removeHandler(before)
        before.close()
    handler.setFormatter(PlainFormatter(layout))
    handler.addFilter(RateLimit(handler))
    root.addHandler(handler)
    root.setLevel(level)


def end_logging() -> None:
    """Say what was held back, and flush: the last thing a process does."""
    for handler in logging.getLogger().handlers:
        for limit in handler.filters:
            if isinstance(limit, RateLimit):
                limit.end_periods()
    logging.shutdown()
