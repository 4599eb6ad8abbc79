"""One broker as a process: start, run, stop.

Start order: open the ports, open and recover the store, register at the nameservers; then the broker is ready.
Stop order: close the ports, close the store, unregister (remoting-and-nameserver section 5.6).
"""

import contextlib
import functools
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import attrs
import trio

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.admission import admission
from rmqlab.broker.assembly import Environment, assemble, make_arrivals
from rmqlab.broker.config import BrokerSettings, load_config
from rmqlab.broker.dledger.settings import DLedgerConfig
from rmqlab.broker.faulty_disk import open_faulty_disk
from rmqlab.broker.handlers import handlers_of
from rmqlab.broker.loops import run_broker, sample_log
from rmqlab.broker.overload import Overload
from rmqlab.broker.ports import Ports
from rmqlab.broker.snapshot import snapshot
from rmqlab.broker.state import Broker
from rmqlab.broker.tasks import BackgroundTasks
from rmqlab.broker.traffic import watched
from rmqlab.broker.waits.arrivals import Arrivals
from rmqlab.runtime.clock import real_seconds, wall_clock
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Dispatcher, Route
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.server import SHARE, Server, default_max_connections
from rmqlab.runtime.net.worker import in_thread
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.process import StartError
from rmqlab.store.dispatch import DispatchObserver
from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.logkind import PLAIN_LOG, LogKind
from rmqlab.store.messagestore import MessageStore

if TYPE_CHECKING:
    from rmqlab.broker.dledger.membership import GroupMember
    from rmqlab.broker.dledger.node import GroupNode

__all__ = ["load_config", "main"]  # the names that the supervisor uses in a node's module

T = TypeVar("T")

PROGRESS_PERIOD = 1.0
"""Real seconds between two progress events of a start or a stop."""
_VIP_SHARE = 1 / 8
"""Share of the descriptors for connections at the VIP port, which few clients use."""
_GROUP_SHARE, _GROUP_LEAST = 1 / 64, 64
"""The share of the port of a DLedger group, but so many connections at least: members connect again after each timeout,
and the other end of a lost connection is idle for 120 s before it is closed."""
UNREGISTER_SECONDS = 9.0
"""Seconds for unregistering at a stop: three nameservers at 3 s each."""


async def main(settings: BrokerSettings, link: ControlLink) -> None:
    """Run one broker until cancelled.

    StartError, also in groups, for a reason that an operator can remove.
    """
    access = _open_access(settings)
    with contextlib.closing(Ports.open(settings)) as ports, open_faulty_disk(link.faults) as disk:
        settings = attrs.evolve(settings, broker=ports.written_into(settings.broker))
        async with open_reactor(errors=link.errors, lingers=True) as reactor:
            arrivals = make_arrivals(reactor, link)
            with contextlib.closing(await _open_store(settings, disk, arrivals, link)) as store:
                await _run(Environment(settings, reactor, link, access), store, arrivals, ports)


async def _run(env: Environment, store: MessageStore, arrivals: Arrivals, ports: Ports) -> NoReturn:
    """Assemble the broker and run its tasks.

    They end before it stops: no flush may find the store closed.
    """
    async with contextlib.AsyncExitStack() as stop, trio.open_nursery() as nursery:
        tasks = BackgroundTasks(nursery, env.link.errors)
        try:
            broker, group = assemble(env, store, arrivals, tasks)
        except StoreError as exc:  # a table's file
            raise StartError(str(exc)) from None
        servers: list[Server[Any]] = [*_serve(broker, env.reactor, ports)]
        if group is not None and ports.group is not None:
            servers.append(_serve_group(group, env, ports.group))
        stop.push_async_callback(_stop, broker, servers, env.link, group)
        env.link.on_snapshot.append(functools.partial(snapshot, broker))
        await run_broker(broker, servers, env.link, tasks, group)
    raise AssertionError("a broker runs until it is cancelled")


async def _stop(broker: Broker, servers: list[Server[Any]], link: ControlLink, group: "GroupMember | None") -> None:
    """Close the ports, save the tables, close the store, unregister.

    The broker unregisters from all nameservers.
    """
    link.stopping()
    sample_log(broker)
    for server in servers:
        server.close()
    if group is not None:
        group.node.client.close()
    broker.ha_master.close()
    broker.ha_slave.close()
    link.errors.call("save at stop", broker.save_tables)
    await _close_store(broker.store, link)
    with trio.move_on_after(UNREGISTER_SECONDS) as unregistering:
        unregistering.shield = True
        await broker.registration.unregister()
    broker.client.close()


@attrs.define(eq=False)
class _Reached:
    """Progress of opening a store; set by its thread."""

    offset: int = 0
    """In the commit log."""
    queues: int = 0
    """Steps done with single queues: there are a few for each."""

    def note_offset(self, offset: int) -> None:
        self.offset = offset

    def count_queue(self) -> None:
        self.queues += 1


async def _open_store(
    settings: BrokerSettings, disk: Disk, observer: DispatchObserver, link: ControlLink
) -> MessageStore:
    """Open the store in a thread, and emit its progress.

    Recovery of a long log takes long.
    """
    reached = _Reached()
    opening = functools.partial(
        MessageStore.open,
        settings.store,
        now_millis=wall_clock(),
        is_slave=settings.broker.is_slave,
        observer=observer,
        disk=disk,
        log_kind=_log_kind_of(settings.dledger),
        on_progress=reached.note_offset,
        on_queue=reached.count_queue,
    )
    opened: list[MessageStore] = []
    problem: StartError | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                _emit_progress_forever,
                lambda: (reached.offset, reached.queues),
                lambda reached: link.emit("recovering", offset=reached[0], queues=reached[1]),
            )
            try:
                opened.append(await in_thread(opening))
            except StoreError as exc:
                problem = StartError(str(exc))
            except OSError as exc:
                problem = StartError(f"{exc.filename or settings.store.store_path_root_dir}: {exc.strerror or exc}")
            nursery.cancel_scope.cancel()
    except BaseException:  # stopped meanwhile
        for store in opened:
            store.close()
        raise
    if problem is not None:
        raise problem
    return opened[0]


def _log_kind_of(config: DLedgerConfig) -> LogKind:
    if not config.enable_dleger_commit_log:
        return PLAIN_LOG
    from rmqlab.broker.dledger.groupstore import log_kind_of  # noqa: PLC0415 -- few brokers are members of a group

    return log_kind_of(config)


async def _close_store(store: MessageStore, link: ControlLink) -> None:
    """Close the store in a thread, and emit progress: a slave's index may lag by a GB."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                _emit_progress_forever,
                lambda: store.indexed_offset,
                lambda offset: link.emit("indexing", offset=offset),
            )
            await in_thread(store.close)
            nursery.cancel_scope.cancel()


async def _emit_progress_forever(progress: Callable[[], T], emit: Callable[[T], None]) -> NoReturn:
    emitted = progress()
    while True:
        await trio.sleep(real_seconds(PROGRESS_PERIOD))
        if (current := progress()) != emitted:
            emitted = current
            emit(current)


def _open_access(settings: BrokerSettings) -> AccessControl | None:
    if not settings.broker.acl_enable:
        return None
    try:
        return AccessControl.open(settings.home, wall_clock())
    except AclDenied as exc:
        raise StartError(f"acl_enable is set, but the ACL files cannot be used: {exc}") from None


def _unseen(table: Mapping[int, Route[Broker]]) -> Mapping[int, Route[Broker]]:
    return table


def _serve_group(group: "GroupMember", env: Environment, sock: socket.socket) -> "Server[GroupNode]":
    """Serve the port for the other members of the group."""
    routes = Dispatcher(group.node.routes(), group.node, errors=env.link.errors, emit=env.link.emit)
    idle_timeout = env.settings.broker.server_channel_max_idle_time_seconds
    most = max(_GROUP_LEAST, default_max_connections(_GROUP_SHARE))
    server = Server(env.reactor, routes, idle_timeout=idle_timeout, max_connections=most, meter=env.replication)
    server.accept_on(sock)
    return server


def _serve(broker: Broker, reactor: Reactor, ports: Ports) -> list[Server[Broker]]:
    """Serve both ports. The VIP port serves all but pulls."""

    def watch(channel: Channel) -> None:
        channel.on_close.append(lambda: broker.channel_closed(channel))

    admit = admission(broker, Overload(broker, reactor))
    servers = []
    see = watched if broker.config.journal_traffic else _unseen
    for is_vip, port, share in ((False, ports.main, SHARE), (True, ports.vip, _VIP_SHARE)):
        table = see(handlers_of(broker, is_vip=is_vip))
        server = Server(
            reactor,
            Dispatcher(table, broker, broker.unserved, admit, errors=broker.errors, emit=broker.emit),
            idle_timeout=broker.config.server_channel_max_idle_time_seconds,
            max_connections=default_max_connections(share),
            on_connect=watch,
        )
        server.accept_on(port)
        servers.append(server)
    return servers
