"""Start a fork server: `python -m rmqlab.cluster.supervisor.forkserver`.

Apart from what talks to it, and quick to import: a detached supervisor does this before it imports itself, so that both
import at once.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NAMESERVER_MODULE = "rmqlab.nameserver.main"
BROKER_MODULE = "rmqlab.broker.main"
WORKLOAD_MODULES = ("rmqlab.cluster.workload.produce", "rmqlab.cluster.workload.consume")
PRELOADED = (NAMESERVER_MODULE, BROKER_MODULE, *WORKLOAD_MODULES)
"""What it imports: in this order, as soon as somebody needs it or nobody anything."""


def spawn_way() -> str:
    """Forking is trusted on Linux; elsewhere the system's own libraries may have started threads."""
    return "fork" if sys.platform == "linux" else "exec"


def launch(
    log: Path, modules: Sequence[str] = PRELOADED, way: str | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start one that imports these modules: its process, and the connection that it ends with."""
    ours, theirs = socket.socketpair()
    command = [
        sys.executable,
        "-m",
        "rmqlab.cluster.supervisor.forkserver",
        str(theirs.fileno()),
        way or spawn_way(),
        *modules,
    ]
    with theirs, os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        process = subprocess.Popen(  # noqa: S603 -- ourselves
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal is for the supervisor, which stops the nodes in order
        )
    return process, ours
