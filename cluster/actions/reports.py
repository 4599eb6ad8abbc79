"""Reports of actions: as a JSON document, and as lines for a person."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.cluster.supervisor.plan.roles import MASTER_ID, several_masters
from rmqlab.cluster.supervisor.plan.topology import NodeKind
from rmqlab.runtime.text.counted import counted

if TYPE_CHECKING:  # the supervisor makes documents; the command line only prints them
    from rmqlab.cluster.faults.active_faults import ActiveFault
    from rmqlab.cluster.supervisor.supervisor import Supervisor
    from rmqlab.store.offline.powerloss import Lost

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
Document = Mapping[str, Any]


class Report(Protocol[R_contra]):
    """A kind of report."""

    returns: ClassVar[str]
    """The kind of its document: the name of a class in `rmqlab.cluster.control.outputs`."""

    async def document(self, supervisor: "Supervisor", names: Collection[str], result: R_contra) -> Any:
        """Return what `--json` prints.

        `names` are the nodes that the target named before the action, and `result` is what the action returned.
        """
        ...

    def lines(self, document: Any) -> Iterator[str]:
        """Describe the document to a person."""
        ...


async def _nodes(supervisor: "Supervisor") -> list[dict[str, Any]]:
    from rmqlab.cluster.supervisor.live_status import live_status  # noqa: PLC0415 -- see above

    nodes: list[dict[str, Any]] = (await live_status(supervisor))["nodes"]
    return nodes


async def _nodes_with_masters(supervisor: "Supervisor", names: Collection[str]) -> list[dict[str, Any]]:
    """Return status entries, each with the other masters of its group."""
    nodes = await _nodes(supervisor)
    masters = [node for node in nodes if node["kind"] == NodeKind.BROKER and node["broker_id"] == MASTER_ID]
    return [
        {
            **node,
            "other_masters": [
                {"name": other["name"], "state": other["state"]}
                for other in masters
                if other["group"] == node["group"] and other["name"] != node["name"]
            ],
        }
        for node in nodes
        if node["name"] in names
    ]


def _no_members(_result: object, _name: str) -> Document:
    return {}


def _process(node: Document) -> str:
    return f"{node['name']} is {node['state']}" + (f" (pid {node['pid']})" if node["pid"] else "")


@attrs.frozen
class NodesReport(Generic[R]):
    """The status entries of the affected nodes: each has extra members and a line."""

    returns: ClassVar[str] = "Nodes"

    members: Callable[[R, str], Document] = _no_members
    """Members for the node of this name, from the action's result."""
    line: Callable[[Document], str] = _process

    async def document(self, supervisor: "Supervisor", names: Collection[str], result: R) -> list[dict[str, Any]]:
        nodes = await _nodes(supervisor)
        return [{**node, **self.members(result, node["name"])} for node in nodes if node["name"] in names]

    def lines(self, document: list[Document]) -> Iterator[str]:
        return map(self.line, document)


class RoleReport:
    """The status entries of the nodes whose role was changed.

    Each names the other masters of its group.
    """

    returns: ClassVar[str] = "Nodes"

    async def document(
        self, supervisor: "Supervisor", _names: Collection[str], result: Collection[str]
    ) -> list[dict[str, Any]]:
        return await _nodes_with_masters(supervisor, result)

    def lines(self, document: list[Document]) -> Iterator[str]:
        for node in document:
            process = f" (pid {node['pid']})" if node["pid"] else ""
            yield f"{node['name']} is {node['state']} as {node['role']}, broker id {node['broker_id']}{process}"
            for other in node["other_masters"] if node["broker_id"] == MASTER_ID else ():
                yield f"{other['name']} ({other['state']}) is still a master of {node['group']}: `demote` makes it a slave"


class StartReport:
    """The status entries of the started nodes.

    Each names the other masters of its group. A group of which several masters run now has a line.
    """

    returns: ClassVar[str] = "Nodes"

    async def document(self, supervisor: "Supervisor", names: Collection[str], _result: None) -> list[dict[str, Any]]:
        return await _nodes_with_masters(supervisor, names)

    def lines(self, document: list[Document]) -> Iterator[str]:
        yield from map(_process, document)
        masters: dict[str, set[str]] = {}
        for node in document:
            others = {other["name"] for other in node["other_masters"] if other["state"] == NodeState.READY}
            is_master = node["broker_id"] == MASTER_ID and node["state"] == NodeState.READY
            if is_master and others and node["ha_address"]:  # a DLedger group, without HA, elects one itself
                masters.setdefault(node["group"], set()).update({node["name"]}, others)
        for group, names in masters.items():
            yield f"{several_masters(group, sorted(names))}. `demote` makes one a slave"


class FaultReport:
    """The fault that the action put in force."""

    returns: ClassVar[str] = "Fault"

    async def document(
        self, _supervisor: "Supervisor", _names: Collection[str], result: "ActiveFault"
    ) -> dict[str, Any]:
        return result.as_json()

    def lines(self, document: Document) -> Iterator[str]:
        from rmqlab.faults import describe_fault  # noqa: PLC0415 -- only for this report

        yield f"{document['id']}: {describe_fault(document)}"


def _lost_members(losses: "Mapping[str, Lost]", name: str) -> Document:
    return {"lost": attrs.asdict(losses[name])}


def _lost_line(node: Document) -> str:
    lost = node["lost"]
    if node["kind"] != "broker":
        return f"{node['name']} is {node['state']}: it has no commit log to lose"
    if not lost["log_bytes"]:
        return f"{node['name']} is {node['state']}: all of its commit log was on disk"
    return (
        f"{node['name']} is {node['state']}: lost {counted(lost['log_bytes'], 'bytes')} of the commit log"
        f" from offset {lost['flushed']} on, with {counted(lost['messages'], 'messages')}"
    )


def _wiped_members(deleted: Mapping[str, int], name: str) -> Document:
    return {"deleted_files": deleted[name]}


def _wiped_line(node: Document) -> str:
    return f"{node['name']} is {node['state']}: deleted {counted(node['deleted_files'], 'files')}"


POWER_LOSS_REPORT = NodesReport(_lost_members, _lost_line)
WIPE_REPORT = NodesReport(_wiped_members, _wiped_line)
