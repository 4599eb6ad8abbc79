"""A copy of the project, in which one fault at a time is tried."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.faults import Fault

ROOT = Path(__file__).parents[2]
COPIED = ("broker", "nameserver", "cluster", "rmqlab", "tests", "examples", "docs", "pyproject.toml")
LIMITED = ("sh", "-c", 'ulimit -v 4194304; exec "$@"', "sh")
"""4 GiB of address space: some faults make a loop that never ends grow."""


class Workshop:
    """The copy. Only one thread may use it."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="rmqlab-mutants-"))
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "golden") if name != "tests" else None
                shutil.copytree(source, self._root / name, symlinks=True, ignore=ignored)
            else:
                shutil.copy(source, self._root / name)

    @contextmanager
    def changed(self, fault: Fault) -> Iterator[None]:
        """Have a fault in the code during the block."""
        path = self._root / fault.file
        source = path.read_text()
        path.write_text(fault.applied_to(source))
        try:
            yield
        finally:
            path.write_text(source)

    def run(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run Python with these arguments. Return its exit status and output.

        The status is None if it takes longer: then its processes are killed.
        """
        environment = {**os.environ, "PYTHONPATH": str(self._root), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
        with subprocess.Popen(
            [*LIMITED, sys.executable, *arguments],
            cwd=self._root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        ) as ran:
            try:
                output, _ = ran.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                if ran.poll() is None:
                    os.killpg(ran.pid, signal.SIGKILL)
            return ran.returncode, output

    def remove(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self._root, ignore_errors=True)
