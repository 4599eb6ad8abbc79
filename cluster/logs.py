"""The log files of nodes: their last lines, and what is added."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_TAIL_BYTES = 64 * 2**10


def last_lines(path: Path, count: int = 10, *, since: int = 0) -> list[str]:
    """The last lines of what was written after a position, whole or not."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since, end - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def added_lines(file: BinaryIO) -> Iterator[str]:
    """Whole lines written since the last call. The beginning of a line stays for the next one."""
    while True:
        start = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(start)
            return
        yield line.decode(errors="replace").rstrip("\n")
