"""Entries of the route table for brokers."""

from collections.abc import Hashable, Sequence
from typing import Any

import attrs

from rmqlab.remoting.bodies.topic import DataVersion


@attrs.define(eq=False)
class BrokerName:
    """The addresses behind one broker name, by broker id."""

    cluster: str
    broker_name: str
    addresses: dict[int, str] = attrs.field(factory=dict)


INCOMPLETE = DataVersion(counter=-1, timestamp=-1)
"""Version of a registration until all its topics are entered: another one meanwhile enters them, too."""


@attrs.define(eq=False)
class BrokerLive:
    """The last registration from one address."""

    seen_at: float
    data_version: DataVersion
    connection: Any
    """The connection, compared by identity; `RouteTable.expire` returns it to be closed."""
    ha_address: str | None
    filter_servers: Sequence[str] | None
    """As the last registration had them."""
    body_key: Hashable
    """Fingerprint of the last registration's body; None if it is unknown."""
