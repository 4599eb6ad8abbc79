"""Runs a supervisor in this process, until a signal or a command ends it."""

import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.commandserver import serve_commands
from rmqlab.cluster.supervisor.detach import UpFailedError
from rmqlab.cluster.supervisor.files.directory import AlreadyUpError, ClusterDirectory, RecordError, SetupError
from rmqlab.cluster.supervisor.fork.children import ForkServer, ForkServerGoneError
from rmqlab.cluster.supervisor.host import ThisMachine
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.ports import PortTakenError
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.clock import real_seconds

if TYPE_CHECKING:
    from rmqlab.cluster.control.start import ControlApi

logger = logging.getLogger(__name__)

LOST_SECONDS = 1.0
"""Real seconds between two looks at the cluster's directory."""

WhenReady = Callable[[Cluster, Document], Awaitable[None]]
"""Called with the cluster and the document of its start: the status and, with a control API, `control`."""

UP_FAILURES = (
    NodeFailedError,
    PortTakenError,
    AlreadyUpError,
    ForkServerGoneError,
    SetupError,
    RecordError,
    BadSettingsError,
)


async def serve_cluster(
    spec: ClusterSpec,
    directory: ClusterDirectory,
    ready: WhenReady,
    started: Callable[[Cluster], object],
    forks: ForkServer | None = None,
    control: str | None = None,
) -> None:
    """Run a cluster until a signal or a command ends it.

    UpFailedError if it does not start.

    Calls `started` with the cluster before its nodes start, and `ready` when all nodes are ready: with the status, and
    the member `control` if there is a control API. `control` is its address.

    The first SIGINT or SIGTERM stops all nodes gracefully, the next one kills them.
    """
    serving = trio.CancelScope()
    supervisors: list[Supervisor] = []

    def begin(cluster: Cluster) -> None:
        supervisors.append(cluster.supervisor)
        started(cluster)

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, signals, serving, supervisors)
            with serving:
                await _serve(spec, directory, ready, begin, forks, serving, control)
            nursery.cancel_scope.cancel()


async def _serve(
    spec: ClusterSpec,
    directory: ClusterDirectory,
    ready: WhenReady,
    started: Callable[[Cluster], object],
    forks: ForkServer | None,
    serving: trio.CancelScope,
    control: str | None,
) -> None:
    try:
        async with (
            _listening(control) as api,
            open_cluster(spec, directory=directory.path, started=started, host=ThisMachine(forks)) as cluster,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_end_if_lost, cluster.supervisor)
            await nursery.start(serve_commands, cluster, serving.cancel)
            document = await live_status(cluster.supervisor)
            if api is None:
                directory.control_path.unlink(missing_ok=True)  # left by a killed supervisor
            else:
                await nursery.start(api.serve, cluster)
                document["control"] = api.access.as_json()
            await ready(cluster, document)
            await trio.sleep_forever()
    except UP_FAILURES as exc:
        raise UpFailedError(str(exc)) from None


async def _end_if_lost(supervisor: Supervisor) -> NoReturn:
    """Kill a cluster whose directory was removed or renamed. UpFailedError.

    No command reaches it there. If its nodes stopped in order, they would write into a new cluster at the path.
    """
    while not supervisor.directory.is_lost():  # noqa: ASYNC110 -- nothing reports it
        await trio.sleep(real_seconds(LOST_SECONDS))
    await supervisor.kill_all()
    raise UpFailedError(
        f"{supervisor.directory.path} was removed or renamed while its cluster ran: its nodes are killed"
    )


@contextlib.asynccontextmanager
async def _listening(control: str | None) -> AsyncIterator["ControlApi | None"]:
    """Listen for the control API. UpFailedError.

    Before any node starts: an address that is taken must not cost a start.
    """
    if control is None:
        yield None
        return
    from rmqlab.cluster.control.access import ControlAddressError  # noqa: PLC0415 -- loaded only when asked for
    from rmqlab.cluster.control.start import open_control_api  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        try:
            api = stack.enter_context(open_control_api(control))
        except ControlAddressError as exc:
            raise UpFailedError(f"--control {exc}") from None
        yield api


async def _stop_on_signal(
    signals: AsyncIterator[int], serving: trio.CancelScope, supervisors: list[Supervisor]
) -> None:
    async for _ in signals:
        if serving.cancel_called:
            for supervisor in supervisors:
                await supervisor.kill_all()
        serving.cancel()


def run_foreground(
    spec: ClusterSpec,
    directory: ClusterDirectory,
    ready: WhenReady,
    *,
    started: Callable[[Cluster], object] = lambda _: None,
    forks: ForkServer | None = None,
    control: str | None = None,
) -> None:
    """Run a cluster in this process, as `serve_cluster` does."""
    try:
        trio.run(serve_cluster, spec, directory, ready, started, forks, control)
    except BaseExceptionGroup as group:
        raise _known_failure(group, directory) or group from None


def _known_failure(group: BaseExceptionGroup[BaseException], directory: ClusterDirectory) -> UpFailedError | None:
    """Return the first failure; None if the group has any other exception."""
    known: BaseException | None
    known, unknown = group.split((UpFailedError, OSError))
    while isinstance(known, BaseExceptionGroup):
        known = known.exceptions[0]
    if unknown is not None or known is None:
        return None
    if isinstance(known, OSError):  # a full disk, or a directory that cannot be written
        logger.error("the cluster ends", exc_info=group)
        return UpFailedError(f"{known.filename or directory.path}: {known.strerror or known}")
    assert isinstance(known, UpFailedError)
    return known
