"""Telling the nameservers who we are: at start, after 10 s, every 30 s, and whenever a topic changes.

Sources: remoting-and-nameserver section 5; classes BrokerOuterAPI, BrokerController.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import attrs
import trio

from broker.config import BrokerConfig
from broker.topics import TopicTable
from remoting.bodies.registration import RegisterBrokerBody, body_crc32, encode_compressed
from remoting.bodies.runtime import KVTable
from remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from remoting.body import BodyError
from remoting.channel import RemotingError
from remoting.client import RemotingClient
from remoting.codes import RequestCode, ResponseCode
from remoting.command import Command, request
from remoting.header import JavaBoolean
from remoting.headers.nameserver import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)

log = logging.getLogger(__name__)

FIRST_AGAIN = 10.0
"""Seconds from start to the second registration."""
UNREGISTER_TIMEOUT = 3.0
PAUSE_PER_TOPIC = 20e-6
"""Seconds for each topic after a registration of all topics, until topics made by sends cause the next: 0.1 s for
5,000 topics. It takes a tenth of that to write and read one. RocketMQ registers all topics for each new one."""
EVERYTHING = 6
_SHORTEST_PERIOD, _LONGEST_PERIOD = 10.0, 60.0


@attrs.define(eq=False)
class Due:
    """A registration out of turn that is still to be made."""

    topics: set[str] = attrs.field(factory=set)
    """Those that have changed; with the empty name, all there are."""
    is_oneway: bool = True
    is_awaited: trio.Event = attrs.field(factory=trio.Event)
    """Set when somebody waits for it."""
    then: list[Callable[[], None]] = attrs.field(factory=list)


@attrs.define(eq=False)
class Registration:
    """One broker's standing with all of its nameservers.

    `on_master` gets what the first good answer says of the master: its address and its HA address, or None.
    """

    config: BrokerConfig
    topics: TopicTable
    client: RemotingClient
    ha_address: str
    emit: Callable[..., None]
    on_master: Callable[[str | None, str | None], None] = lambda _master, _ha: None
    run_soon: Callable[..., None] | None = None
    """Starts a task in the broker's nursery; None where nothing runs yet: the first registration will tell."""
    registered: set[str] = attrs.field(factory=set, init=False)
    """The nameservers whose last answer was a success."""
    all_registered: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set once every nameserver that can be reached has our route, and there is at least one."""
    _due: Due | None = attrs.field(default=None, init=False)
    """What the next registration out of turn has to tell, while its task has not begun."""
    _whole_again_at: float = attrs.field(default=float("-inf"), init=False)

    async def register_forever(self) -> NoReturn:
        """Register now, 10 s later, and then once a period."""
        period = self.config.register_name_server_period / 1000
        await self._register(is_forced=True)
        await trio.sleep(FIRST_AGAIN)
        while True:
            await self._register(is_forced=self.config.force_register)
            await trio.sleep(max(_SHORTEST_PERIOD, min(period, _LONGEST_PERIOD)))

    def register_soon(
        self, topic: str | None = None, *, oneway: bool = False, then: Callable[[], None] = lambda: None
    ) -> None:
        """Register at once: one changed topic, or the whole table. `then` is called when that is answered, or in vain.

        What is asked for in one moment becomes one registration. Of two that bear the same version, nameservers
        ignore the topics of the second.
        """
        if self.run_soon is None:
            then()
            return
        if self._due is None:
            self._due = Due()
            self.run_soon(self._register_due)
        self._due.topics.add(topic or "")
        self._due.is_oneway &= oneway
        if not oneway:
            self._due.is_awaited.set()
        self._due.then.append(then)

    async def unregister(self) -> None:
        """Take leave of each nameserver in turn; one that does not answer is left behind."""
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
        due, self._due = self._due or Due(), None
        every = self.topics.topics
        is_partial = due.topics <= every.keys()  # not the whole table, and none of them deleted meanwhile
        topics = [every[name] for name in sorted(due.topics)] if is_partial else every.values()
        if not is_partial:
            self._whole_again_at = trio.current_time() + PAUSE_PER_TOPIC * len(every)
        await self._register_topics(topics, oneway=due.is_oneway)
        for then in due.then:
            then()

    async def _register_topics(self, topics: Iterable[TopicConfig], *, oneway: bool = False) -> None:
        """Send one registration to all nameservers side by side; use the first good answer in their order."""
        config = self.config
        body = self._body(config, topics)
        header = RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=self.ha_address,
            broker_id=config.broker_id,
            compressed=JavaBoolean(config.compressed_register),
            body_crc32=body_crc32(body),
        )
        answers: dict[str, Command] = {}
        async with trio.open_nursery() as nursery:
            for address in config.namesrv_addrs:
                nursery.start_soon(self._register_with, address, header, body, oneway, answers)
        if oneway:
            return
        self._note(config.namesrv_addrs, answers)
        for address in config.namesrv_addrs:
            if address in answers:
                self._use(answers[address])
                break

    async def _register_with(
        self,
        address: str,
        header: RegisterBrokerRequestHeader,
        body: bytes,
        oneway: bool,  # noqa: FBT001 - a nursery starts it by position
        answers: dict[str, Command],
    ) -> None:
        command = request(RequestCode.REGISTER_BROKER, header, body)
        try:
            if oneway:
                await self.client.send_oneway(address, command)
                return
            reply = await self.client.request(address, command, self.config.register_broker_timeout_mills / 1000)
        except RemotingError as exc:
            log.warning("not registered: %s", exc)
            return
        if reply.code == ResponseCode.SUCCESS:
            answers[address] = reply
        else:
            log.warning("not registered with %s: code %d, %s", address, reply.code, reply.remark)

    def _body(self, config: BrokerConfig, topics: Iterable[TopicConfig]) -> bytes:
        if config.broker_permission != EVERYTHING:  # remoting-and-nameserver section 5.1
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

    def _note(self, addresses: tuple[str, ...], answers: Mapping[str, Command]) -> None:
        for address in addresses:
            if (address in answers) != (address in self.registered):
                self.emit("registered" if address in answers else "registration_failed", nameserver=address)
        self.registered = set(answers)
        if self.registered:
            self.all_registered.set()

    def _use(self, reply: Command) -> None:
        """Take the master's addresses and the order topics from an answer (section 5.5)."""
        header = reply.header(RegisterBrokerResponseHeader)
        self.on_master(header.master_addr, header.ha_server_addr)
        if reply.body:
            try:
                self.topics.apply_order_topics(KVTable.decode(reply.body).table)
            except BodyError as exc:
                log.warning("order topics that do not parse: %s", exc)

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
            except RemotingError:
                needed.append(True)
                return
            if reply.code != ResponseCode.SUCCESS:
                return
            changed = reply.header(QueryDataVersionResponseHeader).changed
            same = not reply.body or DataVersion.decode(reply.body) == self.topics.data_version
            needed.append(bool(changed) or not same)

        async with trio.open_nursery() as nursery:
            for address in config.namesrv_addrs:
                nursery.start_soon(ask, address)
        return any(needed)
