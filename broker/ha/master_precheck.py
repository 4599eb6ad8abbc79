"""Checks a slave makes before it follows a master, and on the log it receives.

The slave checks that the master belongs to its own broker name and cluster, and that both logs have a common past.

The HA protocol has no such messages, so the slave sends requests that every broker serves to the master's remoting
port: settings (26), runtime values (28), a record by commit log offset (33). A real master serves them too. If the
master rejects them, the slave follows it unchecked, as 4.9 does; if it does not reply, the slave waits until it does.
"""

import logging
import struct
from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rmqlab.broker.ha.divergence import Span, common_end
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.header import java_long
from rmqlab.remoting.headers.query import ViewMessageRequestHeader
from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE
from rmqlab.remoting.properties import parse_properties_text
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.runtime.net.worker import calls_in_thread
from rmqlab.store.log.verify import LogVerifier
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import deletion_of_all, save_from, truncate

log = logging.getLogger(__name__)

_FILLER = struct.Struct(">ii")
"""Size and magic code."""

TIMEOUT = 3.0
"""Seconds for each reply."""
HA_PORT_DISTANCE = 1
_DISPATCH_CHUNK = 2 * 2**20


class MasterRejected(Exception):
    """The slave must not follow this master. The text is the reason."""


class CheckUnsupported(Exception):
    """The master does not serve these requests. The text is its reply."""


class SendRequest(Protocol):
    """Sends one request to the checked broker. CheckUnsupported, RemotingError."""

    async def __call__(self, command: Command) -> bytes:
        """Return the body of a successful reply."""


@attrs.frozen
class Identity:
    """The cluster and broker name of a broker."""

    cluster_name: str
    broker_name: str

    def __str__(self) -> str:
        return f"{self.broker_name} in {self.cluster_name}"


def identity_of(settings: bytes) -> Identity:
    """Return a broker's identity from its settings (request 26).

    CheckUnsupported if they lack it.
    """
    try:
        values = parse_properties_text(settings.decode())
        return Identity(values["brokerClusterName"], values["brokerName"])
    except (ValueError, KeyError) as exc:
        raise CheckUnsupported(f"settings without a broker's name: {exc}") from None


def is_slave(settings: bytes) -> bool:
    """Return True for the settings (request 26) of a slave."""
    try:
        return parse_properties_text(settings.decode()).get("brokerRole") == "SLAVE"
    except ValueError:
        return False


def log_span_of(runtime_info: bytes) -> tuple[int, int]:
    """Return begin and end of a broker's commit log (request 28).

    CheckUnsupported if they are missing.
    """
    try:
        values = KVTable.decode(runtime_info).table
        first, end = (java_long(values[name]) for name in ("commitLogMinOffset", "commitLogMaxOffset"))
    except (BodyError, KeyError, ValueError) as exc:
        raise CheckUnsupported(f"runtime values without a commit log: {exc}") from None
    if max(first, 0) > end:  # keep our log: this broker has no log that could prove it wrong
        raise CheckUnsupported(f"a commit log from {first} to {end}")
    return max(first, 0), end


@attrs.define(eq=False)
class MasterPrecheck:
    """The checks of one slave, for one connection after the other.

    Without its switches it sends no request.
    """

    store: MessageStore
    identity: Identity
    client: RemotingClient
    emit: Callable[..., None]
    known_master: KnownMaster
    before_cut: Callable[[], None] = lambda: None
    """Called before our log loses bytes, which slaves of ours may have."""
    verdict: str = attrs.field(default="", init=False)
    """Why the last master was not followed, or followed unchecked; empty if it passed."""
    _verifier: LogVerifier | None = attrs.field(default=None, init=False)

    def begin(self, settings: HaSettings) -> None:
        """Prepare for a new connection with these settings."""
        store = self.store
        self._verifier = LogVerifier(store.log, store.dispatched_offset) if settings.ha_verify_received else None

    def find_fault(self) -> str | None:
        """Verify received records; truncate invalid ones and return the fault."""
        fault = self._verifier.find_fault() if self._verifier is not None else None
        if fault is None:
            return None
        had = self.store.max_commit_log_offset
        self.before_cut()
        truncate(self.store, fault)
        self.emit("received_fault", offset=fault, dropped=had - fault)
        return f"its bytes from {fault} on are not a valid record: {had - fault} bytes are dropped"

    async def is_fit(self, ha_address: str, settings: HaSettings) -> bool:
        """Check the master; truncate or drop our log if necessary.

        False if the slave must not follow it now.
        """
        if not settings.examines_master:
            return True
        address = self._remoting_address(ha_address)

        async def ask(command: Command) -> bytes:
            reply = await self.client.request(address, command, TIMEOUT)
            if reply.code != ResponseCode.SUCCESS:
                raise CheckUnsupported(f"code {reply.code}, {reply.remark}")
            return reply.body

        try:
            await self._examine(ask, settings, ha_address)
        except (MasterRejected, RemotingError, OSError) as exc:
            self._report_verdict(f"master {ha_address} is not followed: {exc}")
            return False
        except CheckUnsupported as exc:
            self._report_verdict(f"master {ha_address} is followed unchecked, as by 4.9: {exc}")
        else:
            self.verdict = ""
        return True

    def _remoting_address(self, ha_address: str) -> str:
        """Return the master's address as registered.

        For a master set by hand, 4.9's port next to the HA port.
        """
        known = self.known_master.address
        if known is not None and not self.known_master.is_ha_address_fixed:
            return known
        host, _, port = ha_address.rpartition(":")
        return f"{host}:{int(port) - HA_PORT_DISTANCE}"

    def _report_verdict(self, text: str) -> None:
        if text != self.verdict:  # once, not every 5 s
            log.warning("%s", text)
            self.emit("ha_master_examined", verdict=text)
        self.verdict = text

    async def _examine(self, ask: SendRequest, settings: HaSettings, ha_address: str) -> None:
        if settings.ha_check_master:
            found = identity_of(await ask(request(RequestCode.GET_BROKER_CONFIG)))
            if found != self.identity:
                raise MasterRejected(f"it belongs to {found}, we to {self.identity}")
        store = self.store
        if not store.max_commit_log_offset or not (settings.ha_truncate_diverged or settings.ha_restart_expired_slave):
            return
        first, end = log_span_of(await ask(request(RequestCode.GET_BROKER_RUNTIME_INFO)))
        is_expired = settings.ha_restart_expired_slave and store.max_commit_log_offset < first
        # An empty log contradicts no master: the slave lost its position, not its data (issue 12.10).
        is_astray = settings.ha_truncate_diverged and self._is_log_empty and store.max_commit_log_offset > end
        if is_expired or is_astray:
            await self._drop_log(ha_address, first)
        elif settings.ha_truncate_diverged:
            await self._compare(ask, ha_address, first, end)

    @property
    def _is_log_empty(self) -> bool:
        """True if our log has no bytes.

        Also true for a log that begins beyond 0: its other files expired while the last one got no byte.
        """
        return self.store.min_commit_log_offset == self.store.max_commit_log_offset

    async def _drop_log(self, ha_address: str, first: int) -> None:
        store = self.store
        begin, end = store.min_commit_log_offset, store.max_commit_log_offset
        log.warning(
            "our log has %d to %d, that of master %s begins at %d: ours is dropped", begin, end, ha_address, first
        )
        await calls_in_thread(deletion_of_all(store, self.before_cut))
        self.emit("log_dropped", master=ha_address, begin=begin, end=end, master_begin=first)

    async def _compare(self, ask: SendRequest, ha_address: str, first: int, end: int) -> None:
        """Truncate our log to the part that it has in common with the master's.

        A partial record at the end is dropped too. A slave in the master's place may only be behind: it is followed
        once it has our records, or others.
        """
        store = self.store
        while store.dispatch(_DISPATCH_CHUNK, may_index=False):  # records are known by their queue entries
            await trio.lowlevel.checkpoint()
        had = store.max_commit_log_offset
        common = await self._common_end(ask, first, min(had, end))
        if self._lacks_only_our_end(first, end, common) and await self._is_slave(ask):
            raise MasterRejected(f"it is a slave that has not copied our log up to {had} yet")
        if common is None and had <= end and self._record_before(had, first) is None:
            # We have no whole record of the master's present log, so copying it again from its begin loses nothing.
            common = max(first, store.min_commit_log_offset)
        if common is None:
            raise MasterRejected(
                f"our log, {store.min_commit_log_offset} to {had}, has nothing in common with its own, {first} to"
                f" {end}: empty the one that is wrong"
            )
        if common < had:
            await self._cut(ha_address, common, end)

    def _lacks_only_our_end(self, first: int, end: int, common: int | None) -> bool:
        """Return True if our log has more than the other one, and no record differs.

        The other log reaches from `first` to `end`.
        """
        ours, shared = (
            self.store.queues.record_before(self.store.max_commit_log_offset),
            self._record_before(end, first),
        )
        return ours is not None and sum(ours) > end and common == (None if shared is None else shared.end)

    async def _is_slave(self, ask: SendRequest) -> bool:
        try:
            return is_slave(await ask(request(RequestCode.GET_BROKER_CONFIG)))
        except CheckUnsupported:
            return False

    def _is_filler(self, begin: int, end: int) -> bool:
        """True if this part of our log is the declared empty rest of a file (store-ha#11)."""
        head = bytes(self.store.read_log(begin, BLANK_SIZE))
        return len(head) == BLANK_SIZE and _FILLER.unpack(head) == (end - begin, BLANK_MAGIC)

    async def _common_end(self, ask: SendRequest, first: int, end: int) -> int | None:
        search, is_same = common_end(lambda offset: self._record_before(offset, first), end), None
        while True:
            try:
                span = next(search) if is_same is None else search.send(is_same)
            except StopIteration as done:
                found: int | None = done.value
                return found
            is_same = await self._has(ask, span)

    def _record_before(self, offset: int, first: int) -> Span | None:
        """Return our last record that ends by `offset` and is in the master's range.

        The master's log begins at `first`. Queues also have entries of records that have expired here: those cannot be
        compared.
        """
        found = self.store.queues.record_before(offset)
        return None if found is None or found[0] < max(first, self.store.min_commit_log_offset) else Span(*found)

    async def _has(self, ask: SendRequest, span: Span) -> bool:
        """Return True if the master has the same record at this offset.

        False if it cannot read one there.
        """
        try:
            theirs = await ask(request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=span.start)))
        except CheckUnsupported:
            return False
        ours = self.store.message_at(span.start, span.size)
        return ours is not None and ours == theirs

    async def _cut(self, ha_address: str, common: int, master_end: int) -> None:
        had = self.store.max_commit_log_offset
        if common and self._is_filler(common, had):
            self.before_cut()
            # The master may have put a smaller record there. Nothing is lost, so nothing is reported or kept.
            truncate(self.store, common)
            log.info("the end of the file before %d holds no record, and is fetched again", had)
        else:
            await self._truncate(ha_address, common, master_end)

    async def _truncate(self, ha_address: str, common: int, master_end: int) -> None:
        store, had = self.store, self.store.max_commit_log_offset
        kept = save_from(store, common)
        if common:
            self.before_cut()
            truncate(store, common)
        else:  # a log without a byte begins wherever the master does
            await calls_in_thread(deletion_of_all(store, self.before_cut))
        log.warning(
            "our log ended at %d and differs from that of master %s, which ends at %d, from %d on: cut there, the rest"
            " is in %s",
            had,
            ha_address,
            master_end,
            common,
            kept,
        )
        # Relative to the store, so that journals do not depend on the directory.
        within = kept and kept.relative_to(store.config.store_path_root_dir)
        self.emit("log_truncated", master=ha_address, had=had, end=common, master_end=master_end, kept=str(within))
