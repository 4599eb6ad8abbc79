"""What the JVM writes to stderr: kept while it starts, passed on afterwards."""

import contextlib
import os
import re
import threading
from typing import Final

_MOST_KEPT: Final = 2**20
"""Bytes. A start that fails writes some kB."""
_NAMED = re.compile(r"(?:Exception in thread \"[^\"]*\" )?(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): (.+)")
"""The line of an exception: its class, and its message."""
_NO_REASON = re.compile(
    r"\s+at |\s+\.\.\. \d+ more|\[[\d.]+s\]|:: loading settings ::|(?:NOTE: )?Picked up \w+: |WARNING: "
    r"|Error: Could not create the Java|Error: A fatal exception|Error occurred during initialization of VM"
)
"""Beginnings of other lines."""


class JvmOutput:
    """A pipe for the stderr of a JVM, and the thread that reads it until the JVM ends."""

    def __init__(self) -> None:
        self._readable, self.descriptor = os.pipe()
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._is_kept = True
        self._reader = threading.Thread(target=self._read, name="stderr of the JVM", daemon=True)
        self._reader.start()

    def pass_on(self) -> None:
        """Write to stderr what was kept, and what follows."""
        with self._lock:
            self._is_kept = False
            _write(self._kept)
            self._kept.clear()

    def text(self) -> str:
        """Wait until the JVM has ended, and return what was kept."""
        self._reader.join(timeout=10)
        with self._lock:
            return self._kept.decode(errors="replace")

    def close(self) -> None:
        """Close the end of the pipe that the JVM has inherited."""
        os.close(self.descriptor)

    def _read(self) -> None:
        with contextlib.closing(os.fdopen(self._readable, "rb", buffering=0)) as pipe:
            while chunk := pipe.read(65536):
                with self._lock:
                    if not self._is_kept:
                        _write(chunk)
                    elif len(self._kept) < _MOST_KEPT:
                        self._kept += chunk


def reason_of(text: str) -> str:
    """Return from a JVM's output why it did not start, in one line.

    Of exceptions the messages of the first and the last, without the names of their classes. Empty if nothing says it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NO_REASON.match(line)]
    messages = [named[1] for line in lines if (named := _NAMED.fullmatch(line))] or lines[:1]
    return ", caused by ".join(dict.fromkeys([*messages[:1], *messages[-1:]]))


def _write(data: bytes | bytearray) -> None:
    with contextlib.suppress(OSError):  # stderr is closed, or a pipe whose reader has ended
        view = memoryview(bytes(data))
        while view:
            view = view[os.write(2, view) :]
