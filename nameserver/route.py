"""The route table: the queues of topics and the addresses of broker names.

Five tables, as in RocketMQ's class RouteInfoManager, changed in place because a heartbeat of a broker with thousands of
topics must be cheap. No clock, no sockets, no log: the time is passed in, a connection is any object compared by
identity, and each method returns the changes.

Source: remoting-and-nameserver section 4, which describes the behaviour of 4.9 that this table keeps.
"""

import itertools
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import attrs

from rmqlab.nameserver.changes import BrokerChange, BrokerChangeKind, Change, QueueChange
from rmqlab.nameserver.entries import INCOMPLETE, BrokerLive, BrokerName
from rmqlab.nameserver.limits import (
    MAX_ADDRESSES,
    MAX_BROKER_NAMES,
    MAX_CLUSTERS,
    MAX_FILTER_SERVERS,
    MAX_IDS,
    MAX_MEMBERSHIPS,
    MAX_NAME_SIZE,
    RouteTableFullError,
    check_room,
)
from rmqlab.nameserver.queuetable import QueueTable
from rmqlab.nameserver.reverseindex import ReverseIndex
from rmqlab.remoting.bodies.route import QueueData
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig
from rmqlab.remoting.names import MASTER_ID
from rmqlab.remoting.steps import run_to_end

EXPIRY = 120.0
"""Seconds without a registration after which a broker is dropped (remoting#33)."""
MAX_EXPIRED_AT_ONCE = 1_000
PERM_WRITE = 2
PERM_READ_WRITE = 6


@attrs.frozen(kw_only=True)
class Registration:
    """One heartbeat of a broker. `filter_servers` of None keeps the known ones."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str | None
    data_version: DataVersion
    topics: Collection[TopicConfig]
    """Read only if the data version has changed."""
    filter_servers: Sequence[str] | None = None
    body_key: Hashable = None  # as in BrokerLive


class Registered(NamedTuple):
    """The master's addresses for the reply, for slaves only, and the changes."""

    master_address: str | None
    master_ha_address: str | None
    changes: list[Change]
    wants_topics: bool
    """True if its topics are to be entered, or were."""


@attrs.define(eq=False)
class RouteTable:
    """The five tables. Read them freely (see lookup); change them through the methods."""

    _queue_table: QueueTable = attrs.field(factory=QueueTable, init=False)
    brokers: dict[str, BrokerName] = attrs.field(factory=dict, init=False)
    """Broker name."""
    clusters: dict[str, dict[str, None]] = attrs.field(factory=dict, init=False)
    """Cluster name, then its broker names: a dict for a set that keeps its order."""
    live: dict[str, BrokerLive] = attrs.field(factory=dict, init=False)
    """Address."""
    filter_servers: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    """Address."""
    _registered_by: ReverseIndex[int, str] = attrs.field(factory=ReverseIndex, init=False)
    """The id() of a connection: the addresses that last registered over it. `live` keeps the connections alive."""
    _names_at: ReverseIndex[str, str] = attrs.field(factory=ReverseIndex, init=False)
    """Address: the broker names that have it. Thousands of connections may close at once (issue 12.6)."""

    @property
    def queues(self) -> dict[str, dict[str, QueueData]]:
        """Topic, then broker name."""
        return self._queue_table.by_topic

    # -- registration ----------------------------------------------------------------------------

    def register(self, broker: Registration, connection: object, *, now: float) -> Registered:
        """Apply one heartbeat, in the order of section 4.2.

        Topics are added or overwritten, never removed (remoting#26). Raises RouteTableFullError; then nothing changed.
        """
        registered = self.place(broker, connection, now=now)
        changes = list(registered.changes)
        run_to_end(self.enter_topics(broker, registered, changes.append))
        return registered._replace(changes=changes)

    def place(self, broker: Registration, connection: object, *, now: float) -> Registered:
        """Apply a heartbeat but for its topics, which `enter_topics` enters.

        Raises RouteTableFullError; then nothing changed.
        """
        wants_topics = self.wants_topics(broker)
        self._check_room(broker, wants_topics=wants_topics)
        changes: list[Change] = []
        self.clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        known = self.brokers.get(broker.broker_name)
        if known is None:  # a known broker name keeps its first cluster
            known = self.brokers[broker.broker_name] = BrokerName(broker.cluster, broker.broker_name)
        reason = self._place_address(known, broker)
        if reason is not None:
            changes.append(_added(known, broker, reason))
        self._drop_live(broker.address)
        version, body_key = (INCOMPLETE, None) if wants_topics else (broker.data_version, broker.body_key)
        self.live[broker.address] = BrokerLive(
            now, version, connection, broker.ha_address, broker.filter_servers, body_key
        )
        self._registered_by.add(id(connection), broker.address)
        if broker.filter_servers:
            self.filter_servers[broker.address] = list(broker.filter_servers)
        elif broker.filter_servers is not None:
            self.filter_servers.pop(broker.address, None)
        return Registered(*self._master_for(known, broker.broker_id), changes, wants_topics)

    def enter_topics(
        self, broker: Registration, registered: Registered, announce: Callable[[Change], object]
    ) -> Generator[None, None, None]:
        """Enter the topics of a broker that was placed, and yield after some.

        Those of one broker name are entered one after the other (see NameLocks): of two masters of one name, the last
        one has address and queues. Ends early if the broker is removed meanwhile, or registers by another name.
        Announces the change at the end. Raises RouteTableFullError, after it, if others that were entered meanwhile
        leave no room for all.
        """
        if not registered.wants_topics:
            return
        name, live, known = broker.broker_name, self.live[broker.address], self.brokers[broker.broker_name]
        changed: list[str] = []
        try:
            for _ in self._queue_table.upsert(name, broker.topics, changed):
                yield
                if self.brokers.get(name) is not known or self.live.get(broker.address, live) is not live:
                    return
            live.data_version, live.body_key = broker.data_version, broker.body_key
        finally:
            if changed and self.brokers.get(name) is known:  # also if its connection has closed
                announce(QueueChange(broker_name=name, topics=tuple(changed), reason="registered"))

    def _check_room(self, broker: Registration, *, wants_topics: bool) -> None:
        """Raise RouteTableFullError if this registration would exceed a limit."""
        known = self.brokers.get(broker.broker_name)
        texts = (broker.cluster, broker.broker_name, broker.address, broker.ha_address or "")
        servers = broker.filter_servers or ()
        if len(max(texts, key=len)) > MAX_NAME_SIZE or any(len(server) > MAX_NAME_SIZE for server in servers):
            raise RouteTableFullError(f"a name or an address has more than {MAX_NAME_SIZE} characters")
        if broker.broker_name not in self.clusters.get(broker.cluster, ()):
            check_room(MAX_MEMBERSHIPS, sum(map(len, self.clusters.values())), "pairs of cluster and broker name")
        if broker.cluster not in self.clusters:
            check_room(MAX_CLUSTERS, len(self.clusters), "clusters")
        if known is None:
            check_room(MAX_BROKER_NAMES, len(self.brokers), "broker names")
        elif broker.broker_id not in known.addresses:
            check_room(MAX_IDS, len(known.addresses), f"brokers named {broker.broker_name}")
        if broker.address not in self.live:
            check_room(MAX_ADDRESSES, len(self.live), "brokers")
        check_room(MAX_FILTER_SERVERS + 1, len(servers), "filter servers")
        if wants_topics:
            self._queue_table.check_room(broker.broker_name, broker.topics)

    def wants_topics(self, broker: Registration) -> bool:
        """True if a master is new here or its data version changed (remoting#26)."""
        if broker.broker_id != MASTER_ID:
            return False
        known = self.brokers.get(broker.broker_name)
        if known is None or broker.broker_id not in known.addresses:
            return True
        live = self.live.get(broker.address)
        return live is None or live.data_version != broker.data_version

    def _place_address(self, known: BrokerName, broker: Registration) -> str | None:
        """Set the address of an id; return the reason for a change, or None without one."""
        addresses = known.addresses
        former = [id_ for id_, address in addresses.items() if address == broker.address and id_ != broker.broker_id]
        for id_ in former:  # for example a slave that became the master (remoting#27)
            del addresses[id_]
        replaced = addresses.get(broker.broker_id)
        if replaced is not None:
            self._names_at.discard(replaced, known.broker_name)
        addresses[broker.broker_id] = broker.address
        self._names_at.add(broker.address, known.broker_name)
        if former:
            return f"was broker id {former[0]}"
        if replaced is None:
            return "new"
        return None if replaced == broker.address else f"replaces {replaced}"  # the last writer wins

    def _master_for(self, known: BrokerName, broker_id: int) -> tuple[str | None, str | None]:
        """Return the master's addresses for a slave, if it is live (remoting#25)."""
        address = known.addresses.get(MASTER_ID)
        if broker_id == MASTER_ID or address is None or (live := self.live.get(address)) is None:
            return None, None
        return address, live.ha_address

    def query_data_version(
        self, address: str | None, data_version: DataVersion | None, *, now: float
    ) -> tuple[bool, DataVersion | None]:
        """Return whether the version differs from the stored one, and the stored one.

        An equal version counts as a heartbeat (remoting#29). The stored one is None for an unknown address.
        """
        live = None if address is None else self.live.get(address)
        if live is None:
            return True, None
        if live.data_version != data_version:
            return True, live.data_version
        live.seen_at = now
        return False, live.data_version

    # -- removal ---------------------------------------------------------------------------------

    def unregister(self, cluster: str, address: str, broker_name: str, broker_id: int) -> list[Change]:
        """Unregister a broker (section 4.4).

        Its id is removed with any address: the late request of an old master removes the new one, as in 4.9.
        """
        self._drop_live(address)
        self.filter_servers.pop(address, None)
        broker = self.brokers.get(broker_name)
        if broker is None:
            return []
        held = broker.addresses.pop(broker_id, None)
        if held is not None:
            self._names_at.discard(held, broker_name)
        emptied = self._drop_broker(broker_name, [cluster]) if not broker.addresses else ()
        if held is None:
            return []
        reason = "unregistered" if held == address else f"unregistered by {address}"
        return _removed(BrokerChangeKind.UNREGISTERED, broker, broker_id, held, reason, emptied)

    def lose_connection(self, connection: object, fallback_address: str) -> list[Change]:
        """Remove the broker that last registered over a closed connection.

        Source: remoting#30 to #32. If no broker registered over it, the broker at the connection's remote address is
        removed; a client's address matches none.
        """
        address = self._registered_by.first(id(connection))
        if address is None:
            address = fallback_address
        return self._drop_address(BrokerChangeKind.CONNECTION_LOST, address, "connection lost")

    def expire(self, *, now: float, timeout: float = EXPIRY) -> tuple[list[Any], list[Change]]:
        """Drop silent brokers; return the connections to close (remoting#33)."""
        all_silent = ((a, live) for a, live in self.live.items() if live.seen_at + timeout < now)
        silent = list(itertools.islice(all_silent, MAX_EXPIRED_AT_ONCE))
        changes: list[Change] = []
        for address, live in silent:
            reason = f"no registration for {now - live.seen_at:.1f} s"
            changes += self._drop_address(BrokerChangeKind.EXPIRED, address, reason)
        return [live.connection for _, live in silent], changes

    def _drop_live(self, address: str) -> None:
        live = self.live.get(address)
        if live is not None:
            del self.live[address]
            self._registered_by.discard(id(live.connection), address)

    def _drop_address(self, kind: BrokerChangeKind, address: str, reason: str) -> list[Change]:
        self._drop_live(address)
        self.filter_servers.pop(address, None)
        name = self._names_at.first(address)
        if name is None:
            return []
        self._names_at.discard(address, name)
        broker = self.brokers[name]
        broker_id = next(id_ for id_, held in broker.addresses.items() if held == address)
        del broker.addresses[broker_id]
        # Only one cluster loses the name, even where it has two: 4.9 stops at the first.
        clusters = [name for name, members in self.clusters.items() if broker.broker_name in members][:1]
        emptied = self._drop_broker(broker.broker_name, clusters) if not broker.addresses else ()
        return _removed(kind, broker, broker_id, address, reason, emptied)

    def _drop_broker(self, broker_name: str, clusters: Iterable[str]) -> tuple[str, ...]:
        """Remove a broker name, its queues, and empty topics and clusters (remoting#31)."""
        del self.brokers[broker_name]
        for cluster in clusters:
            if (members := self.clusters.get(cluster)) is not None:
                members.pop(broker_name, None)
                if not members:
                    del self.clusters[cluster]
        return self._queue_table.remove_broker(broker_name)

    # -- administration --------------------------------------------------------------------------

    def delete_topic(self, topic: str | None, cluster: str | None) -> list[Change]:
        """Delete a topic, everywhere or at the brokers of one cluster (section 4.5).

        It stays deleted until a broker's data version changes (remoting#35).
        """
        if topic is None:
            return []
        if not cluster:
            is_gone = self._queue_table.delete(topic)
            return [QueueChange(broker_name=None, topics=(topic,), reason="deleted")] if is_gone else []
        return [
            QueueChange(broker_name=broker_name, topics=(topic,), reason=f"deleted in cluster {cluster}")
            for broker_name in self.clusters.get(cluster, {})
            if topic in self.queues and self._queue_table.remove([topic], broker_name)
        ]

    def wipe_write_perm(self, broker_name: str | None) -> tuple[int, list[Change]]:
        """Clear the write bit of a broker's topics; return how many (remoting#36)."""
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE, "write perm wiped")

    def add_write_perm(self, broker_name: str | None) -> tuple[int, list[Change]]:
        """Set all perms at a broker name to read and write, not inherit (remoting#36)."""
        return self._change_perm(broker_name, lambda _perm: PERM_READ_WRITE, "write perm added")

    def _change_perm(
        self, broker_name: str | None, changed: Callable[[int], int], reason: str
    ) -> tuple[int, list[Change]]:
        if broker_name is None:
            return 0, []
        count, topics = self._queue_table.change_perm(broker_name, changed)
        return count, [QueueChange(broker_name=broker_name, topics=topics, reason=reason)] if topics else []


def _added(known: BrokerName, broker: Registration, reason: str) -> BrokerChange:
    return BrokerChange(
        kind=BrokerChangeKind.REGISTERED,
        cluster=known.cluster,
        broker_name=broker.broker_name,
        broker_id=broker.broker_id,
        address=broker.address,
        reason=reason,
        remaining=dict(known.addresses),
    )


def _removed(
    kind: BrokerChangeKind, broker: BrokerName, broker_id: int, address: str, reason: str, emptied: tuple[str, ...]
) -> list[Change]:
    gone = BrokerChange(
        kind=kind,
        cluster=broker.cluster,
        broker_name=broker.broker_name,
        broker_id=broker_id,
        address=address,
        reason=reason,
        remaining=dict(broker.addresses),
    )
    if not emptied:
        return [gone]
    return [gone, QueueChange(broker_name=broker.broker_name, topics=emptied, reason=reason)]
