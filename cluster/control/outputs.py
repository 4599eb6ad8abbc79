"""Documents that endpoints return, as typed classes for the OpenAPI document.

docs/json.md describes each member.

New members can be added at any time, so these classes list the members that a client can rely on.
"""

from typing import Annotated, Any, Literal

import msgspec

Text = str | None


class Node(msgspec.Struct):
    """A node and its live facts. Actions add members."""

    name: str
    kind: str
    state: str
    group: Text
    role: Text
    broker_id: int | None
    address: str
    ha_address: Text
    pid: int | None
    data_dir: str
    end: Text


Nodes = list[Node]


class Fault(msgspec.Struct):
    """A fault in force, with its values."""

    id: str
    type: str
    applied_at: int


Faults = list[Fault]


class Replication(msgspec.Struct):
    """The replication to one slave."""

    group: str
    slave: str
    master: Text
    connected: bool | None
    lag: int | None
    inSync: bool | None  # noqa: N815 -- mqadmin's label


class Status(msgspec.Struct):
    """The cluster as it is now."""

    name: str
    namesrv_addr: str
    mode: str
    rate: float
    clock_millis: int
    faults: list[Fault]
    nodes: list[Node]
    masters: dict[str, list[str]]
    replication: list[Replication]
    routes: dict[str, dict[str, dict[str, str]] | None]


class Event(msgspec.Struct):
    """An event: the data of one server-sent event."""

    at: int
    node: str
    kind: str


class Judgement(msgspec.Struct):
    """What the journals and stores of the run prove."""

    verdict: Literal["holds", "violated", "unknown"]
    why: list[str]
    warnings: list[str]
    violating: list[str]
    findings: dict[str, dict[str, Any]]


class Topics(msgspec.Struct):
    """The names of topics."""

    topics: list[str]


class QueueData(msgspec.Struct):
    """The queues of a topic at one broker name."""

    broker: str
    read_queues: int
    write_queues: int
    perm: Annotated[int, msgspec.Meta(description="4 readable, 2 writable, 6 both.")]


class Route(msgspec.Struct):
    """The route of a topic."""

    topic: str
    queues: list[QueueData]
    brokers: Annotated[
        dict[str, dict[str, str]],
        msgspec.Meta(description="Addresses by broker id, by broker name; id 0 is the master."),
    ]


class Group(msgspec.Struct):
    """A consumer group's settings, and the masters that have them."""

    group: str
    brokers: list[str]
    consume_enable: bool
    broker_id: int
    which_broker_when_consume_slowly: int
    retry_max_times: int


class Groups(msgspec.Struct):
    """The consumer groups of all masters in the route of the nameserver in use."""

    groups: list[Group]


class QueueOffset(msgspec.Struct):
    """A group's offset in one queue, in messages."""

    topic: str
    broker: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    lag: int
    last_timestamp: Annotated[
        int, msgspec.Meta(description="When the last consumed message was stored, in ms; 0 if unknown.")
    ]


class Offsets(msgspec.Struct):
    """The offsets of a consumer group."""

    group: str
    lag: int
    queues: list[QueueOffset]


class PossibleActions(msgspec.Struct):
    """The actions that make sense on a node in its state."""

    node: str
    state: str
    actions: list[str]


class ErrorDetails(msgspec.Struct):
    """Why a request failed."""

    code: Annotated[str, msgspec.Meta(description="For programs: does not change.")]
    message: str
    field: Annotated[Text, msgspec.Meta(description="The field that is invalid.")]
    possible: list[PossibleActions] | msgspec.UnsetType = msgspec.UNSET


class Error(msgspec.Struct):
    """An error."""

    error: ErrorDetails
