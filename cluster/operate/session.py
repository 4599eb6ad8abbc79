"""A connection to a cluster for operations, and the brokers of targets."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import attrs

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig
from rmqlab.client.groupadmin import GroupAdmin
from rmqlab.client.instance import FAILURES, Client, open_client
from rmqlab.cluster.operate.errors import (
    ConflictError,
    InvalidOperationError,
    OperationError,
    UnknownNameError,
    unknown,
)
from rmqlab.remoting.acl import Credentials, keys_fault
from rmqlab.remoting.bodies.route import BrokerData, ClusterInfo
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.message import RecordError
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.config.validators import is_address

NAME_SERVERS = "namesrv"
"""As a target of settings: all nameservers."""
UNLISTED = -1
TIMEOUT = 3.0
"""Real seconds for each request, as in mqadmin."""


def _real_millis() -> int:
    return time.time_ns() // 1_000_000


@attrs.frozen(kw_only=True)
class Connection:
    """The addresses of a cluster, and the account that signs requests.

    InvalidOperationError for an invalid one.
    """

    namesrv_addr: str
    """`host:port`, several joined by `;`."""
    access_key: str = ""
    secret_key: str = attrs.field(default="", repr=False)
    nodes: Mapping[str, str] = attrs.field(factory=dict)
    """Addresses of the brokers of a lab's cluster by the names of their nodes, which are targets, too."""
    now_millis: Callable[[], int] = _real_millis
    """Present time of the cluster, to which times such as `-10m` are relative."""

    def __attrs_post_init__(self) -> None:
        for address in self.namesrv_addr.split(";"):
            if not is_address(address.strip()):
                raise InvalidOperationError(
                    f"nameserver {address.strip()!r}: expected HOST:PORT, several joined by ';', such as 127.0.0.1:9876"
                )
        if (self.access_key or self.secret_key) and (fault := keys_fault(self.access_key, self.secret_key)):
            raise InvalidOperationError(fault)

    def config(self) -> ClientConfig:
        """Return the settings of a client.

        Its timeouts are in real seconds at any rate of the running clock.
        """
        account = Credentials(self.access_key, self.secret_key) if self.access_key else None
        seconds = real_seconds(TIMEOUT)
        return ClientConfig(
            namesrv_addr=self.namesrv_addr, credentials=account, api_timeout=seconds, connect_timeout=seconds
        )


@attrs.frozen(kw_only=True)
class BrokerAt:
    """One broker: its name, id and address."""

    broker: str
    broker_id: int
    """UNLISTED for a lab's node that no nameserver lists now."""
    address: str

    def __str__(self) -> str:
        return self.broker if self.broker_id == UNLISTED else f"{self.broker}:{self.broker_id}"


@attrs.frozen(kw_only=True)
class Scope:
    """The part of a cluster that an operation changes. Empty: all brokers."""

    cluster: str = ""
    brokers: tuple[str, ...] = ()


EVERYWHERE = Scope()


@attrs.frozen(eq=False)
class Operator:
    """The client and cluster of operations; made by `open_operator`."""

    client: Client
    connection: Connection

    @property
    def admin(self) -> Admin:
        return Admin(self.client)

    @property
    def groups(self) -> GroupAdmin:
        return GroupAdmin(self.client)

    async def brokers(self, scope: Scope = EVERYWHERE) -> list[BrokerData]:
        """Return the brokers of a scope by name. OperationError for unknown names."""
        info = await self.admin.cluster_info()
        return select_brokers(info, scope)

    async def masters(self, scope: Scope = EVERYWHERE) -> "Masters":
        """Return the masters of a scope. OperationError if there is no master in it."""
        found, without = [], []
        for data in await self.brokers(scope):
            if MASTER_ID in data.broker_addrs:
                address = data.broker_addrs[MASTER_ID]
                found.append(BrokerAt(broker=data.broker_name, broker_id=MASTER_ID, address=address))
            else:
                without.append(data.broker_name)
        if without and (scope.brokers or not found):
            raise ConflictError(f"{', '.join(without)} has no master now, and only masters can be changed")
        return Masters(found, without)

    async def find(self, target: str, *others: str) -> BrokerAt:
        """Return the broker of a target.

        `broker-a` is the master, or the slave of the lowest id if there is none; `broker-a:master`; `broker-a:slave`;
        `broker-a:1` by broker id; `HOST:PORT` of a broker that the nameserver lists; or the name of a lab's node.
        An error offers the other targets of the operation, too.
        """
        info = await self.admin.cluster_info()
        brokers, nodes = list_brokers(info), self.connection.nodes
        address = target if target in info.broker_addr_table else nodes.get(target, target)
        for one in brokers:
            if one.address == address:
                return one
        if address in nodes.values():  # no nameserver lists it now, but it may reply
            return BrokerAt(broker=target, broker_id=UNLISTED, address=address)
        return find_broker(target, brokers, others)


@attrs.frozen
class Masters:
    """Masters to change, and the broker names that have none."""

    found: list[BrokerAt]
    without: list[str]


def select_brokers(info: ClusterInfo, scope: Scope) -> list[BrokerData]:
    """Return the brokers of a scope, sorted by name.

    OperationError for unknown names, or if there is none.
    """
    table = info.broker_addr_table
    for name in scope.brokers:
        if name not in table:
            raise unknown("broker name", name, table)
    names = set(scope.brokers or table)
    if scope.cluster:
        if scope.cluster not in info.cluster_addr_table:
            raise unknown("cluster", scope.cluster, info.cluster_addr_table)
        names &= {*info.cluster_addr_table[scope.cluster]}
    chosen = [table[name] for name in sorted(names & table.keys()) if table[name].broker_addrs]
    if not chosen:
        where = (
            f"cluster {scope.cluster} has none of these brokers" if scope.cluster else "the nameserver lists no broker"
        )
        raise OperationError(where)
    return chosen


def list_brokers(info: ClusterInfo) -> list[BrokerAt]:
    """Return every broker, masters before their slaves."""
    return [
        BrokerAt(broker=data.broker_name, broker_id=broker_id, address=data.broker_addrs[broker_id])
        for _, data in sorted(info.broker_addr_table.items())
        for broker_id in sorted(data.broker_addrs)
    ]


def find_broker(target: str, brokers: Iterable[BrokerAt], others: Iterable[str] = ()) -> BrokerAt:
    """Return the broker of a target such as `broker-a:slave`.

    OperationError if there is none.
    """
    known = list(brokers)
    name, _, role = target.partition(":")
    of_name = [one for one in known if one.broker == name]
    if not known:
        raise UnknownNameError(f"unknown broker {target!r}: the nameserver lists no broker")
    if not of_name:
        raise unknown("broker", target, {*others, *(one.broker for one in known)})
    for one in of_name:
        is_meant = {"": True, "master": one.broker_id == MASTER_ID, "slave": one.broker_id != MASTER_ID}
        if is_meant.get(role, role == str(one.broker_id)):
            return one
    listed = ", ".join(f"{name}:{one.broker_id} ({one.address})" for one in of_name)
    raise UnknownNameError(f"no broker {target!r} is registered; there are: {listed}")


@contextlib.asynccontextmanager
async def open_operator(connection: Connection) -> AsyncIterator[Operator]:
    """Open a client for operations, for the length of the block.

    Failures of requests in the block become OperationError.
    """
    try:
        async with open_client(connection.config()) as client:
            yield Operator(client, connection)
    except (HeaderError, BodyError, RecordError) as exc:
        raise OperationError(f"a server sent an invalid reply: {exc}") from None
    except FAILURES as exc:
        raise OperationError(str(exc)) from None
