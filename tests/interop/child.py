"""One child process: started, heard, and always reaped."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rmqlab.cluster.supervisor.fork.child import prctl_function

_LINES_SHOWN = 40  # of a child's output, after an error
_PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """A child ended, or stayed silent, where it should not have.

    Carries its last lines.
    """


class Child:
    """A running program whose output is collected line by line.

    Leaving the `with` block kills what still runs. So does, on Linux, the end of the thread that started it: tests that
    are killed leave no JVM behind.
    """

    def __init__(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.name = name
        self._lines: list[str] = []
        self._heard = threading.Condition()
        self._ended = False  # no more lines will arrive
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C belongs to the tests, which end their children in order
            preexec_fn=_dying_with_this_thread(),  # noqa: PLW1509 -- it calls one C function
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> list[str]:
        with self._heard:
            return list(self._lines)

    def wait_line(self, pattern: str, timeout: float = 120.0) -> str:
        """Wait for a line matching `pattern`, at any position."""
        return self._lines[self.find_line(pattern, timeout, start=0)]

    def find_line(self, pattern: str, timeout: float, *, start: int) -> int:
        """Wait for a line matching `pattern`, from line number `start` on.

        Returns its number.
        """
        deadline = time.monotonic() + timeout
        with self._heard:
            seen = start
            while True:
                for number in range(seen, len(self._lines)):
                    if re.search(pattern, self._lines[number]):
                        return number
                seen = len(self._lines)
                if self._ended:
                    raise ChildError(self._account(f"ended without a line like {pattern!r}"))
                if not self._heard.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise ChildError(self._account(f"no line like {pattern!r} within {timeout:g} s"))

    def write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_exit(self, timeout: float = 120.0) -> int:
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildError(self._account(f"still running after {timeout:g} s")) from None
        self._reader.join(timeout)
        return code

    def check_running(self) -> None:
        """Raise if it has ended: waits for its output would fail."""
        if (code := self._process.poll()) is not None:
            raise ChildError(self._account(f"ended with exit code {code}"))

    def finish(self, timeout: float = 180.0) -> list[str]:
        """Wait for a program that ends by itself, with exit code 0; return its lines."""
        if code := self.wait_exit(timeout):
            raise ChildError(self._account(f"exit code {code}"))
        return self.lines

    def terminate(self, timeout: float = 120.0) -> int:
        """Stop it as an operator does (SIGTERM)."""
        self._process.terminate()
        return self.wait_exit(timeout)

    def kill(self) -> None:
        """kill -9. Harmless when it has ended already."""
        if self.is_running:
            self._process.send_signal(signal.SIGKILL)
        self.wait_exit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._reader.join()
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # it ended with a line unread
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._heard:
                self._lines.append(line.rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._ended = True
            self._heard.notify_all()

    def _account(self, what: str) -> str:
        shown = "\n".join(self._lines[-_LINES_SHOWN:])
        return f"{self.name} (pid {self.pid}): {what}\n{shown}"


def _dying_with_this_thread() -> Callable[[], object] | None:
    """Return a function for a forked child: Linux then kills it with this thread."""
    if sys.platform != "linux":
        return None
    prctl = prctl_function()  # loaded before the fork
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
