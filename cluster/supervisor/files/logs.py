"""The log files of nodes: their last lines, and appended lines."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from rmqlab.runtime.node.logfile import open_log
from rmqlab.runtime.regularfile import open_regular

_TAIL_BYTES = 64 * 2**10


def last_lines(path: Path, count: int = 10, *, since: int = 0) -> list[str]:
    """Return the last lines written after a position, including an incomplete one."""
    try:
        with open_regular(path) as file:
            end = file.seek(0, os.SEEK_END)
            if end < since:  # the full log was replaced by a new file
                since = 0
            file.seek(max(since, end - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


@attrs.define(eq=False)
class LogTail:
    """Follows a log from its current end, also across rotation."""

    path: Path
    _file: BinaryIO = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        open_log(self.path).close()
        self._file = open_regular(self.path)
        self._file.seek(0, os.SEEK_END)

    def added_lines(self) -> Iterator[str]:
        """Yield the complete lines since the last call.

        An incomplete line stays for the next call.
        """
        while True:
            is_last = not self._is_left()  # checked before reading, so that lines before the rotation are not lost
            yield from self._lines()
            if is_last:
                return
            self._file.close()
            self._file = open_regular(self.path)

    def close(self) -> None:
        self._file.close()

    def _is_left(self) -> bool:
        """Return True if the path is now another file."""
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:  # during the rotation
            return False

    def _lines(self) -> Iterator[str]:
        while True:
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(start)
                return
            yield line.decode(errors="replace").rstrip("\n")
