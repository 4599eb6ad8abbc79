"""Registration at the nameservers.

A broker registers at start, after 10 s, every 30 s, and at every change of a topic. An invalid reply counts as a
missing one, and is logged once (issue 12.14): nameservers are not trusted.

Sources: remoting-and-nameserver section 5; classes BrokerOuterAPI, BrokerController.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, Protocol

import attrs
import trio

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.failure_log import FailureLog, short
from rmqlab.broker.tables.topics import PERM_READ, PERM_WRITE, TopicTable
from rmqlab.broker.tasks import TaskStarter
from rmqlab.remoting.bodies.registration import RegisterBrokerBody, body_crc32, encode_compressed
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import MAX_FRAME
from rmqlab.remoting.header import HeaderError, JavaBoolean
from rmqlab.remoting.headers.nameserver import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

log = logging.getLogger(__name__)

FIRST_AGAIN = 10.0
"""Seconds from start to the second registration."""
UNREGISTER_TIMEOUT = 3.0
MAX_BODY = MAX_FRAME - 2**16
"""Bytes of a registration: a frame without room for its header. Only a topics file, or a master of another
implementation, can have so many topics."""
PAUSE_PER_TOPIC = 20e-6
"""Seconds per topic between two registrations of all topics caused by sends to new topics: 0.1 s for 5,000 topics.
Encoding and decoding a registration takes a tenth of that. RocketMQ registers all topics after each new topic."""
EVERYTHING = PERM_READ | PERM_WRITE
_SHORTEST_PERIOD, _LONGEST_PERIOD = 10.0, 60.0
_PORT = re.compile(r"[0-9]{1,5}")
_LONGEST_ADDRESS = 300


@attrs.frozen
class RegistrationReply:
    """The reply of a nameserver to a registration."""

    master_address: str | None
    ha_address: str | None
    order_topics: Mapping[str, str] | None
    """None if the reply has no table: the order settings of topics stay as they are."""


def address_fault(address: str) -> str | None:
    """Return the fault of an address that a peer sent; None for a valid `host:port`."""
    host, _, port = address.rpartition(":")
    if not host or not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        return f"{address[:_LONGEST_ADDRESS]!r} is not host:port"
    if len(address) > _LONGEST_ADDRESS or not address.isascii() or not address.isprintable():
        return f"{address[:_LONGEST_ADDRESS]!r} is not a valid address"
    return None


@attrs.define(eq=False)
class PendingRegistration:
    """A requested registration that has not been sent yet."""

    topics: set[str] = attrs.field(factory=set)
    """Changed topics; the empty name stands for the whole table."""
    is_oneway: bool = True
    is_awaited: trio.Event = attrs.field(factory=trio.Event)
    """Set when a request waits for the registration."""
    then: list[Callable[[], None]] = attrs.field(factory=list)


class MasterObserver(Protocol):
    """Gets the master's addresses from each registration."""

    def master_reported(self, address: str | None, ha_address: str | None, /) -> None:
        """The first good reply of a registration names these addresses.

        None if they are missing or invalid.
        """


@attrs.define(eq=False)
class Registration:
    """One broker's registrations with all of its nameservers."""

    config: BrokerConfig
    topics: TopicTable
    client: RemotingClient
    ha_address: str
    emit: Callable[..., None]
    tasks: TaskStarter
    master_observer: MasterObserver | None = None
    """None on a master."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    registered: set[str] = attrs.field(factory=set, init=False)
    """The nameservers whose last reply was a success."""
    all_registered: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set once every nameserver that can be reached has our route, and there is at least one."""
    _due: PendingRegistration | None = attrs.field(default=None, init=False)
    """The content of the next registration out of turn, while its task has not begun."""
    _failures: FailureLog = attrs.field(factory=lambda: FailureLog(log), init=False)
    """About each nameserver, and about each address that one sent."""
    _whole_again_at: float = attrs.field(default=float("-inf"), init=False)

    async def register_forever(self, may_begin: trio.Event | None = None) -> NoReturn:
        """Register now, 10 s after that ended, and then at a fixed rate.

        A member of a DLedger group passes `may_begin`: its first registration waits for this, at most 10 s. The reply
        names no master to it, because in RocketMQ it would be the oneway registration of a role change (dledger#52).

        Source: BrokerController (scheduleAtFixedRate). The period counts from start to start: a slow nameserver does
        not delay the next registration. After a registration that takes longer than the period, the next follows at
        once, and the period counts from there; Java would repeat all missed registrations in a burst.
        """
        period = self.config.register_name_server_period / 1000
        period = max(_SHORTEST_PERIOD, min(period, _LONGEST_PERIOD))
        if may_begin is not None:
            with trio.move_on_after(FIRST_AGAIN):
                await may_begin.wait()
        await self._register_topics(self.topics.topics.values(), uses_reply=may_begin is None)
        due_at = trio.current_time() + FIRST_AGAIN
        while True:
            await trio.sleep_until(due_at)
            await self._register(is_forced=self.config.force_register)
            due_at = max(due_at + period, trio.current_time())

    def register_soon(
        self, topic: str | None = None, *, oneway: bool = False, then: Callable[[], None] = lambda: None
    ) -> None:
        """Register at once: one changed topic, or the whole table.

        `then` is called when all nameservers have replied or failed.

        Calls in the same pass share a registration, because nameservers ignore the topics of a second registration with
        the same version.
        """
        if self._due is None:
            self._due = PendingRegistration()
            self.tasks.start_soon(self._register_due)
        self._due.topics.add(topic or "")
        self._due.is_oneway &= oneway
        if not oneway:
            self._due.is_awaited.set()
        self._due.then.append(then)

    async def unregister(self) -> None:
        """Unregister from each nameserver in turn; skip those that do not reply."""
        config = self.config
        header = UnRegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        for address in config.namesrv_addrs:
            try:
                await self.client.request(address, request(RequestCode.UNREGISTER_BROKER, header), UNREGISTER_TIMEOUT)
            except RemotingError as exc:
                log.info("not unregistered: %s", exc)

    async def _register(self, *, is_forced: bool) -> None:
        if is_forced or await self._is_needed():
            await self._register_topics(self.topics.topics.values())

    async def _register_due(self) -> None:
        if self._due is not None:
            with trio.move_on_at(self._whole_again_at):
                await self._due.is_awaited.wait()
        due, self._due = self._due or PendingRegistration(), None
        every = self.topics.topics
        is_partial = due.topics <= every.keys()  # not the whole table, and none of them deleted meanwhile
        topics = [every[name] for name in sorted(due.topics)] if is_partial else every.values()
        if not is_partial:
            self._whole_again_at = trio.current_time() + PAUSE_PER_TOPIC * len(every)
        try:
            await self._register_topics(topics, oneway=due.is_oneway)
        finally:
            for then in due.then:
                self.errors.call("registration callback", then)

    async def _register_topics(
        self, topics: Iterable[TopicConfig], *, oneway: bool = False, uses_reply: bool = True
    ) -> None:
        """Send one registration to all nameservers side by side.

        With `uses_reply`, apply the good reply that arrives first, as in 4.9.8: a nameserver without the master's
        registration must not hide it for ever (BrokerController.doRegisterBrokerAll).
        """
        config = self.config
        body = self._body(config, topics)
        if len(body) > MAX_BODY:
            self._note_too_large(body)
            return
        header = RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=self.ha_address,
            broker_id=config.broker_id,
            compressed=JavaBoolean(config.compressed_register),
            body_crc32=body_crc32(body),
        )
        replies: dict[str, RegistrationReply] = {}  # in the order of arrival
        async with trio.open_nursery() as nursery:
            for address in config.namesrv_addrs:
                nursery.start_soon(self._register_with, address, header, body, oneway, replies)
        if oneway:
            return
        self._note(config.namesrv_addrs, replies)
        first = next(iter(replies.values()), None)
        if first is not None and uses_reply:
            self._use(first)

    async def _register_with(
        self,
        address: str,
        header: RegisterBrokerRequestHeader,
        body: bytes,
        oneway: bool,  # noqa: FBT001 - a nursery starts it by position
        replies: dict[str, RegistrationReply],
    ) -> None:
        command = request(RequestCode.REGISTER_BROKER, header, body)
        try:
            if oneway:
                await self.client.send_oneway(address, command)
                return
            reply = await self.client.request(address, command, self.config.register_broker_timeout_mills / 1000)
            if reply.code == ResponseCode.SUCCESS:
                replies[address] = _read(reply)
                self._failures.recovered(address)
            else:
                self._failures.add(address, f"not registered with {address}: code {reply.code}, {short(reply.remark)}")
        except RemotingError as exc:
            self._failures.add(address, f"not registered: {exc}")
        except (HeaderError, BodyError) as exc:
            self._failures.add(address, f"not registered: the reply of {address} does not parse: {short(exc)}")
        except Exception as exc:  # noqa: BLE001 - a boundary: one nameserver may not keep us from the others
            self.errors.caught("registration", exc, address)

    def _body(self, config: BrokerConfig, topics: Iterable[TopicConfig]) -> bytes:
        if config.broker_permission & EVERYTHING != EVERYTHING:  # remoting-and-nameserver section 5.1
            topics = [
                TopicConfig(
                    topic_name=topic.topic_name,
                    read_queue_nums=topic.read_queue_nums,
                    write_queue_nums=topic.write_queue_nums,
                    perm=config.broker_permission,
                )
                for topic in topics
            ]
        wrapper = TopicConfigSerializeWrapper(
            data_version=self.topics.data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        return encode_compressed(body) if config.compressed_register else body.encode()

    def _note_too_large(self, body: bytes) -> None:
        """Log that the topics do not fit into a frame.

        A nameserver would only reset the connection.
        """
        fault = (
            f"not registered: {len(self.topics.topics)} topics have {len(body)} bytes, at most {MAX_BODY}: delete some"
        )
        self._failures.add("topics", fault)
        self._note(self.config.namesrv_addrs, {})

    def _note(self, addresses: tuple[str, ...], replies: Mapping[str, RegistrationReply]) -> None:
        for address in addresses:
            if (address in replies) != (address in self.registered):
                self.emit("registered" if address in replies else "registration_failed", nameserver=address)
        self.registered = set(replies)
        if self.registered:
            self.all_registered.set()

    def _use(self, reply: RegistrationReply) -> None:
        """Apply the master's addresses and the order topics of a reply (section 5.5)."""
        address = self._usable("master", reply.master_address, self.config.address)
        ha_address = self._usable("master's HA service", reply.ha_address, self.ha_address)
        if self.master_observer is not None:
            self.master_observer.master_reported(address, ha_address)
        if reply.order_topics is not None:
            self.topics.apply_order_topics(reply.order_topics)

    def _usable(self, whose: str, address: str | None, own: str) -> str | None:
        """Return an address that a nameserver sent; None if it is invalid or our own."""
        if not address:
            return None
        fault = address_fault(address)
        if fault is None and address == own and self.config.is_slave:
            fault = f"{address} is this slave itself"
        if fault is None:
            self._failures.recovered(whose)
            return address
        self._failures.add(whose, f"a nameserver sent an invalid address of the {whose}: {fault}")
        return None

    async def _is_needed(self) -> bool:
        """Ask every nameserver whether it lacks our data version (section 5.3)."""
        config = self.config
        header = QueryDataVersionRequestHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        needed: list[bool] = []

        async def ask(address: str) -> None:
            command = request(RequestCode.QUERY_DATA_VERSION, header, self.topics.data_version.encode())
            try:
                reply = await self.client.request(address, command, config.register_broker_timeout_mills / 1000)
                if reply.code != ResponseCode.SUCCESS:
                    return
                changed = reply.header(QueryDataVersionResponseHeader).changed
                same = not reply.body or DataVersion.decode(reply.body) == self.topics.data_version
                needed.append(bool(changed) or not same)
                self._failures.recovered(f"version {address}")
            except RemotingError:
                needed.append(True)
            except (HeaderError, BodyError) as exc:
                self._failures.add(f"version {address}", f"the data version of {address} does not parse: {short(exc)}")
                needed.append(True)

        async with trio.open_nursery() as nursery:
            for address in config.namesrv_addrs:
                nursery.start_soon(ask, address)
        return any(needed)


def _read(reply: Command) -> RegistrationReply:
    """Parse a successful reply. HeaderError, BodyError if it is invalid."""
    header = reply.header(RegisterBrokerResponseHeader)
    table = KVTable.decode(reply.body).table if reply.body else None
    return RegistrationReply(header.master_addr, header.ha_server_addr, table)
