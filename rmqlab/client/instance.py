"""A client instance: shared connections, routes and heartbeats of its members.

The members are its producers and consumers.

    async with open_client(ClientConfig(namesrv_addr="127.0.0.1:9876")) as client:
        producer = Producer(client, "orders-out")

The loops of the instance run in one nursery. Leaving the block, also by an exception, unregisters at the brokers and
closes every connection. Source: class MQClientInstance.
"""

import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from rmqlab.client.client_handlers import ROUTES, GroupMember, LocalMembers
from rmqlab.client.config import ClientConfig, client_id, own_ip
from rmqlab.client.errors import BrokerError, ClientError, NoRouteError
from rmqlab.client.limited import for_each
from rmqlab.client.nameservers import NameServers
from rmqlab.client.namespace import with_namespace, without_namespace
from rmqlab.client.replies import expect_success, read_body
from rmqlab.client.routes import RouteCache, check_route, route_from_template
from rmqlab.remoting.acl import sign
from rmqlab.remoting.bodies.heartbeat import HeartbeatData, ProducerData
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.header import Header, HeaderError
from rmqlab.remoting.headers.group import UnregisterClientRequestHeader
from rmqlab.remoting.headers.nameserver import GetRouteInfoRequestHeader
from rmqlab.remoting.message import RecordError
from rmqlab.remoting.names import RETRY_PREFIX, group_fault
from rmqlab.runtime.config.valuetypes import TimeLimit, check_value, checked
from rmqlab.runtime.net.dispatch import Dispatcher, handler_table
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

if TYPE_CHECKING:
    from rmqlab.client.producer import Producer

log = logging.getLogger(__name__)

FAILURES = (ClientError, RemotingError, HeaderError, BodyError, RecordError)
"""Errors of requests that a loop survives: no reply, a refusal, an invalid reply."""


class Client:
    """Made by `open_client`.

    Producers and consumers register here; brokers see them as one client id.
    """

    def __init__(self, config: ClientConfig, reactor: Reactor, nursery: trio.Nursery) -> None:
        self.config = config
        self.ip = own_ip(config)
        self.client_id = client_id(config, self.ip)
        self.errors = reactor.errors
        self.nursery = nursery
        """Runs tasks that must not outlive the instance."""
        # A seeded process repeats the choices of its clients.
        self.rng = random.Random(random.getrandbits(64))  # noqa: S311 - spreads load, hides nothing
        self.local_members = LocalMembers()
        self.consumers = self.local_members.consumers
        self.producers: dict[str, set[str]] = {}
        """Producer groups, and the topics that each has published to."""
        self.inner_producer: Producer | None = None
        """As `inner_producer` makes it."""
        self.broker_versions: dict[str, int] = {}
        """By address, from replies to heartbeats."""
        self.on_route: list[Callable[[str, TopicRouteData], None]] = []
        """Called with topic and route when a route has changed."""
        dispatcher: Dispatcher[Any] = Dispatcher(handler_table(ROUTES), self.local_members, errors=reactor.errors)
        self.remoting = RemotingClient(
            reactor, dispatcher, source_ip=config.source_ip, connect_timeout=config.connect_timeout
        )
        self.name_servers = NameServers(config.namesrv_addr, self.remoting, self.rng)
        self.routes = RouteCache()
        self._borrowed: set[str] = set()
        """Topics with the route of their template: no nameserver has a route of their own yet."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        """Awaited when the instance closes, while it still has its connections. Each bounds its own time."""
        self._heartbeat_due = trio.Event()

    # -- requests --------------------------------------------------------------------------------

    def command(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
    ) -> Command:
        """Return a request of this client, signed if it has credentials."""
        config = self.config
        command = request(
            code, header, body, oneway=oneway, language=config.language, serialize_type=config.serialize_type
        )
        if config.credentials is not None:
            sign(command, config.credentials)
        return command

    def named(self, name: str) -> str:
        """Return the name on the wire of a topic or group of this instance's namespace."""
        return with_namespace(self.config.namespace, name)

    def unnamed(self, name: str) -> str:
        """Return the application's name of a topic or group of this instance's namespace."""
        return without_namespace(self.config.namespace, name)

    def named_group(self, group: str) -> str:
        """As `named`.

        ValueError for an invalid or reserved group, which Java's client rejects, too.
        """
        if (fault := group_fault(group)) is not None:
            raise ValueError(fault)
        return self.named(group)

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's own
    ) -> Command:
        """Send a request to a broker.

        BrokerError for any reply but success; RemotingError without a reply.
        """
        if timeout is None:
            timeout = self.config.api_timeout
        else:
            check_value("timeout", timeout, TimeLimit)
        response = await self.remoting.request(address, self.command(code, header, body), timeout)
        return expect_success(address, response)

    async def ask_name_server(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> Command:
        """Send a request to the nameserver in use.

        Errors as `ask`, and NoNameServerError.
        """
        address = await self.name_servers.choose()
        response = await self.remoting.request(address, self.command(code, header, body), self.config.api_timeout)
        return expect_success(address, response)

    # -- routes ----------------------------------------------------------------------------------

    async def fetch_route(self, topic: str) -> TopicRouteData:
        """Fetch a route.

        NoRouteError if the nameserver has no route; errors as `ask_name_server`.
        """
        header = GetRouteInfoRequestHeader(topic=topic)
        try:
            response = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except BrokerError as exc:
            if exc.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRouteError(f"no route for topic {topic}") from None
            raise
        if not response.body:
            raise NoRouteError(f"{response.source} returned an empty route for topic {topic}")
        return read_body(response, lambda raw: check_route(TopicRouteData.decode(raw)))

    async def refresh_route(self, topic: str) -> TopicRouteData:
        """Fetch a route and use it from now on.

        If that fails, the present route stays (section 6.2).
        """
        route = await self.fetch_route(topic)
        self._borrowed.discard(topic)
        self._set_route(topic, route)
        return route

    async def borrow_route(self, topic: str, template: str, queue_nums: int) -> TopicRouteData:
        """Use the template topic's route for a topic that the first send creates.

        Source: section 6.5.
        """
        route = route_from_template(await self.fetch_route(template), queue_nums)
        self._borrowed.add(topic)
        self._set_route(topic, route)
        return route

    def _set_route(self, topic: str, route: TopicRouteData) -> None:
        known = set(self.routes.for_heartbeat(with_slaves=True))
        if self.routes.set_route(topic, route):
            log.info("route of %s: %s", topic, {data.broker_name: data.broker_addrs for data in route.broker_datas})
            for listener in self.on_route:
                listener(topic, route)
            if not known.issuperset(self.routes.for_heartbeat(with_slaves=True)):
                self.heartbeat_soon()

    async def refresh_routes_forever(self) -> NoReturn:
        """Refresh every route in use once per period, as far as nameservers reply."""
        while True:
            for topic in sorted(self._topics_in_use()):
                await self.try_refresh(topic)
            await trio.sleep(self.config.poll_name_server_period)

    async def try_refresh(self, topic: str) -> bool:
        """Refresh a route; log a failure and return False."""
        try:
            await self.refresh_route(topic)
        except FAILURES as exc:
            level = logging.INFO if isinstance(exc, NoRouteError) and self._may_be_created(topic) else logging.WARNING
            log.log(level, "route of %s not refreshed: %s", topic, exc)
            return False
        return True

    def _may_be_created(self, topic: str) -> bool:
        """Return True for a topic that a first heartbeat or a first send creates."""
        if topic.startswith(RETRY_PREFIX):
            return True
        is_published = any(topic in published for published in self.producers.values())
        return is_published and (topic in self._borrowed or topic not in self.routes.routes)

    def _topics_in_use(self) -> set[str]:
        topics = {topic for published in self.producers.values() for topic in published}
        return topics.union(*(consumer.topics() for consumer in self.consumers.values()))

    # -- heartbeats ------------------------------------------------------------------------------

    def heartbeat_soon(self) -> None:
        """Send heartbeats soon, because their content has changed."""
        self._heartbeat_due.set()

    async def heartbeat_forever(self) -> NoReturn:
        """Send heartbeats to brokers, once per period and after changes."""
        with trio.move_on_after(self.config.first_heartbeat_delay):
            await self._heartbeat_due.wait()
        while True:
            self._heartbeat_due = trio.Event()  # replaced before the round: a change during it causes another
            await self.heartbeat()
            with trio.move_on_after(self.config.heartbeat_period):
                await self._heartbeat_due.wait()

    async def heartbeat(self) -> None:
        """Send heartbeats to brokers concurrently: a frozen one must not delay others."""
        self.routes.purge_brokers()
        body = self._heartbeat_body()
        if not body.consumer_data_set and not body.producer_data_set:
            return
        encoded = body.encode()
        addresses = self.routes.for_heartbeat(with_slaves=bool(body.consumer_data_set))
        await for_each(addresses, lambda address: self._heartbeat_to(address, encoded))

    async def _heartbeat_to(self, address: str, body: bytes) -> None:
        try:
            response = await self.ask(address, RequestCode.HEART_BEAT, body=body)
        except FAILURES as exc:
            log.info("no heartbeat to %s: %s", address, exc)
        else:
            self.broker_versions[address] = response.version

    def _heartbeat_body(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.client_id,
            consumer_data_set=[data for member in self.consumers.values() if (data := member.data()) is not None],
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
        )

    # -- groups ----------------------------------------------------------------------------------

    def add_producer(self, group: str) -> set[str]:
        """Join a producer group.

        Returns the set to which the producer adds the topics it publishes to.
        """
        if group in self.producers:
            raise ValueError(f"this client has a producer of group {group} already")
        self.producers[group] = set()
        self.heartbeat_soon()
        return self.producers[group]

    def add_consumer(self, group: str, member: GroupMember) -> None:
        """Join a consumer group."""
        if group in self.consumers:
            raise ValueError(f"this client has a consumer of group {group} already")
        self.consumers[group] = member
        self.heartbeat_soon()

    async def leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Unregister a group at all brokers concurrently, within one request time-out."""
        if producer_group is not None:
            self.producers.pop(producer_group, None)
        if consumer_group is not None:
            self.consumers.pop(consumer_group, None)
        header = UnregisterClientRequestHeader(
            client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        known = self.routes.for_heartbeat(with_slaves=True)
        # A broker without our connection has dropped us already.
        connected = [address for address in known if self.remoting.connected(address)]
        await for_each(connected, lambda address: self._leave(address, header))

    async def _leave(self, address: str, header: UnregisterClientRequestHeader) -> None:
        try:
            await self.ask(address, RequestCode.UNREGISTER_CLIENT, header)
        except FAILURES as exc:
            log.info("not unregistered at %s: %s", address, exc)

    async def leave_all(self) -> None:
        """Leave every group within the shutdown time-out, shielded from cancellation."""
        with trio.move_on_after(self.config.shutdown_timeout, shield=True):
            for group in list(self.producers):
                await self.leave(producer_group=group)
            for group in list(self.consumers):
                await self.leave(consumer_group=group)


@contextlib.asynccontextmanager
@checked
async def open_client(config: ClientConfig) -> AsyncIterator[Client]:
    """Open a client instance for the length of the block.

    An error of the block is raised without an ExceptionGroup.
    """
    failure: Exception | None = None
    async with open_reactor() as reactor, trio.open_nursery() as nursery:
        client = Client(config, reactor, nursery)
        nursery.start_soon(client.errors.keep_running, "route refresh", client.refresh_routes_forever)
        nursery.start_soon(client.errors.keep_running, "heartbeat", client.heartbeat_forever)
        try:
            yield client
        except Exception as exc:  # noqa: BLE001 - raised again below, outside of the nurseries that would wrap it
            failure = exc
        finally:
            for flush in list(client.on_close):
                await flush()
            await client.leave_all()
            client.remoting.close()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
