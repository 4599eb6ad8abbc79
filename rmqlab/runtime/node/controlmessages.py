"""Messages between a process of the cluster and its supervisor.

A Unix stream socket in the cluster's directory transports them as msgpack maps. A process sends Hello, Ready once it
serves, Events as they happen, and a response to every SnapshotRequest and SetRules. The end of the stream means that
the supervisor has ended, and the process stops itself.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.runtime.net.node_faults import PlainRules
from rmqlab.runtime.node.mapcodec import MapCodec


@attrs.frozen
class Hello:
    """The first message of a process: the name of its node."""

    name: str
    pid: int


@attrs.frozen
class Ready:
    """The process serves.

    Contains facts that are known only now, such as bound addresses.
    """

    facts: dict[str, Any]


@attrs.frozen
class Stopping:
    """The process has begun to stop.

    Closing the store and unregistering can take seconds.
    """


@attrs.frozen
class Event:
    """An event, with its time on the cluster's clock."""

    at_millis: int
    kind: str
    fields: Mapping[str, Any]


@attrs.frozen
class SnapshotRequest:
    """The supervisor requests the node's live facts."""

    id: int


@attrs.frozen
class Snapshot:
    """The response to the SnapshotRequest with the same id."""

    id: int
    facts: dict[str, Any]


@attrs.frozen
class SetRules:
    """The complete fault rules from now on."""

    id: int
    rules: PlainRules


@attrs.frozen
class RulesSet:
    """The rules of the SetRules with the same id are in effect."""

    id: int


@attrs.frozen
class LogMark:
    """A text for the log of the process. It has no response."""

    text: str


Message = Hello | Ready | Stopping | Event | SnapshotRequest | Snapshot | SetRules | RulesSet | LogMark

CONTROL: MapCodec[Message] = MapCodec(Message)
