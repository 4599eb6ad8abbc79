"""Starts a fork server, as a program or as a fork of this process.

The program is `python -m rmqlab.cluster.supervisor.fork.forkserver`.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import attrs

from rmqlab.cluster.supervisor.fork.ownmodules import module_command

NAMESERVER_MODULE = "rmqlab.nameserver.main"
BROKER_MODULE = "rmqlab.broker.main"
WORKLOAD_MODULES = ("rmqlab.cluster.workload.produce", "rmqlab.cluster.workload.consume")
MEMBER_MODULE = "rmqlab.broker.dledger.main"
"""A broker that is a member of a DLedger group."""
LATER_MODULES = (*WORKLOAD_MODULES, MEMBER_MODULE)
"""Modules that are imported when a process needs them, or while the fork server is idle."""
STEPS: Mapping[str, Sequence[str]] = {
    BROKER_MODULE: (
        "rmqlab.store.messagestore",
        "rmqlab.broker.config",
        "rmqlab.broker.state",
        "rmqlab.broker.handlers",
    )
}
"""Modules to import before a slow module. Between two of them, the nameserver can be started."""


def import_steps(modules: Iterable[str]) -> list[str]:
    """Return the modules that a fork server imports for these nodes, in order."""
    return [*(step for module in modules for step in (*STEPS.get(module, ()), module)), *LATER_MODULES]


PRELOADED = import_steps((NAMESERVER_MODULE, BROKER_MODULE))

_HIGHEST_DESCRIPTOR = 65_536


class ServerProcess(Protocol):
    """A fork server as a process: a `Popen`, or a fork of this process."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit status. subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """Send SIGKILL."""


@attrs.define(eq=False)
class ForkedProcess:
    """A forked fork server."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        descriptor = os.pidfd_open(self.pid)
        try:
            if not select.select([descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("fork server", timeout or 0.0)
        finally:
            os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def default_spawn_method() -> str:
    """Return `fork` on Linux, else `exec`.

    Elsewhere system libraries may have started threads, which makes forking unsafe.
    """
    return "fork" if sys.platform == "linux" else "exec"


def launch(
    log: Path, modules: Sequence[str] = PRELOADED, spawn_method: str | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a fork server that imports these modules.

    Return its process and connection; it ends with both.
    """
    ours, theirs = socket.socketpair()
    arguments = [str(theirs.fileno()), spawn_method or default_spawn_method(), *modules]
    command = module_command("rmqlab.cluster.supervisor.fork.forkserver", *arguments)
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


def fork(serve: Callable[[socket.socket, Sequence[str]], NoReturn]) -> tuple[ForkedProcess, socket.socket]:
    """Fork a fork server from this process, which must have no other threads.

    `serve` runs it, with its connection and modules. Return its process and our connection; it ends with both.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return ForkedProcess(pid), ours
    status = 1
    try:
        os.closerange(3, theirs.fileno())  # nodes must not keep the pipes of this process open
        os.closerange(theirs.fileno() + 1, _HIGHEST_DESCRIPTOR)
        serve(theirs, PRELOADED)
    except SystemExit:
        status = 0
    except BaseException:  # noqa: BLE001 -- the last frame of a process
        traceback.print_exc()
    finally:  # a child must never return into its parent's code
        sys.stderr.flush()
        os._exit(status)
