"""Programs that the interop tests start. These tests need no JVM."""

import os
import select
import subprocess
import sys

import pytest

_STARTER = """
import signal
from tests.interop.child import Child

with Child("sleeper", ["sleep", "600"]) as child:
    print(child.pid, flush=True)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs PDEATHSIG")
def test_a_program_ends_with_tests_that_are_killed() -> None:
    """JVMs ran on after an interrupted `pytest -m interop`."""
    with subprocess.Popen([sys.executable, "-c", _STARTER], stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        program = os.pidfd_open(int(tests.stdout.readline()))
        tests.kill()
    try:
        ended, _, _ = select.select([program], [], [], 60)
        assert ended
    finally:
        os.close(program)
