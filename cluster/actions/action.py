"""An entry of the table of actions, and the typed method made from it."""

import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import attrs

from rmqlab.cluster.actions.reports import NodesReport, Report
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind

if TYPE_CHECKING:  # the command line reads the table, and does not run the actions
    from rmqlab.cluster.supervisor.supervisor import Supervisor

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

HEAL = "heal"
"""`undo` of an action that puts a fault in force: healing that fault undoes it."""


class Liveness(enum.Enum):
    """Liveness of a process, which decides the possible actions on it."""

    RUNNING = enum.auto()
    PAUSED = enum.auto()
    ENDED = enum.auto()


def liveness_of(state: str) -> Liveness:
    """Return the liveness of a node in this state (`NodeState`)."""
    if state == NodeState.PAUSED:
        return Liveness.PAUSED
    is_running = state in (NodeState.STARTING, NodeState.READY, NodeState.STOPPING)
    return Liveness.RUNNING if is_running else Liveness.ENDED


class Targets(enum.Enum):
    """The processes that an action accepts."""

    PROCESSES = enum.auto()
    """Nodes and workloads."""
    NODES = enum.auto()
    """Brokers and nameservers."""
    BROKERS = enum.auto()


class AsyncMethod(Protocol[R_co]):
    """An action as a method of the async API."""

    def __call__(self, target: str, *more: str) -> Coroutine[Any, Any, R_co]: ...


class BlockingMethod(Protocol[R_co]):
    """An action as a method of the blocking API."""

    def __call__(self, target: str, *more: str) -> R_co: ...


class AsyncActor(Protocol):
    """A class whose `act` is a coroutine function."""

    async def act(self, action: "NodeAction[R]", target: str, *more: str) -> R: ...


class BlockingActor(Protocol):
    """A class whose `act` returns the result."""

    def act(self, action: "NodeAction[R]", target: str, *more: str) -> R: ...


@attrs.define(eq=False, kw_only=True, repr=False)
class NodeAction(Generic[R]):
    """An action on the processes that a target names.

    `R` is the type of its result.

    As an attribute of a class that has `act`, it is a method that accepts one target or several. The attribute's name
    is the method's; with `-` for `_` it is the name of the command, of the supervisor's command and of the scenario
    action.
    """

    run: "Callable[[Supervisor, str], Awaitable[R]]"
    help: str
    """Help of the command. Its first line is in the list of commands."""
    doing: str
    """Text of the live view while the action runs: `killing`."""
    needs: Collection[Liveness] = tuple(Liveness)
    """The processes on which it makes sense."""
    leaves: Liveness | None = None
    """Liveness of a process afterwards; None if unchanged."""
    ended_as: str = ""
    """How errors about later steps describe a process that it has ended: `killed`."""
    targets: Targets = Targets.PROCESSES
    sets_role: str | None = None
    """`master` or `slave`: the role of a broker afterwards, which it must not have before. None: as before."""
    takes_settings: bool = False
    """True for a start, before which settings can be changed."""
    undo: str | None = None
    """Method that undoes it. Random faults choose among the actions that have one."""
    key: str | None = None
    """Key of the live view. Of two actions with one key, the process's liveness or role selects the action."""
    key_label: str = ""
    """Text of the live view beside the key; empty for the action's name."""
    report: Report[R] = attrs.field(factory=NodesReport)
    """Prints the result of the command."""
    method: str = attrs.field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        self.method = name

    @property
    def name(self) -> str:
        """Name of the command, and of the action in scenarios."""
        return self.method.replace("_", "-")

    @overload
    def __get__(self, cluster: None, owner: type) -> Self: ...
    @overload
    def __get__(self, cluster: AsyncActor, owner: type) -> AsyncMethod[R]: ...
    @overload
    def __get__(self, cluster: BlockingActor, owner: type) -> BlockingMethod[R]: ...
    def __get__(self, cluster: AsyncActor | BlockingActor | None, owner: type) -> object:
        return self if cluster is None else functools.partial(cluster.act, self)

    def __repr__(self) -> str:
        return f"<action {self.name}: {self.help.partition(chr(10))[0]}>"


def suits(action: NodeAction[Any], node: Node, state: NodeState) -> bool:
    """Return True if an action makes sense on a node in this state."""
    if action.targets is Targets.BROKERS and node.kind is not NodeKind.BROKER:
        return False
    if action.targets is Targets.NODES and node.kind is NodeKind.WORKLOAD:
        return False
    has_role = action.sets_role == ("master" if node.is_master else "slave")
    return not has_role and liveness_of(state) in action.needs
