"""One nameserver as a process: serves requests, and expires silent brokers."""

import logging
from typing import Any, NoReturn

import trio

from rmqlab.nameserver.config import NameserverConfig, load_config
from rmqlab.nameserver.handlers import HANDLERS, IGNORED
from rmqlab.nameserver.kvconfig import KvConfig, KvFileError, load_kv_config
from rmqlab.nameserver.state import Nameserver
from rmqlab.runtime.net.callthread import caller
from rmqlab.runtime.net.dispatch import Dispatcher
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.server import Server, default_max_connections, open_listener
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.process import StartError

__all__ = ["load_config", "main"]  # the names that the supervisor uses in a node's module


log = logging.getLogger(__name__)

PRINT_FIRST_AFTER, PRINT_PERIOD = 60.0, 600.0
_SHARE = 0.75
"""Share of the descriptors that connections may use: a nameserver has one server and few files."""


async def main(config: NameserverConfig, link: ControlLink) -> None:
    """Run one nameserver until cancelled.

    StartError for a reason that an operator can remove.
    """
    kv = _load_kv(config)
    try:
        sock = open_listener(config.listen_address, config.listen_port)
    except OSError as exc:
        raise StartError(exc.strerror or str(exc)) from None
    with sock:
        async with open_reactor(errors=link.errors, lingers=True) as reactor, trio.open_nursery() as nursery:
            calls = caller(reactor, nursery.start_soon)
            nameserver = Nameserver(config, kv, trio.current_time, link.emit, reactor.again, calls, link.errors)
            dispatcher = Dispatcher(HANDLERS, nameserver, errors=link.errors, emit=link.emit, ignored=IGNORED)

            def snapshot() -> dict[str, Any]:
                unserved = {f"{peer} {code}": count for (peer, code), count in dispatcher.unserved.items()}
                return nameserver.snapshot() | {"unserved": unserved}

            idle_timeout = config.server_channel_max_idle_time_seconds
            server = Server(
                reactor,
                dispatcher,
                idle_timeout=idle_timeout,
                max_connections=default_max_connections(_SHARE),
                on_connect=nameserver.watch,
            )
            host, port = server.accept_on(sock)
            try:
                nursery.start_soon(link.errors.keep_running, "idle connections", server.close_idle_forever)
                nursery.start_soon(link.errors.keep_running, "route expiry", expire_forever, nameserver)
                nursery.start_soon(link.errors.keep_running, "key-value table", print_forever, nameserver.kv)
                link.on_snapshot.append(snapshot)
                if link.limit == 0:  # without a supervisor, for scripts that wait for it
                    print(f"READY {host}:{port}", flush=True)
                link.ready(address=f"{host}:{port}")
                await trio.sleep_forever()
            finally:
                link.stopping()
                nameserver.is_stopping = True
                server.close()
                await nameserver.kv_changes.end()


async def expire_forever(nameserver: Nameserver) -> NoReturn:
    """Expire silent brokers: first soon after the start, then at a fixed rate."""
    scan_at = trio.current_time() + nameserver.config.scan_first_delay
    while True:
        await trio.sleep_until(scan_at)
        nameserver.expire()
        scan_at += nameserver.config.scan_period


async def print_forever(kv: KvConfig) -> NoReturn:
    """Log the key-value table after a minute, and then every ten.

    Source: NamesrvController, KVConfigManager.printAllPeriodically.
    """
    print_at = trio.current_time() + PRINT_FIRST_AFTER
    while True:
        await trio.sleep_until(print_at)
        for line in kv.lines():
            log.info("%s", line)
        print_at += PRINT_PERIOD


def _load_kv(config: NameserverConfig) -> KvConfig:
    try:
        return load_kv_config(config.kv_config_path)
    except KvFileError as exc:
        raise StartError(f"the KV table cannot be read: {exc}") from None
