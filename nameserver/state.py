"""The state of one nameserver, and the events of its changes.

Its handlers and loops share the state.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import attrs

from rmqlab.nameserver.changes import BrokerChange, Change
from rmqlab.nameserver.config import NameserverConfig
from rmqlab.nameserver.kvchanges import KvChanges
from rmqlab.nameserver.kvconfig import KvConfig
from rmqlab.nameserver.namelocks import NameLocks
from rmqlab.nameserver.route import RouteTable
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.bounds import LEFT_OUT, SNAPSHOT
from rmqlab.runtime.net.callthread import Caller
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.slices import Later, Slices

TOPICS_IN_AN_EVENT = 50
"""Topics named in one event; the count is of all."""
TOPICS_IN_A_SNAPSHOT = 500
"""Topics named in a snapshot: the newest ones."""

Emit = Callable[..., None]


@attrs.define(eq=False)
class Nameserver:
    """The state that handlers read and change."""

    config: NameserverConfig
    kv: KvConfig
    now: Callable[[], float]
    """Seconds of the process's clock."""
    emit: Emit
    """Emits an event: its kind, and fields by name."""
    later: Later
    calls: Caller
    """Makes the calls that write the KV file."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    slices: Slices = attrs.Factory(lambda self: Slices(self.later, self.errors), takes_self=True)
    """Continues long requests."""
    kv_changes: KvChanges = attrs.Factory(lambda self: KvChanges(self.kv, self.calls), takes_self=True)
    routes: RouteTable = attrs.field(factory=RouteTable, init=False)
    name_locks: NameLocks = attrs.field(factory=NameLocks, init=False)
    is_stopping: bool = attrs.field(default=False, init=False)
    """True while this process closes its connections: the brokers on them are not lost."""

    def announce(self, changes: Iterable[Change]) -> None:
        """Emit an event for each change.

        A broker was added or removed, or the queues of topics changed.
        """
        if self.is_stopping:
            return
        for change in changes:
            if isinstance(change, BrokerChange):
                self.emit(
                    change.kind.value,
                    cluster=change.cluster,
                    broker_name=change.broker_name,
                    broker_id=change.broker_id,
                    address=change.address,
                    reason=change.reason,
                    remaining={str(broker_id): address for broker_id, address in change.remaining.items()},
                )
            else:
                self.emit(
                    "route_changed",
                    broker_name=change.broker_name,
                    reason=change.reason,
                    topics=list(change.topics[:TOPICS_IN_AN_EVENT]),
                    topic_count=len(change.topics),
                )

    def watch(self, channel: Channel) -> None:
        """Remove the broker of this connection from the routes when the connection closes."""
        channel.on_close.append(lambda: self.announce(self.routes.lose_connection(channel, channel.peer)))

    def expire(self) -> None:
        """Drop silent brokers and close their connections, in use or not (remoting#33)."""
        connections, changes = self.routes.expire(now=self.now(), timeout=self.config.broker_expiry)
        self.announce(changes)
        for connection in connections:
            connection.close(f"no registration for more than {self.config.broker_expiry:g} s")

    def snapshot(self) -> dict[str, Any]:
        """Return this nameserver's routes; of very many broker names, the oldest."""
        names = self.routes.brokers
        routes: dict[str, Any] = {
            name: {
                "cluster": broker.cluster,
                "addresses": {str(broker_id): address for broker_id, address in sorted(broker.addresses.items())},
            }
            for name, broker in islice(names.items(), SNAPSHOT.items - 1)
        }
        if len(names) > len(routes):
            routes[LEFT_OUT] = len(names) - len(routes)
        return {
            "routes": routes,
            "topics": len(self.routes.queues),
            "topic_names": [*islice(reversed(self.routes.queues), TOPICS_IN_A_SNAPSHOT)],
        }
