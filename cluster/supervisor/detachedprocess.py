"""The process of a detached supervisor, as the command sees it.

Imports few modules: `rmqlab up --detach` starts the process before its own imports, so that both import in
parallel, and sends what to start as soon as it has read its options. On Linux that process is a fork of the command,
which saves the start of an interpreter.
"""

import atexit
import contextlib
import os
import signal
import sys
import traceback
from typing import NoReturn

from rmqlab.cluster.supervisor.fork.ownmodules import module_command

_STDOUT, _STDERR = 1, 2


class DetachedProcess:
    """A supervisor that imports, reads one order, and replies to it once.

    Until it has read an order, it and its fork server end with this process.
    """

    def __init__(self, pid: int, order: int, reply: int) -> None:
        self.pid = pid
        self._order = order
        self._reply = reply

    @classmethod
    def start(cls) -> "DetachedProcess":
        """Start the process in a session of its own.

        Without a terminal, neither Ctrl-C nor hangup reaches it. It writes errors to stderr until the order has named
        its log.
        """
        order, ordering = os.pipe()
        replying, reply = os.pipe()
        arguments = module_command("rmqlab.cluster.supervisor.detached", str(order), str(reply))
        for descriptor in (order, reply):
            os.set_inheritable(descriptor, True)
        null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
        try:
            pid = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=null, setsid=True)
        finally:
            os.close(order)
            os.close(reply)
        process = cls(pid, ordering, replying)
        atexit.register(process.end_unused)
        return process

    @classmethod
    def fork(cls) -> "DetachedProcess":
        """Fork the process from this one, in a session of its own.

        This process must have no other threads. Otherwise as `start`.
        """
        order, ordering = os.pipe()
        replying, reply = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ordering)
            os.close(replying)
            _supervise(order, reply)
        os.close(order)
        os.close(reply)
        process = cls(pid, ordering, replying)
        atexit.register(process.end_unused)
        return process

    def send(self, order: str) -> None:
        """Send the order. The process outlives this one from now on."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._order, "w") as pipe:  # `receive` notices its end
            pipe.write(order)
        atexit.unregister(self.end_unused)

    def receive(self) -> str:
        """Wait for the reply and return it; empty if the process ends without one."""
        with os.fdopen(self._reply) as pipe:
            return pipe.read()

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit status.

        Negative for the signal that ended it.
        """
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def terminate(self) -> None:
        """Let it stop its nodes in order."""
        os.kill(self.pid, signal.SIGTERM)

    def end_unused(self) -> None:
        """End it and its fork server at once, because no order has been sent."""
        atexit.unregister(self.end_unused)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:  # a fork that is not yet in its session, so it has no fork server
                os.kill(self.pid, signal.SIGKILL)
        self.wait()


def open_standard_streams() -> None:
    """Open /dev/null in the place of standard streams that are closed.

    Else a pipe or a file gets the number of one of them, which a new process replaces.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(_STDOUT, "w", closefd=False)  # None in a process that began without
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w", closefd=False)


def _supervise(order: int, reply: int) -> NoReturn:
    """Run the supervisor in this process, a fork of the command, until it ends."""
    status: object = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(null, descriptor)
        os.close(null)
        from rmqlab.cluster.supervisor import detached  # noqa: PLC0415 -- the command itself does not need it

        detached.supervise(order, reply)
        status = 0
    except SystemExit as exc:
        status = exc.code
    except BaseException:  # noqa: BLE001 -- the last frame of a process
        traceback.print_exc()
    finally:  # it must never return into the command
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


_early: list[DetachedProcess] = []


def start_early(arguments: list[str]) -> None:
    """Start the process if these arguments of `rmqlab` ask for a detached cluster.

    An option can still turn out to be invalid.
    """
    if arguments[:1] == ["up"] and {"-d", "--detach"} & {*arguments} and not {"-h", "--help"} & {*arguments}:
        with contextlib.suppress(OSError):  # started later, and reported then
            _early.append(DetachedProcess.fork() if sys.platform == "linux" else DetachedProcess.start())


def started_process() -> DetachedProcess:
    """Return the process that was started early, or a new one."""
    return _early.pop() if _early else DetachedProcess.start()
