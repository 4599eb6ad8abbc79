"""Changes of the route table, for the journal and the log.

Causes are a request, a scan or a lost connection.
"""

import enum
from collections.abc import Mapping

import attrs


class BrokerChangeKind(enum.StrEnum):
    """How an address was added or removed.

    The values are the kinds of the journal's events.
    """

    REGISTERED = "broker_registered"
    UNREGISTERED = "broker_unregistered"
    EXPIRED = "broker_expired"
    CONNECTION_LOST = "broker_connection_lost"


@attrs.frozen(kw_only=True)
class BrokerChange:
    """One broker's address was added or removed.

    Heartbeats without a change make no such value.
    """

    kind: BrokerChangeKind
    cluster: str
    broker_name: str
    broker_id: int
    address: str
    reason: str
    remaining: Mapping[int, str]
    """The addresses that the broker name has now, by broker id."""


@attrs.frozen(kw_only=True)
class QueueChange:
    """A change of topics' queues at a broker name (None: at any).

    They were added, changed or removed.
    """

    broker_name: str | None
    topics: tuple[str, ...]
    reason: str


Change = BrokerChange | QueueChange
