"""Starts a fork server: `python -m rmqlab.cluster.supervisor.forkserver`.

A separate module that imports fast: a detached supervisor starts the fork server before its own imports, so that both
import in parallel.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rmqlab.cluster.supervisor.ownmodules import module_command

NAMESERVER_MODULE = "rmqlab.nameserver.main"
BROKER_MODULE = "rmqlab.broker.main"
WORKLOAD_MODULES = ("rmqlab.cluster.workload.produce", "rmqlab.cluster.workload.consume")
PRELOADED = (NAMESERVER_MODULE, BROKER_MODULE, *WORKLOAD_MODULES)
"""Modules to import, in this order, when a process needs them or while no order is pending."""


def spawn_way() -> str:
    """Fork on Linux only.

    Elsewhere system libraries may have started threads, which makes forking unsafe.
    """
    return "fork" if sys.platform == "linux" else "exec"


def launch(
    log: Path, modules: Sequence[str] = PRELOADED, way: str | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a fork server that imports these modules.

    Return its process and connection; it ends with both.
    """
    ours, theirs = socket.socketpair()
    arguments = [str(theirs.fileno()), way or spawn_way(), *modules]
    command = module_command("rmqlab.cluster.supervisor.forkserver", *arguments)
    with theirs, os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        process = subprocess.Popen(  # noqa: S603 -- ourselves
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C must reach only the supervisor, which stops the nodes gracefully
        )
    return process, ours
