"""The process that holds a port."""

import pathlib
import socket
import subprocess
import sys

import pytest

from rmqlab.cluster.supervisor.ports import find_holder

PROGRAM = """import socket, sys
taken = socket.create_server(("127.0.0.1", 0))

print(taken.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not pathlib.Path("/proc/net/tcp").exists(), reason="only Linux tells whose a port is")
def test_a_holder_is_named_on_one_line_whatever_its_arguments() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        described = find_holder("127.0.0.1", int(holder.stdout.readline()))
        holder.communicate("")
    assert described.startswith(f"pid {holder.pid}, ")
    assert "import socket" in described
    assert "\n" not in described


def test_a_free_port_has_no_holder_that_could_be_named(own_host: str) -> None:
    with socket.create_server((own_host, 0)) as sock:
        port = sock.getsockname()[1]
    assert find_holder(own_host, port) == "another process"
