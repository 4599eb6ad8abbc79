"""Administration: clusters, topics, brokers, nameservers.

Source: broker-requests section 6, remoting-and-nameserver section 3; class DefaultMQAdminExtImpl. Errors of all:
BrokerError for a refusal, NoRouteError, NoNameServerError, RemotingError without a reply. Groups are in
groupadmin, messages in messagequery.
"""

from collections.abc import Iterable, Mapping

from rmqlab.client.errors import NoRouteError
from rmqlab.client.instance import Client
from rmqlab.client.replies import expect_success, read_body, read_header
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.bodies.topic import (
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import Header, JavaBoolean
from rmqlab.remoting.headers.nameserver import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from rmqlab.remoting.headers.topic import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicStatsInfoRequestHeader,
)
from rmqlab.remoting.names import DEFAULT_TOPIC, MASTER_ID
from rmqlab.remoting.properties import parse_properties_text, write_properties_text
from rmqlab.runtime.config.valuetypes import checked_methods

MOST_SETTINGS = 2**20
"""Bytes of a server's settings: a table with a value of 15 MB takes minutes to print."""


@checked_methods
class Admin:
    """Sends administrative requests to nameservers, and to brokers by address."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # -- clusters and routes ---------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """Return all brokers and clusters, as the nameserver in use has them."""
        response = await self._client.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return read_body(response, ClusterInfo.decode)

    async def masters(self, cluster: str) -> list[str]:
        """Return the addresses of a cluster's masters. NoRouteError for an unknown one."""
        info = await self.cluster_info()
        if cluster not in info.cluster_addr_table:
            raise NoRouteError(f"the nameserver has no cluster {cluster}")
        brokers = [info.broker_addr_table[name] for name in sorted(info.cluster_addr_table[cluster])]
        return [data.broker_addrs[MASTER_ID] for data in brokers if MASTER_ID in data.broker_addrs]

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic. NoRouteError if no broker serves it."""
        return await self._client.fetch_route(topic)

    async def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of one cluster's."""
        if cluster is None:
            response = await self._client.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            header = GetTopicsByClusterRequestHeader(cluster=cluster)
            response = await self._client.ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return sorted(read_body(response, TopicList.decode).topic_list)

    # -- topics ----------------------------------------------------------------------------------

    async def create_topic(self, address: str, config: TopicConfig) -> None:
        """Create or replace a topic at one broker."""
        header = CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=JavaBoolean(config.order),
        )
        await self._client.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def create_topic_in_cluster(self, cluster: str, config: TopicConfig) -> None:
        """Create or replace a topic at every master of a cluster."""
        for address in await self.masters(cluster):
            await self.create_topic(address, config)

    async def delete_topic(self, cluster: str, topic: str) -> None:
        """Delete a topic at every master of a cluster, then at every nameserver.

        Messages stay on disk.
        """
        for address in await self.masters(cluster):
            await self.delete_topic_at(address, topic)
        await self.delete_topic_route(topic)

    async def delete_topic_at(self, address: str, topic: str) -> None:
        """Delete a topic at one broker."""
        await self._client.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))

    async def delete_topic_route(self, topic: str) -> list[str]:
        """Delete a topic's route at every nameserver; return their addresses."""
        header = DeleteTopicFromNamesrvRequestHeader(topic=topic)
        return [*await self._request_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)]

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """Return the bounds of every queue of a topic.

        Each is read from the queue's master, or from a slave if there is no master.
        """
        table = dict[MessageQueue, TopicOffset]()
        for address in readers(await self.topic_route(topic)):
            header = GetTopicStatsInfoRequestHeader(topic=topic)
            response = await self._client.ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
            table |= read_body(response, TopicStatsTable.decode).offset_table
        return TopicStatsTable(offset_table=table)

    async def topic_configs(self, address: str) -> TopicConfigSerializeWrapper:
        """Return all topics of one broker."""
        response = await self._client.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return read_body(response, TopicConfigSerializeWrapper.decode)

    # -- brokers ---------------------------------------------------------------------------------

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """Return the runtime info of a broker (section 6.6)."""
        response = await self._client.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return read_body(response, KVTable.decode).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """Return a broker's settings under RocketMQ's names."""
        response = await self._client.ask(address, RequestCode.GET_BROKER_CONFIG)
        return read_body(response, _settings_of)

    async def update_broker_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Change settings of a running broker."""
        body = write_properties_text(changes).encode()
        await self._client.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def clean_expired_consume_queue(self, address: str) -> None:
        """Make a broker delete queue files whose records are deleted."""
        await self._client.ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_commit_log(self, address: str) -> None:
        """Make a broker delete commit log files past their time."""
        await self._client.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG)

    # -- nameservers ----------------------------------------------------------------------------

    async def name_server_config(self) -> dict[str, dict[str, str]]:
        """Return the settings of every nameserver, by address."""
        responses = await self._request_name_servers(RequestCode.GET_NAMESRV_CONFIG)
        return {address: read_body(response, _settings_of) for address, response in responses.items()}

    async def update_name_server_config(self, changes: Mapping[str, str]) -> None:
        """Change settings of every nameserver."""
        await self._send_to_name_servers(
            RequestCode.UPDATE_NAMESRV_CONFIG, body=write_properties_text(changes).encode()
        )

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Write a value at every nameserver, because they do not synchronize."""
        header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        await self._send_to_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Read a value from the nameserver in use.

        BrokerError with code 22 for a missing value.
        """
        header = GetKVConfigRequestHeader(namespace=namespace, key=key)
        response = await self._client.ask_name_server(RequestCode.GET_KV_CONFIG, header)
        return read_header(response, GetKVConfigResponseHeader).value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """Read all values of a namespace from the nameserver in use.

        BrokerError with code 22 for a missing namespace.
        """
        header = GetKVListByNamespaceRequestHeader(namespace=namespace)
        response = await self._client.ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        return read_body(response, KVTable.decode).table

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value at every nameserver."""
        header = GetKVConfigRequestHeader(namespace=namespace, key=key)
        await self._send_to_name_servers(RequestCode.DELETE_KV_CONFIG, header)

    async def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Remove the write permission of a broker from all routes.

        Producers then avoid it. Returns the number of affected topics by nameserver.
        """
        header = WipeWritePermOfBrokerRequestHeader(broker_name=broker_name)
        responses = await self._request_name_servers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        kind = WipeWritePermOfBrokerResponseHeader
        return {address: read_header(response, kind).wipe_topic_count or 0 for address, response in responses.items()}

    async def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_perm`."""
        header = AddWritePermOfBrokerRequestHeader(broker_name=broker_name)
        responses = await self._request_name_servers(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        kind = AddWritePermOfBrokerResponseHeader
        return {address: read_header(response, kind).add_topic_count or 0 for address, response in responses.items()}

    async def _request_name_servers(
        self, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """Send a request to every nameserver, one after the other.

        The first failure is raised (section 6.1).
        """
        client, responses = self._client, {}
        for address in client.name_servers.addresses:
            command = client.command(code, header, body)
            response = await client.remoting.request(address, command, client.config.api_timeout)
            responses[address] = expect_success(address, response)
        return responses

    async def _send_to_name_servers(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        await self._request_name_servers(code, header, body)


def _settings_of(body: bytes) -> dict[str, str]:
    if len(body) > MOST_SETTINGS:
        raise BodyError(f"{len(body)} bytes of settings: expected at most {MOST_SETTINGS}")
    try:
        return parse_properties_text(body.decode())
    except UnicodeDecodeError as exc:
        raise BodyError(f"settings that are not UTF-8: {exc}") from None


def any_reader(topic: str, route: TopicRouteData) -> str:
    """Return the address of the first broker name. NoRouteError for an empty route."""
    addresses = readers(route)
    if not addresses:
        raise NoRouteError(f"the route of {topic} names no broker")
    return addresses[0]


def readers(route: TopicRouteData) -> list[str]:
    """Return an address per broker name: the master's, else the first slave's."""
    return [reader(data) for data in route.broker_datas if data.broker_addrs]


def reader(data: BrokerData) -> str:
    """Return the master's address of a broker name, else the lowest slave's."""
    return data.broker_addrs[min(data.broker_addrs)]


def all_addresses(brokers: Iterable[BrokerData]) -> list[str]:
    """Return every address, masters before their slaves."""
    return [data.broker_addrs[broker_id] for data in brokers for broker_id in sorted(data.broker_addrs)]
