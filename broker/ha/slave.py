"""Replication of a slave: follows its master, and connects again.

Class HAClient. Retries follow 4.9: after 5 s without an address or after a failed connect, at once after a stream that
ended (section 4.5, store-ha#47). One departure: when streams repeatedly end within a second, the slave waits between
them, up to 5 s; 4.9 reconnects without a pause.
"""

import logging
import socket
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import trio

from rmqlab.broker.ha.client import HaClient, MasterCheck, NoCheck
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.receiver import ReplicaLog
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import open_connection
from rmqlab.runtime.net.remoting_errors import ConnectError

log = logging.getLogger(__name__)

RETRY_PERIOD = 5.0
CONNECT_TIMEOUT = 5.0
_SHORT_LIFE = 1.0
_FIRST_PAUSE = 0.1


class ConnectionObserver(Protocol):
    """Gets the connections of a slave to its master."""

    def master_connected(self) -> None:
        """A connection to the master is open."""


class TroubleObserver(Protocol):
    """Receives the reason why a slave stopped replication; see trouble_report."""

    async def report(self, text: str, ha_port: int, /) -> None:
        """Return when the master has the report, or cannot be reached.

        `ha_port` is the local port of the connection that ended.
        """


class HaSlave:
    """The slave's side of replication, in brokers of any role.

    It idles without a master's address (section 4.1).
    """

    def __init__(
        self,
        reactor: Reactor,
        store: ReplicaLog,
        settings: HaSettings,
        known_master: KnownMaster,
        *,
        on_received: Callable[[], None],
        emit: Callable[..., None],
        connection_observer: ConnectionObserver | None = None,
        master_check: MasterCheck | None = None,
        trouble_observer: TroubleObserver | None = None,
        source_ip: str | None = None,
        meter: Meter | None = None,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        """Create a slave without a connection.

        `trouble_observer` gets the reasons that a master does not see, with `ha_report_trouble`.
        """
        self._reactor = reactor
        self._meter = meter or reactor.meter
        self._store = store
        self.settings = settings
        """See `replace_settings`."""
        self._known_master = known_master
        self._on_received = on_received
        self._connection_observer = connection_observer
        self._emit = emit
        self._master_check = master_check or NoCheck()
        self._trouble_observer = trouble_observer
        self._source_ip = source_ip
        self._now = now
        self._address_changed = known_master.ha_address_changed
        self._client: HaClient | None = None
        self._has_connected = False
        self._last_failure = ""

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on, for a live connection, too, as in 4.9."""
        self.settings = settings
        if self._client is not None:
            self._client.replace_settings(settings)

    def snapshot(self) -> dict[str, Any]:
        """Return the slave's part of the node's snapshot."""
        client, now = self._client, self._now()
        return {
            "master_address": self._known_master.ha_address,
            "connected": client is not None,
            "has_connected": self._has_connected,
            "verdict": self._master_check.verdict,
            "reported_offset": client.stream.reported if client is not None else self._store.max_commit_log_offset,
            "received_bytes_per_second": client.rate.per_second(now) if client is not None else 0,
            "seconds_since_receipt": round(now - client.stream.last_read_at, 3) if client is not None else None,
        }

    def close(self) -> None:
        """End the connection, if there is one; `run_forever` opens the next."""
        if self._client is not None:
            self._client.close("closed from here")

    async def run_forever(self) -> NoReturn:
        """Connect to the master and follow it, until cancelled."""
        short_lives = 0
        while True:
            sock = await self._connect()
            if sock is None:
                await self._wait_retry()
                continue
            opened_at = self._now()
            await self._follow(sock)
            short_lives = short_lives + 1 if self._now() - opened_at < _SHORT_LIFE else 0
            if short_lives > 1:
                await trio.sleep(min(_FIRST_PAUSE * 2.0 ** min(short_lives - 2, 16), RETRY_PERIOD))

    async def _connect(self) -> socket.socket | None:
        address, self._address_changed = self._known_master.ha_address, self._known_master.ha_address_changed
        if address is None:
            return None
        try:
            sock = await open_connection(
                address, source_ip=self._source_ip, connect_timeout=CONNECT_TIMEOUT, links=self._reactor.links
            )
        except ConnectError as exc:
            if str(exc) != self._last_failure:  # log it once, not every 5 s
                log.warning("%s; tried again every %g s", exc, RETRY_PERIOD)
                self._last_failure = str(exc)
            return None
        # The check runs after the connect and before the first report: if the master restarts meanwhile, the connection
        # is lost, so the checked master is the one that is followed.
        is_fit = False
        try:
            is_fit = await self._master_check.is_fit(address, self.settings)
            if not is_fit:
                await self._report_trouble(self._master_check.verdict, sock.getsockname()[1])
        finally:
            if not is_fit:
                sock.close()
        return sock if is_fit else None

    async def _report_trouble(self, text: str, ha_port: int) -> None:
        """Report why replication stops.

        Call it before the connection closes: then the master fails waiting sends, with the reported text.
        """
        if text and self._trouble_observer is not None and self.settings.ha_report_trouble:
            await self._trouble_observer.report(text, ha_port)

    async def _wait_retry(self) -> None:
        """Wait 5 s.

        4.9 ignores an address that arrives meanwhile, so its first connect is some 5 s after the start.
        """
        with trio.move_on_after(RETRY_PERIOD):
            if self.settings.ha_report_at_once:
                await self._address_changed.wait()
            else:
                await trio.sleep_forever()

    async def _follow(self, sock: socket.socket) -> None:
        master, self._last_failure = self._known_master.ha_address, ""
        try:
            client = HaClient(
                self._reactor,
                sock,
                self._store,
                self.settings,
                on_received=self._on_received,
                master_check=self._master_check,
                meter=self._meter,
                now=self._now,
            )
        except OSError:  # gone already
            sock.close()
            return
        self._client, self._has_connected = client, True
        log.info("connected to master %s, our log ends at %d", master, self._store.max_commit_log_offset)
        self._emit("ha_client_connected", master=master, offset=self._store.max_commit_log_offset)
        if self._connection_observer is not None:
            self._connection_observer.master_connected()
        try:
            await client.report_until_ended()
            await self._report_trouble(client.trouble, client.local_port)
        finally:
            client.close("the broker stops")
            self._client = None
            level = logging.WARNING if client.received_invalid else logging.INFO
            log.log(level, "disconnected from master %s: %s", master, client.close_reason)
            self._emit("ha_client_disconnected", master=master, reason=client.close_reason)
