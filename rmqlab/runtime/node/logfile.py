"""Logging of all processes: rate-limited, escaped, in files of bounded size.

Peers influence how often a warning is logged, and its text. So each line of code logs at most MOST records per period,
followed by the number of suppressed records; control characters are escaped; and the log of a node uses at most twice
FILE_BYTES of disk: a full file is renamed to `node.log.1` (issue 12.14).
"""

import copy
import errno
import logging
import os
import stat
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import attrs

from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.text.printable import printable, printable_lines

if TYPE_CHECKING:
    from types import TracebackType

MOST = 50
"""Maximum number of records of one place per period."""
PERIOD = 60.0
"""Length of a period in real seconds."""
FILE_BYTES = 32 * 2**20
"""Maximum bytes of one log file; the previous full file is kept, too."""
_LONGEST_MESSAGE = 8192
_LONGEST_TRACEBACK = 64 * 2**10
"""Maximum characters of a traceback."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_Place = tuple[str, int, str]
_ExcInfo = tuple[type[BaseException], BaseException, "TracebackType | None"] | tuple[None, None, None]


@attrs.define
class _Window:
    """The number of records of one place in the current period."""

    ends_at: float
    like: logging.LogRecord
    count: int = 0


class RateLimit(logging.Filter):
    """Passes the first MOST records of each place per period.

    One line reports the number of the others.

    A place is a line of code, plus the attribute `group` of the record for lines that log different kinds of events.
    The summary line is logged before the next record of any place after the period.
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
        """Log the number of suppressed records of each period that ends by then."""
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
    """Return a copy without arguments and traceback.

    These would keep the objects of the traceback's frames alive.
    """
    bare = copy.copy(record)
    bare.msg = str(record.msg)
    bare.args, bare.exc_info, bare.exc_text, bare.stack_info = None, None, None, None
    return bare


class PlainFormatter(logging.Formatter):
    """Formats a record as one line of limited length, in the cluster's time.

    A traceback of limited length follows it.
    """

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.msg = printable(cut_text(record.getMessage(), _LONGEST_MESSAGE))
        record.args = None
        return super().format(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        return printable_lines(cut_text(super().formatException(ei), _LONGEST_TRACEBACK))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        from rmqlab.runtime.clock import wall_millis  # noqa: PLC0415 -- trio: short commands log without the time

        seconds, millis = divmod(wall_millis(), 1000)
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{millis:03}"


class LogFile(RotatingFileHandler):
    """A log of bounded size, readable by its owner only.

    stdout and stderr can be redirected to it.
    """

    def __init__(self, path: Path, *, takes_output: bool, file_bytes: int = FILE_BYTES) -> None:
        self._takes_output = takes_output
        super().__init__(path, maxBytes=file_bytes, backupCount=1, encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop a record that the disk does not accept: stderr is often the same file."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)

    def _open(self) -> TextIO:  # type: ignore[override]
        return open_log(Path(self.baseFilename))

    def doRollover(self) -> None:  # noqa: N802 - logging's name
        super().doRollover()
        if self._takes_output and self.stream is not None:
            for descriptor in (1, 2):
                os.dup2(self.stream.fileno(), descriptor)


def open_log(path: Path) -> TextIO:
    """Open a log for appending. A missing file is created, with mode 0600.

    OSError for a pipe: to open or write one waits for a reader.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # one with a reader; without one, `open` has failed
        os.close(descriptor)
        raise OSError(errno.ENXIO, "a pipe, not a file", os.fspath(path))
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


def redirect_output(path: Path) -> None:
    """Append stdout and stderr of this process to a log."""
    with open_log(path) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def log_to_file(path: Path, *, takes_output: bool = False) -> None:
    """Log to a file.

    `takes_output`: stdout and stderr are redirected to it (`redirect_output`), and follow it when it is rotated.
    """
    _log_to(LogFile(path, takes_output=takes_output), FORMAT, logging.INFO)


def log_to_stderr(level: int = logging.INFO, layout: str = FORMAT) -> None:
    """Log to stderr."""
    _log_to(logging.StreamHandler(sys.stderr), layout, level)


def _log_to(handler: logging.Handler, layout: str, level: int) -> None:
    """Replace all handlers of the root logger by this one."""
    root = logging.getLogger()
    for before in root.handlers[:]:
        root.removeHandler(before)
        before.close()
    handler.setFormatter(PlainFormatter(layout))
    handler.addFilter(RateLimit(handler))
    root.addHandler(handler)
    set_root_level(level)


def set_root_level(level: int) -> None:
    """Set the level of the root logger.

    logging clears a table of every logger for that, even if nothing changes: a forked process would copy the pages.
    """
    root = logging.getLogger()
    if root.level != level:
        root.setLevel(level)


def end_logging() -> None:
    """Log the numbers of suppressed records, and flush.

    Call it at the end of the process.
    """
    for handler in logging.getLogger().handlers:
        for limit in handler.filters:
            if isinstance(limit, RateLimit):
                limit.end_periods()
    logging.shutdown()
