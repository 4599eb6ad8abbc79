"""Audits of ever larger runs, end to end, each in a process of its own.

The measured time is from the start of the process to its exit status. Prints seconds, how they grow against the
messages, and the most memory that any process of each kind held. The driver's must not grow with the run: nothing but
summaries comes to it.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.bench.bigrun import LOST, write_run

_POLL_SECONDS = 0.2
VIOLATED = 1
"""The exit status that the planted losses ask for."""


@attrs.frozen(kw_only=True)
class Audited:
    """What one audit took.

    Memory in MB: the most that was seen, mapped files left out.
    """

    messages: int
    byte_count: int
    seconds: float
    driver: float
    jvm: float
    worker: float

    def line(self, before: "Audited | None") -> str:
        grew = ""
        if before is not None:
            grew = f"   {self.messages / before.messages:.0f} x messages, {self.seconds / before.seconds:.1f} x time"
        return (
            f"{self.messages:10,} messages {self.byte_count / 1e6:8,.0f} MB {self.seconds:7.1f} s"
            f"   driver {self.driver:,.0f} MB, JVM {self.jvm:,.0f} MB, largest worker {self.worker:,.0f} MB{grew}"
        )


def measure(directory: Path, counts: list[int], memory: str) -> None:
    """Make, audit and delete each run; print its figures."""
    before = None
    for count in counts:
        run = directory / f"audit-{count}"
        byte_count = write_run(run, count)
        found = audit(run, count, byte_count, memory)
        print(found.line(before), flush=True)
        shutil.rmtree(run)
        before = found


def audit(run: Path, count: int, byte_count: int, memory: str) -> Audited:
    """Audit a run by the command line, and watch how much its processes hold."""
    command = [sys.executable, "-m", "rmqlab.cluster", "audit", str(run), "--memory", memory]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peaks: dict[str, float] = {}
    while process.poll() is None:
        for pid, kind in family(process.pid):
            peaks[kind] = max(peaks.get(kind, 0.0), own_mb(pid))
        time.sleep(_POLL_SECONDS)
    seconds = time.perf_counter() - began
    assert process.stdout is not None
    output = process.stdout.read()
    if process.returncode != VIOLATED or f"lost: {LOST} messages" not in output:
        raise SystemExit(f"the audit of {run} did not find what was planted:\n{output}")
    return Audited(
        messages=count,
        byte_count=byte_count,
        seconds=seconds,
        driver=peaks.get("driver", 0.0),
        jvm=peaks.get("jvm", 0.0),
        worker=peaks.get("worker", 0.0),
    )


def family(root: int) -> Iterator[tuple[int, str]]:
    """A process and all that it started, each with its kind: driver, jvm or worker."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    yield root, "driver"
    below = list(children.get(root, ()))
    while below:
        pid = below.pop()
        below += children.get(pid, ())
        yield pid, "jvm" if _program(pid) == "java" else "worker"


def _program(pid: int) -> str:
    """Return the file that a process executes.

    Its name may be that of a JVM thread: a starting process shares the JVM's memory at first.
    """
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def own_mb(pid: int) -> float:
    """The memory that a process holds, without the files that it maps.

    0 where it is gone.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("RssAnon:")), 0.0)
