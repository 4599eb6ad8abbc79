"""The Python API for programs without trio: every call blocks until it is done.

The cluster runs in a thread.

    with BlockingCluster(ClusterSpec(name="shop", role="SYNC_MASTER"), directory) as cluster:
        cluster.kill("broker-a:master")
        cluster.wait_until("route-gone broker-a:master")

Methods are those of `rmqlab.cluster.lab.Cluster`, with the same errors. Time-outs are real seconds. ClusterClosedError
outside of the `with` block, except for what reads the journals and settings of a cluster that has stopped.
"""

import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import NodeActions
from rmqlab.cluster.apimethods import ClusterClosedError, is_in_trio
from rmqlab.cluster.checks import judge_run
from rmqlab.cluster.conditions import Predicate
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.lab import WAIT_SECONDS, Cluster, WaitTimeoutError, Workload, open_cluster
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.nodestore import store_config
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, brokers_of_run
from rmqlab.cluster.supervisor.processes import SNAPSHOT_SECONDS
from rmqlab.faults import Fault
from rmqlab.remoting.names import group_fault, topic_fault
from rmqlab.runtime.config.valuetypes import Seconds, checked_methods
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import merge_entries
from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.runrecord import read_record

R = TypeVar("R")

PRODUCE, CONSUME = "rmqlab.cluster.workload.produce", "rmqlab.cluster.workload.consume"


@checked_methods
class BlockingCluster(NodeActions):
    """A cluster that runs for the duration of a `with` block.

    One thread at a time may call it, of the process that started it. The directory is `~/.rmqlab/<name>` unless given.
    An object runs one cluster, once. Without a `with` block, as in a notebook, call `__enter__` and `__exit__`; a
    cluster that still runs when Python ends is stopped then.
    """

    def __init__(self, spec: ClusterSpec, directory: ClusterDirectory | str | os.PathLike[str] | None = None) -> None:
        self.spec = spec
        self.directory = ClusterDirectory.named(spec.name) if directory is None else ClusterDirectory.at(directory)
        # Python would wait for the end of other threads before it calls the functions of atexit.
        self._thread = threading.Thread(target=self._run, name=f"rmqlab {spec.name}", daemon=True)
        self._process_id = os.getpid()
        self._ready: concurrent.futures.Future[Cluster] = concurrent.futures.Future()
        self._ended = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_over = False
        self._over = trio.Event()
        self._starting = trio.CancelScope()
        self._failure: BaseException | None = None

    # ---- start and end ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start it, and return when every node is ready. Errors as `open_cluster`."""
        _refuse_trio()
        if self._thread.ident is not None:
            raise ClusterClosedError(f"cluster {self.spec.name} was started before: expected a new BlockingCluster")
        self._process_id = os.getpid()
        self._thread.start()
        atexit.register(self._end)
        try:
            self._ready.result()
        except BaseException:  # also Ctrl-C
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything in order.

        Raise the error that ended the cluster early, if one did.
        """
        self._end()
        if self._failure is not None and exc is None:
            raise self._failure

    def __reduce__(self) -> NoReturn:
        raise TypeError("a BlockingCluster belongs to its process: expected its namesrv_addr in other processes")

    def __repr__(self) -> str:
        has_ended = not self._thread.is_alive() if self._thread.ident is not None else None
        state = {None: "not started", False: "running", True: "stopped"}[has_ended]
        return f"<BlockingCluster {self.spec.name} {state} {self.directory.path}>"

    def _end(self) -> None:
        if self._is_forked:  # of a thread that only the parent has
            return
        self._is_over = True
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):  # it ended early: the failure says why
                self._token.run_sync_soon(self._stop)
        self._ended.wait()  # Ctrl-C in Thread.join makes a running thread count as ended
        self._thread.join()
        atexit.unregister(self._end)

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process_id

    def _stop(self) -> None:
        """End the body of `open_cluster`, or cancel its start."""
        if self._ready.done():
            self._over.set()
        else:
            self._starting.cancel()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as failure:  # noqa: BLE001 -- raised again in the caller's thread
            if self._ready.done():
                self._failure = failure
            else:
                self._ready.set_exception(failure)
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._is_over:  # before there was a token to cancel it with
            return
        with self._starting:
            async with open_cluster(self.spec, directory=self.directory) as cluster:
                self._ready.set_result(cluster)
                await self._over.wait()

    @property
    def _cluster(self) -> Cluster:
        self._check_started()
        return self._ready.result()

    def _check_started(self) -> None:
        if not self._ready.done() or self._ready.exception() is not None:
            raise ClusterClosedError(
                f"cluster {self.spec.name} has not been started: expected a call in its `with` block"
            )

    def _call(self, function: Callable[..., Awaitable[R]], *arguments: Any) -> R:
        _refuse_trio()
        self._check_started()
        if self._is_forked:
            raise ClusterClosedError(
                f"cluster {self.spec.name} runs in process {self._process_id}: expected a call in that process"
            )
        try:
            return trio.from_thread.run(function, *arguments, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            reason = f": {self._failure}" if self._failure else ": expected a call in its `with` block"
            raise ClusterClosedError(f"cluster {self.spec.name} has stopped{reason}") from None

    # ---- reading it -----------------------------------------------------------------------------------

    @property
    def namesrv_addr(self) -> str:
        """Addresses of the nameservers, for clients: `host:port;host:port`."""
        return self._cluster.namesrv_addr

    def mark(self, text: str) -> list[str]:
        """Write a line into all logs, and an event. Return the names of the processes."""
        return self._call(self._cluster.mark, text)

    def status(self) -> Document:
        """Return what `rmqlab status --json` prints."""
        return self._call(self._cluster.status)

    def wait_until(self, condition: str | Predicate, seconds: Seconds = WAIT_SECONDS) -> Document:
        """Wait for a condition (`rmqlab.cluster.conditions`) or a predicate of the status.

        Return that status.
        """
        return self._call(self._cluster.wait_until, condition, seconds)

    def snapshot(self, target: str, seconds: Seconds = SNAPSHOT_SECONDS) -> Mapping[str, Any] | None:
        """Return the live facts of one node.

        None if it does not run, is paused, or does not reply in time.
        """
        return self._call(self._cluster.snapshot, target, seconds)

    @property
    def faults(self) -> list[ActiveFault]:
        """The faults in force, oldest first."""
        return self._cluster.faults

    def journal(self) -> list[JournalEntry]:
        """Return the journal entries of all processes so far, sorted by time."""
        return self._cluster.journal()

    def findings(self) -> Judgement:
        """Return the findings of the quick checks so far, with the verdict.

        `findings()["lost"].value == 0`, `findings().verdict is Verdict.HOLDS`.
        """
        journals, surveys = survey_journals(self.directory.journal_dir)
        entries = merge_entries(*journals)
        names = brokers_of_run(self._cluster.supervisor.placement, {entry.node for entry in entries})
        stores = {name: store_config(self.directory, name).store_path_root_dir for name in names}
        return judge_run(entries, stores, surveys, read_record(self.directory.path))

    # ---- acting on it ------------------------------------------------------------------------------------

    def act(self, action: NodeAction[R], target: str, *more: str) -> R:
        """Do an action of the table; return its result.

        Each is a method, too: `cluster.kill("broker-a:*", "broker-b-s")`.
        """
        return self._call(lambda: self._cluster.act(action, target, *more))

    def fault(self, fault: Fault) -> ActiveFault:
        """Put a fault in force (see `rmqlab.faults`)."""
        return self._call(self._cluster.fault, fault)

    def heal(self, fault: ActiveFault | str) -> None:
        """End one fault."""
        self._call(self._cluster.heal, fault)

    def heal_all(self) -> list[ActiveFault]:
        """End all faults; return those that were in force."""
        return self._call(self._cluster.heal_all)

    # ---- changing it ------------------------------------------------------------------------------------

    def add_group(self, name: str = "", settings: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Add a group, or a removed one by its name; return the names of its ready nodes."""
        return self._call(self._cluster.add_group, name, settings)

    def add_slave(self, group: str, settings: Mapping[str, Any] | None = None) -> str:
        """Add a slave to a group; return its name when it is ready."""
        return self._call(self._cluster.add_slave, group, settings)

    def add_nameserver(self, name: str = "") -> str:
        """Add a nameserver; return its name when it listens."""
        return self._call(self._cluster.add_nameserver, name)

    def remove(self, nodes: str) -> tuple[str, ...]:
        """Stop nodes and take them out of the cluster; return their names.

        `nodes` is a target, such as `broker-a-s` or `broker-b:*`. Their data stay on disk.
        """
        return self._call(self._cluster.remove, nodes)

    def change_settings(self, target: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Change settings of brokers from their next start on; return the brokers' names."""
        return self._call(self._cluster.change_settings, target, settings)

    # ---- workloads ------------------------------------------------------------------------------

    def run_workload(self, module: str, config: Mapping[str, Any], *, name: str | None = None) -> Workload:
        """Start a workload process, and return while it runs."""
        return self._call(lambda: self._cluster.run_workload(module, config, name=name))

    def stop_workload(self, workload: Workload) -> None:
        """Stop a workload, and wait for its end."""
        self._call(workload.stop)

    def produce(
        self, topic: str, count: int, seconds: Seconds = WAIT_SECONDS, **config: Any
    ) -> list[Mapping[str, Any]]:
        """Send numbered messages; return the fields of each `sent` event.

        Keys are the options of `rmqlab produce`.
        """
        given = {"topic": topic, "count": count, "rate_per_second": 0.0, **config}
        return self._work(PRODUCE, given, "sent", seconds)

    def consume(
        self, topic: str, count: int, seconds: Seconds = WAIT_SECONDS, **config: Any
    ) -> list[Mapping[str, Any]]:
        """Consume `count` messages; return the fields of each `delivered` event.

        WaitTimeoutError for fewer.
        """
        return self._work(CONSUME, {"topic": topic, "count": count, **config}, "delivered", seconds)

    def _work(self, module: str, config: Mapping[str, Any], kind: str, seconds: float) -> list[Mapping[str, Any]]:
        """Run a workload until it ends.

        ValueError for a topic or a group with an invalid name.
        """
        fault = topic_fault(config["topic"]) or ("group" in config and group_fault(str(config["group"])))
        if fault:
            raise ValueError(fault)
        workload = self.run_workload(module, config)
        try:
            self._call(workload.wait_ended, seconds)
        except WaitTimeoutError as exc:
            self.stop_workload(workload)
            got = sum(event.kind == kind for event in workload.events())
            raise WaitTimeoutError(f"{exc}, and has {got} of {config['count']} messages {kind}") from None
        return [event.fields for event in workload.events() if event.kind == kind]


def _refuse_trio() -> None:
    """RuntimeError in a task of trio, whose event loop would stand still."""
    if is_in_trio():
        raise RuntimeError(
            "BlockingCluster would block trio's event loop: expected open_cluster, or a call in a thread"
        )
