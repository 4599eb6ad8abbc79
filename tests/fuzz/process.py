"""A process that is led to an evil server, and what became of it."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
SILENCE_SECONDS = 90.0
"""A process that writes nothing for so long is stuck."""
TAIL = 3000


@attrs.define(eq=False)
class Victim:
    """A running process with a log of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    _heard: int = 0
    _heard_at: float = attrs.field(factory=time.monotonic)

    @classmethod
    @contextlib.contextmanager
    def started(cls, name: str, directory: Path, module: str, *arguments: str) -> Iterator["Victim"]:
        """Run `python -m MODULE` for the length of the block."""
        log = directory / f"{name}.log"
        with log.open("wb") as output:
            command = [sys.executable, "-m", module, *arguments]
            path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=output, stderr=output)
        try:
            yield cls(name, process, log)
        finally:
            process.kill()
            process.wait()

    def complaints(self) -> list[str]:
        """How it ended, if it has, and its internal errors."""
        if (status := self.process.poll()) is None:
            text = self.log.read_text("utf-8", "replace")
            at = text.find("internal error in")
            return [] if at < 0 else [f"the {self.name} of evil servers has an {text[at : at + TAIL]}"]
        return [
            f"the {self.name} of evil servers ended with {status}:\n{self.log.read_text('utf-8', 'replace')[-TAIL:]}"
        ]

    def complaints_of_silence(self) -> list[str]:
        """Return True if it is paused."""
        if (size := self.log.stat().st_size) != self._heard:
            self._heard, self._heard_at = size, time.monotonic()
        if time.monotonic() - self._heard_at < SILENCE_SECONDS:
            return []
        return [f"the {self.name} of evil servers has written nothing for {SILENCE_SECONDS:g} s"]
