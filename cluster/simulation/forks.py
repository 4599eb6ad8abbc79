"""Starts, signals and ends simulated processes, as the fork server does."""

import contextlib
import functools
import importlib
import logging
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from rmqlab.cluster.simulation.nodelogs import NodeLogs, open_node_log
from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.forkserver import Continued, Exited, NotSpawned, Report, Spawned, Stopped
from rmqlab.faults.process import faults_of_process
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.exceptiongroups import leaves
from rmqlab.runtime.identity import Identity, set_identity
from rmqlab.runtime.journals.journalentry import CLOSED, JournalEntry, opened
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.net.network import set_network
from rmqlab.runtime.net.worker import InlineCalls, run_inline
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.logfile import LogFile
from rmqlab.runtime.node.process import StartError, serve
from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.network import Fabric, SimulatedNetwork
from rmqlab.simulation.pipe import PipeEnd, pipe
from rmqlab.store.files.lock import forget_locks

log = logging.getLogger(__name__)

FORK_SECONDS = 0.003
"""Duration of a fork, as on a real machine."""
SIGNAL_SECONDS = 0.001
"""Delay of a signal, which passes through the fork server."""
_FIRST_PID = 1000


@attrs.define(eq=False)
class Process:
    """A simulated process, and the request to notify at its end."""

    spawn_request: SpawnRequest
    pid: int
    node: Node = attrs.field(init=False)
    log: LogFile = attrs.field(init=False)
    journal: JournalWriter = attrs.field(init=False)
    signals: trio.MemorySendChannel[int] = attrs.field(init=False)
    _requests: trio.MemoryReceiveChannel[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.log = open_node_log(Path(self.spawn_request.log))
        self.journal = JournalWriter(Path(self.spawn_request.journal))
        self.signals, self._requests = trio.open_memory_channel[int](8)

    def request(self, number: int) -> None:
        """Let the process handle a signal."""
        with contextlib.suppress(trio.WouldBlock):  # the kernel, too, keeps no count of pending signals
            self.signals.send_nowait(number)

    async def run(self, fabric: Fabric, stream: PipeEnd, exit_now: Callable[[int], object]) -> int:
        """Run the process, as `rmqlab.runtime.node.process.serve`; return its exit status."""
        node, request = self.node, self.spawn_request
        set_network(SimulatedNetwork(fabric, node))
        set_identity(Identity(self.pid))
        run_inline(InlineCalls())
        module = importlib.import_module(request.module)
        clock = node.guest.clock
        faults = faults_of_process(clock, request.rules)
        self.journal.begin(opened(clock.cluster_millis(), request.name, request.run))
        link = ControlLink(request.name, journal=self.journal, faults=faults)
        failed = False
        try:
            await serve(module.main, module.load_config(request.config), link, stream, self._requests, exit_now)
        except* (SettingsError, StartError) as group:
            failed = True
            log.error("%s: %s", request.name, "; ".join(map(str, leaves(group))))  # noqa: TRY400 -- a known reason
        except* Exception:  # noqa: BLE001 -- the last frame of a process
            failed = True
            log.critical("%s", traceback.format_exc())
        if failed:
            self.journal.close()
            return 1
        self.journal.close(JournalEntry(clock.cluster_millis(), request.name, CLOSED, {}))
        return 0


class SimulatedForks:
    """Processes on a simulated machine (`rmqlab.cluster.supervisor.host.Forks`)."""

    def __init__(self, machine: Machine, fabric: Fabric, supervisor: Node, logs: NodeLogs) -> None:
        self.connections = trio.open_memory_channel[trio.abc.Stream](1000)
        """Control channels of new processes, for the supervisor."""
        self._machine = machine
        self._fabric = fabric
        self._supervisor = supervisor
        self._logs = logs
        self._pids = iter(range(_FIRST_PID, sys.maxsize))
        self._processes: dict[int, Process] = {}
        self._is_closed = False
        self._reports = trio.open_memory_channel[tuple[int, Report]](10_000)

    async def attend(self, changed: Callable[[int, Report], object]) -> None:
        async for request_id, report in self._reports[1]:
            changed(request_id, report)

    async def spawn(self, request: SpawnRequest) -> None:
        await trio.lowlevel.checkpoint()
        try:
            process = Process(request, next(self._pids))
        except OSError as exc:
            self._report(request.id, NotSpawned(request.id, str(exc)))
            return
        self._machine.after(FORK_SECONDS, functools.partial(self._begin, process))

    async def signal(self, pid: int, number: int) -> None:
        await trio.lowlevel.checkpoint()
        if (process := self._processes.get(pid)) is not None:
            self._machine.after(SIGNAL_SECONDS, functools.partial(self._deliver, process, number))

    def check_runs(self) -> None:
        """Return: nothing stops them."""

    def close(self) -> None:
        self._is_closed = True
        for process in [*self._processes.values()]:
            self._machine.kill(process.node)

    def _begin(self, process: Process) -> None:
        request, machine = process.spawn_request, self._machine
        if self._is_closed:
            return
        self._processes[process.pid] = process

        def exit_now(status: int) -> None:
            machine.after(0.0, lambda: self._end(process, status))

        node: Node = machine.start(
            request.name, lambda: process.run(self._fabric, near, exit_now), lambda _: self._main_ended(process)
        )
        process.node = node
        self._logs.assign(node, process.log)
        near, far = pipe(machine, node, self._supervisor)
        machine.call_in(self._supervisor, functools.partial(self.connections[0].send_nowait, far))
        self._report(request.id, Spawned(request.id, process.pid))

    def _deliver(self, process: Process, number: int) -> None:
        """Deliver a signal as the kernel does."""
        node, pid = process.node, process.pid
        if node.is_gone:
            return
        if number == signal.SIGKILL:
            self._end(process, -number)
        elif number == signal.SIGSTOP:
            self._machine.pause(node)
            self._report(process.spawn_request.id, Stopped(pid))
        elif number == signal.SIGCONT:
            self._machine.resume(node)
            self._report(process.spawn_request.id, Continued(pid))
        else:
            self._machine.call_in(node, functools.partial(process.request, number))

    def _end(self, process: Process, status: int) -> None:
        """End a process at once, unless it has ended."""
        if process.node.is_gone:
            return
        self._machine.kill(process.node)
        forget_locks(Path(process.spawn_request.config).parent)
        self._report_exit(process, status)

    def _main_ended(self, process: Process) -> None:
        self._report_exit(process, process.node.guest.outcome())

    def _report_exit(self, process: Process, status: int) -> None:
        del self._processes[process.pid]
        self._logs.close_node(process.node)
        self._report(process.spawn_request.id, Exited(process.pid, status))

    def _report(self, request_id: int, report: Report) -> None:
        self._machine.call_in(self._supervisor, functools.partial(self._reports[0].send_nowait, (request_id, report)))
