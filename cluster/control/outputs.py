"""Documents that endpoints return, as typed classes for the OpenAPI document.

docs/json.md describes each member. Results of `rmqlab.cluster.operate` are documents without a class here: their own
classes are typed.

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


class RemovedNode(msgspec.Struct):
    """A node that was taken out of the cluster."""

    name: str
    data_dir: str


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
    """The judgement of the run by its journals and stores."""

    verdict: Literal["holds", "violated", "unknown"]
    why: list[str]
    warnings: list[str]
    violating: list[str]
    findings: dict[str, dict[str, Any]]


class PossibleActions(msgspec.Struct):
    """The actions that are possible on a node in its state."""

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
